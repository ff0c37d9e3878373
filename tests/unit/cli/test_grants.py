"""The grant commands together, as a person would use them."""

import json
import stat
from pathlib import Path

import pytest
from support.command_line import demur


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
    assert "2 on the list" in demur("grant", "revoke", "g1", "--revoked", revoked).out
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
