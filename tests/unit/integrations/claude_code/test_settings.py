import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import InputError
from demur.integrations.claude_code.settings import (
    HOOKED_EVENTS,
    add_hooks,
    dump_settings,
    hook_command,
    is_demur_command,
    parse_settings,
    read_settings_file,
    remove_hooks,
    replace_settings_file,
)

WORDS = ["demur", "hook", "claude-code", "--warm"]
OTHER = {"type": "command", "command": "lint --strict"}
HOOKS = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=20)})
GROUPS = st.fixed_dictionaries(
    {"hooks": st.lists(HOOKS, min_size=1, max_size=3)}, optional={"matcher": st.text(max_size=5)}
)
NAMES = st.sampled_from(["PreToolUse", "Stop", "UserPromptSubmit", "SomethingNew"])
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=5),
        "hooks": st.dictionaries(NAMES, st.lists(GROUPS, min_size=1, max_size=2), min_size=1),
        "permissions": st.dictionaries(st.text(max_size=5), st.integers()),
    },
)


@given(SETTINGS)
def test_installing_twice_changes_nothing_more(settings: dict[str, Any]) -> None:
    """INVARIANT: installing twice is installing once."""
    once = add_hooks(settings, WORDS)

    assert dump_settings(add_hooks(once, WORDS)) == dump_settings(once)


@given(SETTINGS)
def test_removing_undoes_installing(settings: dict[str, Any]) -> None:
    """INVARIANT: removing undoes installing, and changes nothing else."""
    assert dump_settings(remove_hooks(add_hooks(settings, WORDS))) == dump_settings(settings)
    assert dump_settings(remove_hooks(settings)) == dump_settings(settings)


def test_hooks_of_others_stay_where_they_are() -> None:
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [OTHER]}]}, "model": "x"}
    after = add_hooks(settings, WORDS)

    assert after["hooks"]["PreToolUse"][0] == {"matcher": "Bash", "hooks": [OTHER]}
    assert list(after) == ["hooks", "model"]
    assert {event.name for event in HOOKED_EVENTS} == set(after["hooks"])


def test_an_older_command_of_ours_is_replaced() -> None:
    old = add_hooks({}, ["/old/demur", "hook", "claude-code"])
    after = add_hooks(old, WORDS)

    assert after == add_hooks({}, WORDS)


def test_an_event_that_is_not_hooked_any_more_is_cleared() -> None:
    mine = {"type": "command", "command": "demur hook claude-code"}
    after = add_hooks({"hooks": {"Notification": [{"hooks": [mine, OTHER]}]}}, WORDS)

    assert after["hooks"]["Notification"] == [{"hooks": [OTHER]}]


def test_our_command_in_a_group_of_others_is_taken_out_alone() -> None:
    mine = {"type": "command", "command": "demur hook claude-code"}
    settings = {"hooks": {"Stop": [{"hooks": [OTHER, mine, "odd"]}], "Empty": [], "Odd": ["x"]}}

    assert remove_hooks(settings) == {
        "hooks": {"Stop": [{"hooks": [OTHER, "odd"]}], "Empty": [], "Odd": ["x"]}
    }


def test_hooks_before_an_action_fail_with_the_blocking_status() -> None:
    hooks = add_hooks({}, WORDS)["hooks"]
    commands = {name: groups[0]["hooks"][0]["command"] for name, groups in hooks.items()}
    closed = {name for name, command in commands.items() if command.endswith("|| exit 2")}

    assert closed == {"PreToolUse", "UserPromptSubmit"}


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolBatch"])
def test_hooks_after_an_action_end_the_run_if_the_command_is_missing(event: str) -> None:
    words = ["/none/demur", "hook", "claude-code"]
    command = add_hooks({}, words)["hooks"][event][0]["hooks"][0]["command"]
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)

    assert ran.returncode == 0
    assert json.loads(ran.stdout)["continue"] is False
    assert json.loads(ran.stdout)["stopReason"].startswith("REFUSED: GUARDRAIL_UNAVAILABLE: ")


def test_words_reach_the_program_as_they_are() -> None:
    words = ["/my programs/demur", "hook", "claude-code", "--pin", "a'b $x.md"]

    assert shlex.split(hook_command(words)) == words
    assert is_demur_command(hook_command(words, "exit 2"))


def test_the_folder_of_the_project_is_left_to_the_shell() -> None:
    word = "$CLAUDE_PROJECT_DIR/my rules.md"

    assert hook_command([word]) == "\"$CLAUDE_PROJECT_DIR\"'/my rules.md'"


@pytest.mark.parametrize(
    "command",
    [
        "demur hook install",
        "echo demur",
        "echo demur hook claude-code",
        "demur hook claude-code-wrapper.sh",
        "./my-demur hook claude-code",
        "demur 'hook",
        3,
        None,
    ],
)
def test_other_commands_are_not_ours(command: object) -> None:
    assert not is_demur_command(command)


@pytest.mark.parametrize("hooks", [[], 3, {"Stop": {}}])
def test_hooks_in_another_form_are_refused(hooks: Any) -> None:
    with pytest.raises(InputError, match="object of lists"):
        add_hooks({"hooks": hooks}, WORDS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{ // why\n}", "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a": NaN}', "not a number"),
        ("[]", "JSON object"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_invalid_settings_json_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_settings(text, "settings.json")


def test_settings_are_read_in_their_order() -> None:
    assert list(parse_settings('{"b": {"x": 1}, "a": []}', "settings.json")) == ["b", "a"]


def test_an_empty_file_holds_no_settings() -> None:
    assert parse_settings(" \n", "settings.json") == {}


@pytest.mark.parametrize(
    "text", ['{\n    "a": "é"\n}\n', '{\n\t"a": 1\n}', '{\r\n  "a": 1\r\n}\r\n']
)
def test_text_comes_back_as_it_was(text: str) -> None:
    assert dump_settings(json.loads(text), text) == text


@pytest.mark.parametrize(
    "command", ["demur hook claude-code", "'/my x/demur' hook claude-code --warm || exit 2"]
)
def test_commands_of_every_version_are_ours(command: str) -> None:
    assert is_demur_command(command)
    assert is_demur_command(f"python3 -P -m {command}") is command.startswith("demur")


def test_a_new_settings_file_is_created_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"

    assert replace_settings_file(read_settings_file(path), "{}\n") is None
    assert path.read_text() == "{}\n"


def test_the_old_text_and_every_older_copy_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one")
    path.chmod(0o640)
    first = replace_settings_file(read_settings_file(path), "two")
    second = replace_settings_file(read_settings_file(path), "three")

    assert first is not None
    assert second is not None
    assert (first.read_text(), second.read_text(), path.read_text()) == ("one", "two", "three")
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "settings.json",
        "settings.json.bak",
        "settings.json.bak1",
    ]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    path = tmp_path / "settings.json"
    path.symlink_to(real)
    replace_settings_file(read_settings_file(path), "new")

    assert path.is_symlink()
    assert real.read_text() == "new"


def test_a_link_that_leads_nowhere_is_followed_there(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.symlink_to(tmp_path / "later" / "real.json")
    replace_settings_file(read_settings_file(path), "new")

    assert (tmp_path / "later" / "real.json").read_text() == "new"


def test_a_concurrent_change_of_the_settings_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("one")
    file = read_settings_file(path)
    path.write_text("theirs")

    with pytest.raises(InputError, match="has changed"):
        replace_settings_file(file, "two")
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("content", [b"\xff", b"x" * 11])
def test_unreadable_settings_are_an_error(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.integrations.claude_code.settings._MAX_SETTINGS_BYTES", 10)
    path = tmp_path / "settings.json"
    path.write_bytes(content)

    with pytest.raises(InputError):
        read_settings_file(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_settings_file(tmp_path)


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.symlink_to(path)

    with pytest.raises(InputError):
        read_settings_file(path)


def test_a_failed_write_is_an_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = read_settings_file(path)
    monkeypatch.setattr("os.fsync", full)

    with pytest.raises(InputError, match="no space left"):
        replace_settings_file(file, "{}")
    assert list(tmp_path.iterdir()) == []
