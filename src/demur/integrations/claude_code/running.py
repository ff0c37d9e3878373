"""What a tool of Claude Code would run: whatever it is called, a text `command` is one.

The core knows tools that run commands by their names. Claude Code has new ones now and then,
and servers bring their own, so here the argument counts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.enforce.commands import find_commands
from demur.errors import InputTypeError

__all__ = ["list_commands", "list_unknown_commands"]

_COMMAND_ARGUMENTS = ("command", "cmd", "script")


def list_commands(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the commands that a call would run, as far as they can be read."""
    try:
        known = list(find_commands(name, arguments, {}))
    except InputTypeError:
        known = []
    return known or list(_command_texts(name, arguments))


def list_unknown_commands(name: Any, arguments: Any) -> list[str]:
    """Return the commands of a call to a tool that the core does not know as a shell.

    Claude Code adds tools, and servers bring their own, so the argument's name decides here.
    """
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return []
    try:
        known = next(find_commands(name, arguments, {}), None) is not None
    except InputTypeError:
        known = True
    return [] if known else list(_command_texts(name, arguments))


def _command_texts(name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    for argument in _COMMAND_ARGUMENTS:
        value = arguments.get(argument)
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        if isinstance(value, str) or words:
            yield from find_commands(name, arguments, {name: argument})
