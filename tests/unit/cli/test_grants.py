"""The grant commands together, as a person would use them."""

import json
import stat
from pathlib import Path

import httpx
import pytest
from support.command_line import demur
from support.gates import refund
from support.service_process import folder_of, started

from demur.gate.config import load_config, open_gate
from demur.model.grant import Grant


@pytest.fixture
def mary(tmp_path: Path) -> Path:
    assert demur("grant", "keygen", tmp_path / "mary", "--holder", "user:mary").status == 0
    return tmp_path


def create(folder: Path, *more: object) -> str:
    ran = demur(
        *("grant", "create", "approval", "--key", folder / "mary.key.json"),
        *("--to", "agent:a", "--scope", "action=refund", *more),
    )
    assert ran.status == 0, ran.err
    return ran.out


def test_a_signed_grant_verifies_offline(mary: Path) -> None:
    grant = create(mary, "--for", "8h", "--code", "APPROVAL_REQUIRED", "--id", "g1")
    ran = demur("grant", "verify", "-", "--trust", mary / "mary.trusted.json", stdin=grant)

    assert ran.status == 0
    assert "user:mary grants approval to agent:a for action=refund" in ran.out


def test_a_changed_grant_is_rejected(mary: Path) -> None:
    path = mary / "g.json"
    path.write_text(create(mary).replace("refund", "payout"))
    ran = demur("grant", "verify", path, "--trust", mary / "mary.trusted.json")

    assert ran.status == 3
    assert ran.out == "rejected: bad signature\n"


def test_a_revoked_grant_is_rejected(mary: Path) -> None:
    path, revoked = mary / "g.json", mary / "revoked.json"
    path.write_text(create(mary, "--id", "g1"))
    demur("grant", "revoke", "g0", "--revoked", revoked)
    ran = demur("grant", "revoke", "g1", "--revoked", revoked)
    assert f"  {revoked}: 2 on the list; gates whose settings name it" in ran.out
    ran = demur(
        *("grant", "verify", path, "--trust", mary / "mary.trusted.json"),
        *("--revoked", revoked, "--json"),
    )

    assert ran.status == 3
    assert json.loads(ran.out) == {"grant_id": "g1", "valid": False, "why": "revoked"}


@pytest.mark.parametrize("algorithm", ["ed25519", "hmac-sha256"])
def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path, algorithm: str) -> None:
    demur("grant", "keygen", tmp_path / "k", "--holder", "h", "--algorithm", algorithm)
    secret_modes = [stat.S_IMODE((tmp_path / "k.key.json").stat().st_mode)]
    if algorithm == "hmac-sha256":
        secret_modes.append(stat.S_IMODE((tmp_path / "k.trusted.json").stat().st_mode))

    assert set(secret_modes) == {0o600}


def test_a_key_is_never_written_over(mary: Path) -> None:
    ran = demur("grant", "keygen", mary / "mary", "--holder", "user:eve")

    assert ran.status == 1
    assert "cannot write: file exists" in ran.err


def test_a_limited_key_signs_nothing_else(tmp_path: Path) -> None:
    demur("grant", "keygen", tmp_path / "k", "--holder", "h", "--kind", "scope")
    ran = demur(
        *("grant", "create", "approval", "--key", tmp_path / "k.key.json"),
        *("--to", "a", "--scope", "x=y"),
    )

    assert ran.status == 1
    assert "may not grant `approval`" in ran.err


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--scope", "refund"], "KEY=VALUE"),
        (["--for", "soon"], "not a period"),
        (["--for", "0h"], "not a period"),
        (["--code", "NOPE"], "unknown code"),
    ],
)
def test_bad_words_say_what_is_meant(mary: Path, more: list[str], problem: str) -> None:
    ran = demur(
        *("grant", "create", "approval", "--key", mary / "mary.key.json"),
        *("--to", "agent:a", "--scope", "action=refund", *more),
    )

    assert ran.status == 2
    assert problem in ran.err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"key_id": 1}', "\x00"])
def test_a_broken_key_names_its_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    ran = demur("grant", "create", "scope", "--key", path, "--to", "a", "--scope", "x=y")

    assert ran.status == 1
    assert f"{path}: not a SigningKey" in ran.err


def test_missing_files_are_named(tmp_path: Path) -> None:
    ran = demur("grant", "verify", tmp_path / "none.json", "--trust", tmp_path / "k.json")

    assert ran.status == 1
    assert "none.json: cannot read: no such file" in ran.err


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_a_broken_revocation_list_is_no_empty_one(mary: Path, content: str) -> None:
    revoked = mary / "revoked.json"
    revoked.write_text(content)
    ran = demur(
        *("grant", "verify", "-", "--trust", mary / "mary.trusted.json", "--revoked", revoked),
        stdin=create(mary),
    )

    assert ran.status == 1
    assert "not a JSON list of grant ids" in ran.err


def test_a_revocation_list_that_is_named_must_be_there(mary: Path) -> None:
    ran = demur(
        *("grant", "verify", "-", "--trust", mary / "mary.trusted.json"),
        *("--revoked", mary / "typo.json"),
        stdin=create(mary),
    )

    assert ran.status == 1
    assert "typo.json: cannot read: no such file" in ran.err


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--scope", "action=payout"], "the scope names `action` twice"),
        (["--code", "RCE_RISK"], "a grant of approval does not lift `RCE_RISK`"),
        (["--code", "SCOPE_MISSING"], "a grant of approval does not lift `SCOPE_MISSING`"),
    ],
)
def test_a_grant_that_would_not_do_what_it_says_is_not_signed(
    mary: Path, more: list[str], problem: str
) -> None:
    ran = demur(
        *("grant", "create", "approval", "--key", mary / "mary.key.json"),
        *("--to", "agent:a", "--scope", "action=refund", *more),
    )

    assert ran.status == 2
    assert problem in ran.err


def test_a_key_has_a_name() -> None:
    assert "a key needs a name" in demur("grant", "keygen", "", "--holder", "h").err


@pytest.fixture
def work(mary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder whose gate trusts Mary."""
    folder_of(mary)
    write_settings(mary)
    monkeypatch.chdir(mary)
    return mary


def write_settings(folder: Path, *lines: str) -> None:
    text = "\n".join(['keys = "mary.trusted.json"', *lines, ""])
    (folder / "demur.toml").write_text(text)


def billing_grant(*more: object, grant_id: str = "g1") -> str:
    ran = demur(
        *("grant", "create", "approval", "--key", "mary.key.json", "--to", "agent:billing"),
        *("--scope", "action=refund", "--id", grant_id, *more),
    )
    assert ran.status == 0, ran.err
    return ran.out


def test_a_running_gate_sees_what_the_command_revokes(work: Path) -> None:
    given = Grant.from_json(billing_grant())
    with open_gate(load_config(work / "demur.toml")) as gate:
        assert gate.decide(refund(900), grants=[given]).verdict == "ALLOW"
        ran = demur("grant", "revoke", "g1", "--note", "cancelled")
        after = gate.decide(refund(900), grants=[given])

    assert ran.out == (
        "revoked g1\n  demur.db: every gate over this store sees it at its next decision, "
        "for all tenants\n"
    )
    assert [one.why for one in after.ignored_grants] == ["revoked"]
    with open_gate(load_config(work / "demur.toml")) as gate:
        restarted = gate.decide(refund(900), grants=[given])
    assert [one.why for one in restarted.ignored_grants] == ["revoked"]
    assert "it was revoked before" in demur("grant", "revoke", "g1").out


def test_a_running_service_sees_what_the_command_revokes(work: Path) -> None:
    token = json.loads(
        demur(
            *("keys", "create", "--tenant", "default", "--role", "decide"),
            *("--subject", "agent:billing", "--json"),
        ).out
    )["token"]
    body = {"request": refund(900), "grants": [json.loads(billing_grant())]}

    def ask(url: str) -> list[str]:
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.post(f"{url}/v1/decide", json=body, headers=headers, timeout=60).json()
        return [answer["verdict"], *(one["why"] for one in answer["ignored_grants"])]

    with started(work) as process:
        assert ask(process.url) == ["ALLOW"]
        assert demur("grant", "revoke", "g1").status == 0
        assert ask(process.url) == ["ESCALATE", "revoked"]
    with started(work) as process:
        assert ask(process.url) == ["ESCALATE", "revoked"]


def test_a_gate_without_a_store_sees_what_the_command_revokes(work: Path) -> None:
    write_settings(work, 'store = ""', 'revocations = "revoked.json"')
    given = Grant.from_json(billing_grant())
    demur("grant", "revoke", "g0")
    with open_gate(load_config(work / "demur.toml")) as gate:
        assert gate.decide(refund(900), grants=[given]).verdict == "ALLOW"
        ran = demur("grant", "revoke", "g1", "--json")
        after = gate.decide(refund(900), grants=[given])

    assert json.loads(ran.out) == {"grant_id": "g1", "written_to": ["revoked.json"]}
    assert [one.why for one in after.ignored_grants] == ["revoked"]


def test_a_revocation_needs_a_place_where_gates_look(work: Path) -> None:
    write_settings(work, 'store = ""')
    assert "neither a store nor a revocation file" in demur("grant", "revoke", "g1").err
    write_settings(work, 'revocations = "revoked.json"')
    named = demur("grant", "revoke", "g1", "--tenant", "acme")
    assert (named.status, "holds for all tenants" in named.err) == (2, True)
    filed = demur("grant", "revoke", "g1", "--revoked", "x.json", "--note", "why")
    assert (filed.status, "holds ids only" in filed.err) == (2, True)
    assert demur("grant", "revoke", " ").status == 2
    (work / "revoked.json").write_text("{")
    assert "not a JSON list of grant ids" in demur("grant", "revoke", "g1").err


def test_grants_are_listed_and_shown_with_their_state(work: Path) -> None:
    assert "no store" in demur("grant", "list").err
    (work / "request.json").write_text(json.dumps(refund(900)))
    for grant_id, more in (("g1", ("--uses", "1")), ("g2", ())):
        (work / "grant.json").write_text(billing_grant(*more, grant_id=grant_id))
        assert demur("decide", "request.json", "--grant", "grant.json").status == 0
    demur("grant", "revoke", "g2")
    listed = demur("grant", "list").out
    shown = json.loads(demur("grant", "show", "g1").out)
    [first, second] = map(json.loads, demur("grant", "list", "--json").out.splitlines())
    signed = Grant.from_json(demur("grant", "show", "g1", "--signed").out)

    assert "g1     used up, used 1 of 1" in listed
    assert (first["state"], second["state"]) == ("revoked", "used up")
    assert (shown["state"], shown["used"], shown["grant"]["signature"]) == ("used up", 1, "")
    assert signed.signature
    assert signed.signature not in listed + demur("show", "last", "--json").out
    assert "there is no grant `g9`" in demur("grant", "show", "g9").err
    write_settings(work, 'revoked = ["g1"]')
    assert json.loads(demur("grant", "show", "g1").out)["state"] == "revoked"


def test_no_grants_are_listed_before_there_are_any(work: Path) -> None:
    (work / "request.json").write_text(json.dumps(refund()))
    demur("decide", "request.json")

    assert "no grants" in demur("grant", "list").out


def test_a_key_for_tenants_signs_for_no_other(tmp_path: Path) -> None:
    demur("grant", "keygen", tmp_path / "k", "--holder", "h", "--tenant", "acme")
    create_words = ("grant", "create", "scope", "--key", tmp_path / "k.key.json", "--to", "a")
    ran = demur(*create_words, "--scope", "x=y")
    named = demur(*create_words, "--scope", "tenant=acme")

    assert "may not grant for the tenant `default`" in ran.err
    assert named.status == 0
    trusted = json.loads((tmp_path / "k.trusted.json").read_text())
    assert trusted["tenants"] == ["acme"]


@pytest.mark.parametrize("uses", ["0", "1001", "-1"])
def test_a_grant_has_a_few_uses(mary: Path, uses: str) -> None:
    ran = demur(
        *("grant", "create", "approval", "--key", mary / "mary.key.json"),
        *("--to", "agent:a", "--scope", "action=refund", "--uses", uses),
    )

    assert "a grant has 1 to 1000 uses" in ran.err
