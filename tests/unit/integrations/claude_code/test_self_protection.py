import time
from pathlib import Path
from typing import Any

import pytest

from demur.guards.tool_call import ToolCall
from demur.integrations.claude_code.self_protection import (
    ProtectedPaths,
    check,
    only_reads_files,
    protected_paths,
    split_words,
)

STATE = Path.home() / ".local" / "state" / "demur" / "claude-code"
OWN = protected_paths(
    [Path("/etc/me/demur.toml"), Path("/etc/me/policy.yaml"), Path("/p/rules.md")], [STATE], "/p"
)


def found(name: str, own: ProtectedPaths = OWN, **arguments: Any) -> list[str]:
    return [str(one.code) for one in check(ToolCall(name=name, arguments=arguments), own)]


@pytest.mark.parametrize(
    "command",
    [
        "echo '{}' > .claude/settings.json",
        "echo '{}' >| .claude/settings.json",
        "sed -i s/a/b/ .claude/settings.json",
        "rm -rf .claude",
        "rm -rf .claude/*",
        "rm -rf .cl*",
        "rm -rf .cl{aude,x}",
        "cp x .claude//settings.json",
        "tee .claude/./settings.local.json",
        'echo x > .cla"ude"/settings.json',
        "python -c \"open('.claude/settings.json', 'w')\"",
        "cd .claude && echo x > settings.json",
        "cd .claude",
        "echo x > settings.json",
        "echo x > $d/settings.json",
        "Set-Content .claude\\settings.json x",
        "cat <<EOF > .claude/settings.json\n{}\nEOF",
        "git checkout .claude/settings.json",
        "ln -s .claude/settings.json x",
        "mv .mcp.json x",
        "demur hook install claude-code --remove --yes",
        "python -m demur hook install claude-code --remove --yes",
        "/opt/'demur' hook install claude-code",
        "echo x > /etc/me/policy.yaml",
        "cd /etc/me && echo x > policy.yaml",
        "rm -rf /etc/me",
        "mv /etc/me /tmp/x",
        "echo x > rules.md",
        "rm -rf *",
        "touch ~/.local/state/demur/claude-code/warm-1.sock",
        "touch ${HOME}/.local/state/demur/claude-code/warm-1.sock",
        "rm -rf $HOME/.local/state/demur",
    ],
)
@pytest.mark.parametrize("tool", ["Bash", "SomethingNew"])
def test_a_command_that_may_change_what_binds_the_agent_waits(tool: str, command: str) -> None:
    assert found(tool, command=command) == ["APPROVAL_REQUIRED"]


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "cat .claude/settings.json",
        "cd /p && cat .claude/settings.json 2>/dev/null",
        "grep hook .claude/settings.json 2>&1 | head -5",
        "git add .claude/settings.json && git commit -m 'more hooks'",
        "rm -rf build/*",
        "mv a.txt ~",
        "mv a .",
        "echo x > .vscode/settings.json",
        "mkdir -p .claude/skills/x && echo y > .claude/skills/x/SKILL.md",
        "npm install -g @anthropic-ai/claude-code",
        "pip install demur",
        "find . -name '*.py' -exec grep x {} +",
        "cat rules.md",
    ],
)
def test_everyday_commands_pass(command: str) -> None:
    assert found("Bash", command=command) == []


@pytest.mark.parametrize(
    "path",
    [
        "/p/.claude/settings.json",
        "/p/.claude/./settings.json",
        ".claude//settings.json",
        "/p/.CLAUDE/Settings.json",
        "/p/x/../.claude/settings.local.json",
        "/p/.mcp.json",
        "/p/x/../rules.md",
        "/etc/me/policy.yaml",
        str(STATE / "demur.db"),
    ],
)
@pytest.mark.parametrize(
    ("tool", "argument"),
    [
        ("Write", "file_path"),
        ("Edit", "file_path"),
        ("NotebookEdit", "notebook_path"),
        ("mcp__fs__write_file", "path"),
        ("mcp__fs__search_replace", "path"),
        ("mcp__fs__move_file", "to"),
    ],
)
def test_a_tool_that_may_write_it_waits(tool: str, argument: str, path: str) -> None:
    assert found(tool, OWN, **{argument: path}) == ["APPROVAL_REQUIRED"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/p/.claude/settings.json"}),
        ("mcp__fs__read_file", {"path": ".mcp.json"}),
        ("Write", {"file_path": "/p/a.md", "content": ".claude/settings.json"}),
        ("Write", {"file_path": "/p/x/policy.yaml"}),
        ("mcp__notes__add", {"text": ".mcp.json", "more": {"body": ".mcp.json", "n": 3}}),
        ("mcp__notes__add", {"note": "a\n.mcp.json"}),
        ("Write", {"file_path": None}),
    ],
)
def test_other_calls_pass(tool: str, arguments: dict[str, Any]) -> None:
    assert found(tool, **arguments) == []


def test_paths_are_found_in_lists_and_objects() -> None:
    assert found("mcp__fs__put", files=[{"uri": "file:///p/.mcp.json"}]) == ["APPROVAL_REQUIRED"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "Real" / "policy.yaml"
    real.parent.mkdir()
    real.write_text("")
    (tmp_path / "notes.md").symlink_to(real)
    own = protected_paths([real], [], str(tmp_path))

    assert found("Write", own, file_path=str(tmp_path / "notes.md")) == ["APPROVAL_REQUIRED"]
    assert found("Write", own, file_path="notes.md") == ["APPROVAL_REQUIRED"]
    assert found("Write", own, file_path="\0") == []


HOME = str(Path.home())


@pytest.mark.parametrize("project", ["", HOME, "/p"])
def test_a_pattern_names_what_a_shell_would_take(project: str) -> None:
    own = protected_paths([Path("/etc/me/policy.yaml")], [STATE], project)

    for command in ("for f in *; do echo $f; done", "cp * /tmp/out", "make x-* y?", "rm -rf b/*"):
        assert found("Bash", own, command=command) == [], command
    for command in (
        "cp x ~/.local/s*/demur/claude-code",
        "rm -rf ~/.l*/s*",
        "tee ~/.local/state/demur/claude-code/*",
        "cp -r x /etc/m?",
        "chmod -R 777 /etc/m*",
        "tee /etc/**/*.yaml",
        "tee /etc/{x,me/policy}.yaml",
    ):
        assert found("Bash", own, command=command) == ["APPROVAL_REQUIRED"], command


def test_a_relative_path_starts_in_no_folder_that_nobody_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon works in the state folder, and the agent elsewhere."""
    monkeypatch.chdir(tmp_path)
    own = protected_paths([], [tmp_path], "")

    assert found("TodoWrite", own, todos=[{"content": "x", "status": "pending"}]) == []
    assert found("Write", own, file_path="a.py") == []
    assert found("Write", own, file_path=str(tmp_path / "a.py")) == ["APPROVAL_REQUIRED"]
    assert found("Write", own, file_path=".mcp.json") == ["APPROVAL_REQUIRED"]


def test_settings_in_a_folder_of_their_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/cfg/cc")
    own = protected_paths([], [], "")

    assert found("Write", own, file_path="/cfg/cc/settings.json") == ["APPROVAL_REQUIRED"]
    assert found("Bash", own, command="cp x $CLAUDE_CONFIG_DIR/settings.json")


@pytest.mark.parametrize("unit", ["a", "[a", "x{", "$", "'", "*", "{,", "a* ", "./", ".claude "])
def test_a_long_command_takes_no_long_time(unit: str) -> None:
    began = time.perf_counter()
    found("Bash", command=f"cat {unit * 20_000}")

    assert time.perf_counter() - began < 5


def test_arguments_that_cannot_be_read_are_for_others_to_refuse() -> None:
    assert list(check(ToolCall(name="Write", arguments="{"), OWN)) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cat .cla'ude'/x", ".claude/x"),
        ("dd of=.claude/x", ".claude/x"),
        ("python -c \"open('.claude/x', 'w')\"", ".claude/x"),
        ("it's .claude/x", ".claude/x"),
        ("scp a me@host:.claude/x", ".claude/x"),
        ("Set-Content .claude\\x", ".claude\\x"),
    ],
)
def test_words_are_found_with_and_without_quotes(text: str, word: str) -> None:
    assert word in split_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat x",
        "cd a && cat x | head -3; ls\npwd",
        "grep 'a|b' x 2>/dev/null",
        "grep a x 2>&1",
        "cat < x",
        "sed -n 1,20p x",
        "git diff x",
        "find . -name x",
    ],
)
def test_plainly_reading_commands_are_recognised(text: str) -> None:
    assert only_reads_files(text, lambda _: False)


@pytest.mark.parametrize(
    "text",
    [
        "rm x",
        "echo a > x",
        "echo a >> x",
        "echo a >& x",
        "echo a >",
        "cat x | tee y",
        "cat $(ls)",
        "cat `ls`",
        "diff <(ls) x",
        "sed -i s/a/b/ x",
        "sed -n",
        "sed w x",
        "git checkout x",
        "git",
        "git diff --output=x",
        "find . -delete",
        "A=1 cat x",
        "cat it's",
        "cd held",
        f"cat {'x' * 10_000}",
    ],
)
def test_other_commands_do_not_count_as_reading_only(text: str) -> None:
    assert not only_reads_files(text, lambda word: word == "held")
