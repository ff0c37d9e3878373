from pathlib import Path

import pytest
from support.command_line import demur
from support.support_desk import RISKY, SMALL, setting

from demur.cli.workspace import (
    configured_registries,
    open_existing_gate,
    open_existing_store,
)
from demur.enforce.opening import open_enforcer
from demur.errors import InputError
from demur.gate.config import Config, database_path

pytestmark = pytest.mark.usefixtures("workspace")


def test_the_settings_can_be_named_by_option_or_environment(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [tmp_path / name for name in (SMALL, RISKY)]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    missing = demur("decide", samples[0])
    by_option = demur("decide", samples[0], "--config", tmp_path / "demur.toml")
    monkeypatch.setenv("DEMUR_CONFIG", str(tmp_path / "demur.toml"))
    by_environment = demur("decide", samples[1])

    assert missing.err == (
        "error: there is no demur.toml and no demur.db in this folder or above\n"
        "  help: `demur init --agent` makes them, or name yours with --config or DEMUR_CONFIG\n"
    )
    assert (missing.status, by_option.status, by_environment.status) == (1, 0, 3)
    assert "2 decisions" in demur("show").out


def test_the_settings_of_a_folder_above_are_used_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")

    ran = demur("decide", tmp_path / SMALL)
    assert ran.status == 0
    assert ran.err == f"note: settings of {tmp_path / 'demur.toml'}\n"
    assert "1 decision" in demur("show").out
    assert not Path("demur.db").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('polcy = "x"', "demur.toml: unknown setting `polcy`\n  help: did you mean `policy`?"),
        ("zzz = 1", "demur.toml: unknown setting `zzz`\n  help: one of policy, store, "),
        ("[memory]\nblok = 1", "demur.toml: memory: unknown setting `blok`\n  help: did you mean"),
        ("[memory]\nzzz = 1", "unknown setting `zzz`\n  help: one of block, escalate, "),
        ("attempts = 'x'", "demur.toml: attempts: expected `int`, got `str`"),
        ("[memory]\nescalate = 0.99", "demur.toml: memory: `escalate` is 0.99, above `block`"),
        ("x", "demur.toml: not TOML: "),
    ],
)
def test_a_setting_that_cannot_be_used_says_what_was_meant(line: str, problem: str) -> None:
    setting(line)
    ran = demur("show")

    assert ran.status == 1
    assert problem in ran.err


def test_memory_can_be_switched_off() -> None:
    setting("memory = false")
    demur("decide", SMALL)
    ran = demur("learn", "last", "--outcome", "failure")

    assert "  memory is off in the settings, so this has no effect\n" in ran.out
    assert demur("decide", SMALL).status == 0


def test_looking_back_makes_no_store() -> None:
    Path("demur.db").unlink()
    ran = demur("show")

    assert ran.err == (
        "error: demur.db: there is no store yet\n  help: the first `demur decide` creates it\n"
    )
    assert not Path("demur.db").exists()


def test_without_a_store_there_is_nothing_to_look_back_on() -> None:
    for opened in (open_existing_store, open_existing_gate):
        with pytest.raises(InputError, match="the settings name no store"):
            opened(Config(store=""))


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("", None),
        (":memory:", None),
        ("sqlite://", None),
        ("postgresql://host/name", None),
        ("a/demur.db", "a/demur.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("sqlite:////var/demur.db", "/var/demur.db"),
    ],
)
def test_the_file_of_a_store_is_known_if_it_is_one(store: str, path: str | None) -> None:
    assert database_path(Config(store=store)) == (None if path is None else Path(path))


def test_no_store_is_created_in_a_missing_folder() -> None:
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "gone/demur.db"\n', "utf-8")

    assert demur("decide", SMALL).status != 0
    assert not Path("gone").exists()


def test_registries_come_from_the_settings_of_the_folder(workspace: Path) -> None:
    assert configured_registries() == ()
    setting('registries = ["acme.json"]')

    assert configured_registries() == ("acme.json",)
    (workspace / "demur.toml").unlink()
    assert configured_registries() == ()


def test_settings_that_cannot_be_used_are_not_passed_over(workspace: Path) -> None:
    (workspace / "demur.toml").write_text("registers = []")

    with pytest.raises(InputError):
        configured_registries()


@pytest.fixture
def bare_store(workspace: Path) -> Path:
    """Return the store of an agent that has no settings, alone in the working directory."""
    for path in ("demur.toml", "demur.db", "policy.yaml"):
        (workspace / path).unlink()
    with open_enforcer() as enforcer:
        assert enforcer.check_prompt("Hello").allowed
        assert not enforcer.check_tool_call("bash", {"command": "rm -rf /"}).allowed
    return Path("demur.db")


@pytest.mark.usefixtures("bare_store")
@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["show", "last"],
        ["explain", "last"],
        ["export", "last", "--pack", "--out", "d.zip"],
        ["audit", "verify"],
        ["audit", "heads"],
        ["alerts", "check"],
        ["doctor"],
    ],
)
def test_commands_read_a_bare_store(command: list[str]) -> None:
    ran = demur(*command)

    assert (ran.status, ran.err) == (0, "")


@pytest.mark.usefixtures("bare_store")
def test_a_decision_of_a_bare_store_can_be_replayed() -> None:
    demur("export", "last", "--pack", "--out", "d.zip")

    assert demur("replay", "d.zip").status == 0


@pytest.mark.usefixtures("bare_store")
def test_deciding_without_settings_says_by_which_policy() -> None:
    Path("request.json").write_text('{"action": {"type": "search"}}', encoding="utf-8")
    ran = demur("decide", "request.json")

    assert ran.status == 0
    assert ran.err == (
        "note: no demur.toml: the policy for agents applies; "
        "`demur init --agent` writes it to policy.yaml\n"
    )


@pytest.mark.usefixtures("bare_store")
def test_doctor_agrees_with_a_bare_store_and_says_how_to_change_its_policy() -> None:
    ran = demur("doctor")

    assert "warning  settings   none: the policy for agents decides for demur.db\n" in ran.out
    assert "`demur init --agent` writes settings and policy as files to change" in ran.out
    assert "rights     the store and the keys are closed to other users" in ran.out
