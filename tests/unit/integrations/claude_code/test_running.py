from typing import Any

import pytest

from demur.integrations.claude_code.running import list_commands, list_unknown_commands


@pytest.mark.parametrize(
    ("name", "arguments", "commands"),
    [
        ("Bash", {"command": "ls"}, ["ls"]),
        ("start", {"command": "ls", "cmd": "pwd"}, ["ls", "pwd"]),
        ("start", {"script": ["rm", "-r x"]}, ["rm '-r x'", "rm\n-r x"]),
        ("start", {"command": {"op": "view"}, "cmd": 3, "script": [1]}, []),
        ("Bash", {"command": {"op": "view"}}, []),
        ("Read", {"file_path": "/a"}, []),
    ],
)
def test_the_argument_tells_what_is_run(
    name: str, arguments: dict[str, Any], commands: list[str]
) -> None:
    assert list_commands(name, arguments) == commands


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Bash", {"command": "ls"}), ("Bash", {"command": 3}), (3, {}), ("start", "ls"), ("x", None)],
)
def test_what_the_core_knows_of_is_not_asked_twice(name: Any, arguments: Any) -> None:
    assert list_unknown_commands(name, arguments) == []


def test_what_the_core_does_not_know_of_is_asked() -> None:
    assert list_unknown_commands("start", {"command": "ls", "cmd": 3}) == ["ls"]
