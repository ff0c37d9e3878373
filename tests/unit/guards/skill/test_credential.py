from skills import actions, findings, seen

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action

TOKEN = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def test_a_credential_is_found_in_every_text_and_never_shown() -> None:
    for path in ("run.py", "notes", ".env", "app.js"):
        for found in findings({path: f"KEY = '{TOKEN}'\nsend(KEY)\n"}):
            assert TOKEN not in str(found)
            assert found.code in {ReasonCode.SECRET_LEAK, ReasonCode.GUARDRAIL_PARTIAL}


def test_a_detail_that_quotes_the_source_stops_before_a_credential() -> None:
    text = f"import os\nos.system(f'login {TOKEN} ' + name)\n"
    every = findings({"run.py": text})

    assert {"CREDENTIAL", "PY_SHELL_DYNAMIC"} <= {one.evidence["rule"] for one in every}
    assert all(TOKEN[:8] not in f"{one.detail} {dict(one.evidence)}" for one in every)


def test_a_private_key_is_asked_about_and_a_doubtful_one_on_record() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEAx7Zk1q8" * 4 + "\n"

    assert actions(key, "id") == {"CREDENTIAL": Action.ESCALATE}
    assert actions("api_key = 'q8Zr7Lw2Xk9Tn4Vb6Yc1'\n")["CREDENTIAL"] is Action.WARN


def test_what_two_searches_see_is_one_credential() -> None:
    assert len(findings({"config": f"token = '{TOKEN}'\n"})) == 1


def test_placeholders_and_binaries_pass() -> None:
    assert seen("token = '<your token>'\n", "config") == set()
    assert seen(b"\0" + TOKEN.encode(), "data") == set()
