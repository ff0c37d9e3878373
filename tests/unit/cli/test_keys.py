import argparse
import json
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest
from support.service_process import folder_of

from demur.cli.main import Arguments
from demur.errors import InputError
from demur.gate.config import load_config, open_configured_store
from demur.service.authentication import digest_of


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path)
    monkeypatch.chdir(tmp_path)


def run(name: str, *words: str) -> int:
    command = import_module("demur.cli.service")
    parser = argparse.ArgumentParser()
    getattr(command, f"configure_keys_{name}")(Arguments(parser))
    return int(getattr(command, f"run_keys_{name}")(parser.parse_args(words)))


def test_a_key_is_shown_once_and_only_its_digest_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("create", "--tenant", "acme", "--role", "read", "--expires", "90d") == 0
    shown = capsys.readouterr().out
    token = shown.split()[0]
    store = open_configured_store(load_config("demur.toml"))
    assert store is not None
    with store:
        [key] = store.list_keys()

    assert key.digest == digest_of(token)
    assert key.expires_at is not None
    assert "tenant acme: read" in shown
    assert Path("demur.db").stat().st_mode & 0o077 == 0
    assert token.encode() not in Path("demur.db").read_bytes()


def test_a_key_for_all_tenants_needs_an_explicit_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("create", "--all-tenants", "--role", "admin", "--json", "--note", "ops")
    made = json.loads(capsys.readouterr().out)
    assert (made["tenant"], made["roles"], made["note"]) == ("", ["admin"], "ops")
    run("create", "--all-tenants", "--role", "admin")
    assert "for all tenants: admin; good until 20" in capsys.readouterr().out
    run("create", "--all-tenants", "--role", "admin", "--expires", "never")
    assert "for all tenants: admin; good until it is revoked" in capsys.readouterr().out
    with pytest.raises(InputError, match="--tenant must not be empty"):
        run("create", "--tenant", "", "--role", "read")
    with pytest.raises(SystemExit):
        run("create", "--role", "read")
    with pytest.raises(SystemExit):
        run("create", "--tenant", "acme", "--role", "king")


def test_keys_are_listed_with_their_state_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("--tenant", "acme"),
        ("--tenant", "other", "--expires", "1d"),
        ("--all-tenants",),
    ):
        run("create", *words, "--role", "read", "--json")
    ids = [json.loads(line)["key_id"] for line in capsys.readouterr().out.splitlines()]
    assert run("revoke", ids[0]) == 0
    assert run("revoke", ids[2], "--json") == 0
    capsys.readouterr()
    run("list")
    listed = capsys.readouterr().out
    run("list", "--tenant", "other", "--json")
    [other] = capsys.readouterr().out.splitlines()

    assert "revoked 20" in listed
    assert "until 20" in listed
    assert "(all)" in listed
    assert json.loads(other)["key_id"] == ids[1]
    assert "digest" not in other


def test_a_key_that_has_ended_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run("create", "--tenant", "acme", "--role", "read")
    store = open_configured_store(load_config("demur.toml"))
    assert store is not None
    with store:
        [key] = store.list_keys()
        digest = "sha256:other"
        old = key._replace(key_id="old", digest=digest, expires_at="2020-01-01T00:00:00.000Z")
        store.add_key(old)
    capsys.readouterr()
    run("list")
    shown = capsys.readouterr().out

    assert "expired 2020-01-01" in shown
    assert "until 20" in shown
    run("create", "--tenant", "acme", "--role", "read", "--expires", "never")
    run("list")
    assert "never expires" in capsys.readouterr().out


@pytest.mark.parametrize(("setting", "days"), [("", 90), ("[service]\nkey_days = 7\n", 7)])
def test_a_key_expires_by_default(
    capsys: pytest.CaptureFixture[str], setting: str, days: int
) -> None:
    Path("demur.toml").write_text(setting, encoding="utf-8")
    run("create", "--tenant", "acme", "--role", "read", "--json")
    made = json.loads(capsys.readouterr().out)
    created, expires = (datetime.fromisoformat(made[name]) for name in ("created_at", "expires_at"))

    assert expires - created == timedelta(days=days)


def test_a_missing_key_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    run("create", "--tenant", "acme", "--role", "read")
    with pytest.raises(InputError, match="no key `nothing` to revoke"):
        run("revoke", "nothing")
    capsys.readouterr()
    run("list", "--tenant", "nobody")
    assert "demur keys create" in capsys.readouterr().out


def test_without_a_store_there_are_no_keys() -> None:
    Path("demur.toml").write_text('store = ""\n', encoding="utf-8")

    with pytest.raises(InputError, match="no store to keep keys in"):
        run("create", "--tenant", "acme", "--role", "read")
