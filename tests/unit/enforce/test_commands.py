import pytest

from demur.enforce.commands import find_commands
from demur.errors import InputTypeError

RUNNERS = [
    *("bash", "sh", "shell", "LocalShell", "zsh", "cmd", "console", "exec", "terminal"),
    *("powershell", "pwsh", "Monitor", "BashTool", "shell_tool", "shell_exec", "exec_command"),
    *("run_bash", "run_command", "run_shell", "runShellCommand", "run_terminal"),
    *("run_in_terminal", "run_terminal_command", "run_terminal_cmd", "exec_bash"),
    *("execute_bash", "execute_command", "execute_shell", "executeShellCommand"),
    *("python", "python3", "python_repl", "python_repl_ast", "repl", "run_python", "ipython"),
    *("execute_python", "code_interpreter", "run_code", "execute_code", "exec_code"),
    *("run_script", "execute_script", "run_javascript", "run_python_code", "run_commands"),
    *("mcp__files__run_command", "functions.shell", "local/exec_command", "server:bash"),
]
OTHERS = [
    *("refund", "search", "read_file", "publish", "wash", "english", "commander", "recode"),
    *("run_report", "run_campaign", "execute_order", "code", "command", "script", "monitoring"),
    *("executive", "replay", "console_games", "shellfish", "pythonic_advice", "cash", "bash.help"),
]


@pytest.mark.parametrize("name", RUNNERS)
def test_tools_that_run_things_go_by_many_names(name: str) -> None:
    assert list(find_commands(name, {"cmd": "ls"}, {})) == ["ls"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_tools_run_nothing(name: str) -> None:
    assert list(find_commands(name, {"command": "ls", "cmd": "ls"}, {})) == []


def test_a_tool_can_be_named_with_its_argument() -> None:
    assert list(find_commands("deploy", {"with": "ls", "cmd": "rm"}, {"deploy": "with"})) == ["ls"]


def test_a_list_is_words_of_a_command_or_commands() -> None:
    assert list(find_commands("sh", {"command": ["echo", "a b"]}, {})) == [
        "echo 'a b'",
        "echo\na b",
    ]


def test_without_a_known_argument_all_of_them_count() -> None:
    found = list(find_commands("sh", {"do": "ls", "deep": {"then": "pwd"}, "no": None}, {}))

    assert found[0] == "ls"
    assert "pwd" in found[1]


def test_what_cannot_be_read_is_told() -> None:
    with pytest.raises(InputTypeError, match="a text, or a list of words"):
        list(find_commands("sh", {"command": 7}, {}))
