import argparse
import io
import json
import stat
from importlib import import_module
from pathlib import Path

import pytest
from support.service_process import folder_of

from demur.cli.main import Arguments
from demur.errors import GrantError, InputError
from demur.gate.config import load_config, open_configured_store
from demur.gate.people import load_issuers
from demur.grants.person_keys import ServiceKey
from demur.service.people import Passwords
from demur.store.people_tables import Person

PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    type_in(monkeypatch, f"{PASSWORD}\n")


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def run(name: str, *words: str) -> int:
    command = import_module("demur.cli.people")
    parser = argparse.ArgumentParser()
    getattr(command, f"configure_people_{name}")(Arguments(parser))
    return int(getattr(command, f"run_people_{name}")(parser.parse_args(words)))


def add(*words: str) -> int:
    return run("add", *words, "--tenant", "acme", "--role", "approver")


def person(login: str = "mary") -> Person:
    store = open_configured_store(load_config("demur.toml"))
    assert store is not None
    with store:
        found = store.get_person(login)
    assert found is not None
    return found


def test_a_person_is_added_with_a_password_that_is_kept_nowhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add("Mary", "--group", "night", "--group", "finance", "--note", "from 9 to 5") == 0
    shown = capsys.readouterr().out

    assert "added mary: approver of the tenant acme" in shown
    assert "demur people init" in shown
    added = person()
    assert (added.groups, added.note) == ("finance night", "from 9 to 5")
    assert added.password_hash is not None
    assert Passwords().verify(added.password_hash, PASSWORD)
    files = b"".join(file.read_bytes() for file in Path().iterdir() if file.is_file())
    assert PASSWORD.encode() not in files


def test_a_password_is_asked_for_twice_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    typed = iter([PASSWORD, "another one", PASSWORD, PASSWORD])
    monkeypatch.setattr("getpass.getpass", lambda _: next(typed))

    with pytest.raises(InputError, match="the two passwords differ"):
        add("mary")
    assert add("mary") == 0


def test_no_password_comes_as_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        add("mary", "--password", PASSWORD)
    for text, problem in (("", "a password is needed"), ("short\n", "at least 12 characters")):
        type_in(monkeypatch, text)
        with pytest.raises(InputError, match=problem):
            add("mary")


def test_a_login_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    add("mary")
    type_in(monkeypatch, f"{PASSWORD}\n")

    with pytest.raises(InputError, match="already") as caught:
        add("MARY")
    assert "people change mary" in str(caught.value)
    with pytest.raises(InputError, match="--tenant must not be empty"):
        run("add", "ann", "--tenant", "", "--role", "reader")
    with pytest.raises(InputError, match="is no login"):
        add("a b")


def test_people_are_listed_changed_and_disabled(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="there is no store yet"):
        run("list")
    add("mary", "--json")
    assert json.loads(capsys.readouterr().out)["role"] == "approver"
    assert run("change", "mary", "--role", "reviewer", "--group", "night") == 0
    assert "changed mary: reviewer" in capsys.readouterr().out
    assert run("change", "mary", "--no-groups", "--note", "a note", "--json") == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []
    assert run("disable", "mary", "--reason", "left the team") == 0
    run("list")
    assert "disabled" in capsys.readouterr().out
    run("list", "--tenant", "other")
    assert "no people" in capsys.readouterr().out
    assert run("change", "mary", "--enable", "--role", "admin") == 0
    capsys.readouterr()
    run("list", "--json")
    shown = json.loads(capsys.readouterr().out)

    assert (shown["login"], shown["role"], shown["disabled_at"]) == ("mary", "admin", None)
    assert "password_hash" not in shown
    assert str(person().password_hash) not in str(shown)


def test_changes_are_on_record_with_their_reason() -> None:
    add("mary", "--reason", "hired")
    run("disable", "mary", "--reason", "left the team")
    store = open_configured_store(load_config("demur.toml"))
    assert store is not None
    with store:
        events = list(store.backend.read_events("acme"))

    assert [(one.kind, one.by, one.reason) for one in events] == [
        ("person_added", "command line", "hired"),
        ("person_changed", "command line", "left the team"),
    ]


def test_another_password_replaces_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add("mary")
    type_in(monkeypatch, "a sentence of my own\r\n")
    assert run("password", "mary") == 0

    assert "another password" in capsys.readouterr().out
    stored = person()
    assert stored.password_hash is not None
    assert Passwords().verify(stored.password_hash, "a sentence of my own")
    assert stored.generation == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [("change", ("--role", "admin")), ("disable", ()), ("password", ())],
)
def test_nobody_is_changed_who_is_not_there(name: str, words: tuple[str, ...]) -> None:
    add("ann")

    with pytest.raises(InputError, match="there is no person `mary`"):
        run(name, "mary", *words)


def test_a_change_of_nothing_says_what_can_change() -> None:
    with pytest.raises(InputError, match="nothing to change"):
        run("change", "mary")


def test_the_service_key_is_made_once_and_for_its_owner_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("init") == 0
    shown, content = capsys.readouterr().out, Path("people.key").read_bytes()
    assert run("init") == 0

    assert "people.trusted.json" in shown
    assert content.decode() not in shown
    assert stat.S_IMODE(Path("people.key").stat().st_mode) == 0o600
    assert Path("people.key").read_bytes() == content
    assert "there is a service key already" in capsys.readouterr().out
    issuer = ServiceKey.from_file("people.key").issuer.trusted_key()
    assert dict(load_issuers(load_config("demur.toml").people)) == {issuer.key_id: issuer}


def test_a_broken_service_key_is_not_replaced() -> None:
    Path("people.key").write_text("something else")
    Path("people.key").chmod(0o600)

    with pytest.raises(GrantError, match="not a service key"):
        run("init")
    assert Path("people.key").read_text() == "something else"
