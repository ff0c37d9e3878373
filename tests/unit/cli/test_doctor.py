import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from support.command_line import demur
from support.model_endpoint import RawReply, llama_guard_reply, model_endpoint
from support.support_desk import RISKY, SMALL, changed_store, decided, set_policy, setting, signer

from demur.store.opening import open_store

pytestmark = pytest.mark.usefixtures("workspace")


def found(*words: str) -> list[dict[str, Any]]:
    """Return what is not well."""
    told = json.loads(demur("doctor", "--json", *words).out)
    return [check for check in told["checks"] if check["state"] != "ok"]


def said(state: str, name: str) -> str:
    """Return the message of the only check that is not ok."""
    [check] = found()
    assert (check["state"], check["check"]) == (state, name)
    text: str = check["what"]
    return text


def test_a_fresh_folder_is_well() -> None:
    decided(SMALL)
    ran = demur("doctor")

    assert (ran.status, ran.err) == (0, "")
    assert "ok       settings   demur.toml\n" in ran.out
    assert "ok       policy     support-desk 1.0.0, 11 rules\n" in ran.out
    assert "ok       chain      the newest record is valid\n" in ran.out
    assert ran.out.endswith("\nall is well\n")


def name_model(url: str, more: str = "") -> None:
    table = f'[guards.models.llama_guard]\nkind = "llama_guard"\nurl = "{url}"\nretries = 0\n'
    text = Path("demur.toml").read_text(encoding="utf-8")
    Path("demur.toml").write_text(f"{text}\n{table}{more}", encoding="utf-8")


def test_a_model_of_your_own_is_asked_whether_it_answers() -> None:
    with model_endpoint(llama_guard_reply) as server:
        name_model(server.url)
        assert found() == []
        line = "`llama_guard` answers: meta-llama/Llama-Guard-3-8B, 15 categories"
        assert f"ok       model      {line}\n" in demur("doctor").out


def test_a_model_that_does_not_answer_is_a_problem() -> None:
    with model_endpoint(RawReply(404)) as server:
        name_model(server.url)
        assert said("problem", "model") == (
            "`llama_guard` gives no scores: the model answered HTTP 404; "
            "each check that needs it abstains"
        )
        assert "`url`, which ends with `/v1`" in found()[0]["help"]


def test_a_model_that_may_be_missing_is_a_warning() -> None:
    with model_endpoint(RawReply(200, b"{}")) as server:
        name_model(server.url, 'on_failure = "signal_missing"\n')
        assert said("warning", "model").endswith("; its signals are missing")


def test_a_model_whose_file_is_broken_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_session(*_args: Any, **_settings: Any) -> None:
        raise RuntimeError("secret words of the file")

    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=open_session))
    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace())
    Path("broken.onnx").write_bytes(b"onnx")
    text = Path("demur.toml").read_text(encoding="utf-8")
    table = '[guards.models.local]\nkind = "onnx"\npath = "broken.onnx"\n'
    Path("demur.toml").write_text(f"{text}\n{table}", encoding="utf-8")
    assert said("problem", "model") == (
        "`local` gives no scores: it raised RuntimeError; each check that needs it abstains"
    )


def test_a_wrong_setting_of_a_model_is_reported_once() -> None:
    name_model("localhost")
    assert said("problem", "guards") == "guards.models.llama_guard.url: not an HTTP address"


def test_without_settings_there_is_a_problem_and_help() -> None:
    Path("demur.toml").unlink()
    Path("demur.db").unlink()
    ran = demur("doctor")

    assert ran.status == 1
    assert ran.out.startswith(
        "problem  settings   there is no demur.toml and no demur.db in this folder or above\n"
        "  help: `demur init --agent` makes them"
    )
    assert ran.out.endswith("\n1 problem\n")


def test_keys_that_expire_soon_or_never_are_warned_of() -> None:
    for words in (["--expires", "3d"], ["--expires", "never"], []):
        demur("keys", "create", "--tenant", "acme", "--role", "read", *words)
    soon, never = found()

    assert (soon["state"], soon["check"], never["check"]) == ("warning", "api keys", "api keys")
    assert " of acme expires at 20" in soon["what"]
    assert never["what"].startswith("1 never expire, like ")


def test_settings_that_cannot_be_used_are_a_problem() -> None:
    setting("atempts = 3")

    assert said("problem", "settings") == "demur.toml: unknown setting `atempts`"


def test_a_policy_that_does_not_load_is_a_problem_with_its_first_few_places() -> None:
    set_policy("verdict: ALLOW", "verdict: ALOW")
    set_policy("gt: 200", "gtt: 200")
    set_policy("gte: 0.8", "gtte: 0.8")
    checks = found()

    assert [check["check"] for check in checks] == ["policy"] * 4
    assert "policy.yaml:" in checks[0]["what"]
    assert checks[-1]["what"].startswith("and ")
    assert checks[-1]["help"] == "`demur policy validate policy.yaml` lists all problems"


def test_doctor_reports_warnings_on_the_policy() -> None:
    set_policy("verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE", "verdict: ALLOW")

    assert "requests that no rule matches are allowed" in said("warning", "policy")


def test_doctor_shows_the_first_of_many_diagnostics_and_errors_are_problems() -> None:
    rule = "  - id: {}\n    stage: HARD_BLOCKS\n    if: {{ action_type: refund }}\n"
    then = "    then: { verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK] }\n"
    set_policy("rules:\n", "rules:\n" + rule.format("R_A") + then + rule.format("R_B") + then)
    checks = found()

    assert {check["check"] for check in checks} == {"policy"}
    assert checks[0]["state"] == "problem"
    assert checks[0]["what"].endswith(", and 2 more like it")


def test_advisory_mode_is_worth_knowing() -> None:
    setting('mode = "advisory"')

    assert said("warning", "mode") == "advisory: verdicts are recorded and do not bind"


def test_a_registry_that_cannot_be_read_is_a_problem() -> None:
    setting('registries = ["gone.json"]')

    assert "gone.json" in said("problem", "registry")


def test_a_rule_file_of_guards_that_cannot_be_read_is_a_problem() -> None:
    setting('guards = {rules = ["gone.yaml"]}')

    assert said("problem", "guards").startswith("gone.yaml: cannot read the rules")


def test_doctor_counts_the_guards_and_codes_in_shadow() -> None:
    setting('guards = {shadow = ["input", "PII_DETECTED"]}')

    assert "ok       guards     2 in shadow\n" in demur("doctor").out


@pytest.mark.parametrize(
    ("line", "state"), [('redaction = "of"', "problem"), ('redaction = "off"', "warning")]
)
def test_doctor_reports_redaction_that_is_off_or_unknown(line: str, state: str) -> None:
    setting(line)

    assert said(state, "redaction")


def test_doctor_shows_additional_paths_to_redact() -> None:
    setting('redact_paths = ["evidence.name"]')

    assert "ok       redaction  default, and evidence.name\n" in demur("doctor").out


@pytest.mark.parametrize(
    ("mode", "words"), [("findings", "where a guard finds something"), ("all", "at each check")]
)
def test_doctor_says_that_excerpts_are_recorded(mode: str, words: str) -> None:
    assert "excerpts" not in demur("doctor").out
    setting(f'excerpts = "{mode}"')

    assert f"ok       excerpts   up to 500 characters are recorded {words}, sealed\n" in (
        demur("doctor").out
    )


def test_doctor_lists_trusted_keys_by_holder() -> None:
    signer()
    setting('keys = "mary.trusted.json"')

    assert "ok       keys       grants of user:mary are accepted\n" in demur("doctor").out


def test_doctor_says_that_approvals_of_people_count() -> None:
    assert "no trusted keys, so no grant is accepted" in demur("doctor").out
    demur("people", "init")

    assert "ok       keys       grants of people are accepted\n" in demur("doctor").out


def test_keys_that_cannot_be_read_are_a_problem() -> None:
    setting('keys = "gone.json"')

    assert said("problem", "keys") == "gone.json: cannot read the keys: no such file or directory"


def test_a_revocation_file_that_cannot_be_read_is_a_problem() -> None:
    setting('revocations = "revoked.json"')
    assert said("problem", "revocations").startswith("revoked.json: cannot read")
    demur("grant", "revoke", "g1", "--revoked", "revoked.json")

    assert "1 grants are revoked by revoked.json" in demur("doctor").out


def test_a_store_that_is_not_there_yet_is_fine() -> None:
    Path("demur.db").unlink()

    assert "demur.db does not exist yet; the first decision creates it\n" in demur("doctor").out
    assert not Path("demur.db").exists()


def test_no_store_at_all_is_worth_knowing() -> None:
    Path("demur.toml").write_text('store = ""\n', encoding="utf-8")

    assert said("warning", "store").startswith("none: decisions are made, but cannot be proved")


def test_doctor_fix_creates_a_missing_folder() -> None:
    Path("demur.toml").write_text('store = "data/here/demur.db"\n', encoding="utf-8")

    assert said("problem", "store") == "the folder data/here does not exist"
    ran = demur("doctor", "--fix")
    assert (ran.status, Path("data/here").is_dir()) == (0, True)
    assert ran.out.startswith("fixed    store      the folder data/here does not exist\n")


def test_a_folder_that_cannot_be_created_stays_a_problem() -> None:
    Path("demur.toml").write_text('store = "policy.yaml/demur.db"\n', encoding="utf-8")

    assert demur("doctor", "--fix").status == 1


def test_a_file_that_is_no_database_is_a_problem() -> None:
    Path("demur.db").write_bytes(b"hello " * 1000)

    assert "cannot use the database" in said("problem", "store")


def test_a_database_that_lost_a_table_is_a_problem() -> None:
    with closing(sqlite3.connect("demur.db")) as database:
        database.execute("DROP TABLE labels")

    assert "no such table: labels" in said("problem", "store")


def test_normal_durability_is_worth_knowing() -> None:
    setting('durability = "normal"')

    assert said("warning", "durability").startswith("normal: a power failure may lose")


def test_a_store_that_takes_no_writes_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect("demur.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        # Who writes for longer than this counts as writing for too long.
        patient = {**(open_store.__kwdefaults__ or {}), "busy_timeout_s": 0.05}
        monkeypatch.setattr(open_store, "__kwdefaults__", patient)
        checks = found()

    assert ("problem", "writing") in [(check["state"], check["check"]) for check in checks]


def test_a_broken_chain_is_a_problem() -> None:
    decided(RISKY)
    with changed_store() as connection:
        connection.execute("UPDATE decision_records SET verdict = 'ALLOW'")

    assert said("problem", "chain") == (
        "broken at record 1 of tenant default: column differs from the record: `verdict`"
    )


def test_records_of_a_chain_without_a_head_are_found_out() -> None:
    decided(RISKY)
    with changed_store() as connection:
        connection.execute("DELETE FROM chain_heads")

    assert "broken at record 1 of tenant default" in said("problem", "chain")


def test_unconfirmed_records_are_worth_knowing() -> None:
    decided(SMALL)
    with closing(sqlite3.connect("demur.db", isolation_level=None)) as database:
        database.execute("UPDATE decision_records SET confirmed = 0")

    assert said("warning", "chain") == (
        "stored too late for their callers: 1 of the newest records"
    )


def test_a_record_from_the_future_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    decided(SMALL)
    early = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("demur.cli.doctor.system_clock", lambda: early)

    assert "which is in the future" in said("problem", "clock")


def spooled(caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect("demur.db")) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON decision_records "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    decided(SMALL)
    assert caplog.text


def test_decisions_that_could_not_be_stored_are_a_problem(caplog: pytest.LogCaptureFixture) -> None:
    spooled(caplog)

    assert said("problem", "spool").startswith("1 decision could not be stored, since 20")


def test_lines_of_the_spool_that_cannot_be_read_count(caplog: pytest.LogCaptureFixture) -> None:
    spooled(caplog)
    with Path("demur.db.spool.jsonl").open("a", encoding="utf-8") as file:
        file.write("{\n")

    assert ", 1 of them unreadable" in said("problem", "spool")
    Path("demur.db.spool.jsonl").write_text("{\n", encoding="utf-8")
    assert said("problem", "spool") == "1 decision could not be stored, 1 of them unreadable"


def test_a_spool_that_cannot_be_read_is_a_problem() -> None:
    Path("demur.db.spool.jsonl").mkdir()

    assert "the spool cannot be read" in said("problem", "spool")


def test_no_spool_is_no_check() -> None:
    setting('spool = ""')

    assert "spool" not in demur("doctor").out


class Exposed(NamedTuple):
    path: str
    before: int
    after: int
    make: Callable[[], object]


@pytest.mark.parametrize(
    "file",
    [
        Exposed("demur.db", 0o644, 0o640, lambda: None),
        Exposed("mary.key.json", 0o604, 0o600, signer),
        Exposed("demur.db.spool.jsonl", 0o664, 0o660, Path("demur.db.spool.jsonl").touch),
        Exposed("policy.yaml", 0o666, 0o664, lambda: None),
        Exposed("demur.toml", 0o646, 0o644, lambda: None),
    ],
    ids=lambda file: file.path,
)
def test_files_that_are_open_to_others_are_closed_by_fix(file: Exposed) -> None:
    file.make()
    path = Path(file.path)
    path.chmod(file.before)

    assert said("problem", "rights").startswith(f"{path} can be ")
    assert demur("doctor", "--fix").status == 0
    assert path.stat().st_mode & 0o777 == file.after


def test_a_trusted_key_that_can_sign_is_a_secret() -> None:
    signer()
    setting('keys = "mary.trusted.json"')
    Path("mary.trusted.json").chmod(0o644)

    assert said("problem", "rights").startswith("mary.trusted.json can be read by every user")


def test_a_trusted_key_that_cannot_sign_is_no_secret() -> None:
    demur("grant", "keygen", "mary", "--holder", "user:mary")
    setting('keys = "mary.trusted.json"')

    assert found() == []


def test_a_hook_that_the_agent_could_replace_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    demur("hook", "install", "claude-code", "--yes")
    monkeypatch.setattr("os.access", lambda _path, _mode: True)
    assert "an agent that runs as you can write" in said("warning", "hook")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert found() == []

    demur("hook", "install", "claude-code", "--yes", "--project")
    assert "by name or with the environment" in said("warning", "hook")
    Path(".claude/settings.json").write_text('{"hooks": 3}')
    assert "`hooks` must be an object" in said("problem", "hook")
