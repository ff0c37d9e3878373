"""Find the tools that run commands, and the commands in their arguments."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from demur.enforce.described import OpaqueText
from demur.enforce.texts import extract_texts
from demur.errors import InputTypeError

__all__ = ["find_commands"]

# Matched against the last part of a tool's name, in lower case and without punctuation. A shell's
# name is enough; `command` or `code` needs a verb such as `run`.
_TOOL = re.compile(
    r"exec|monitor|repl|"
    r"(?:run|exec|execute)?(?:in|on|with)?(?:local|remote)?"
    r"(?:bash|zsh|sh|shell|cmd|console|terminal|powershell|pwsh|i?python3?|codeinterpreter)"
    r"(?:ast|cmd|code|command|exec|execute|repl|script|session|tool)*|"
    r"(?:run|exec|execute)(?:code|command|commandline|commands|javascript|js|script)(?:tool)?"
)
_ARGUMENTS = ("command", "commands", "cmd", "script", "code", "query", "input", "source")
_PART = re.compile(r"__|[./:]")
_MARKS = re.compile(r"[^a-z0-9]")


def find_commands(
    name: str, arguments: Mapping[str, Any], command_arguments: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands that a call would run; none for a tool that runs no commands.

    `command_arguments` names further tools, each with the argument that holds its command.

    Raises:
        InputTypeError: The command is neither a text nor a list of words.
    """
    if name in command_arguments:
        yield from _command_texts(arguments.get(command_arguments[name]))
    elif _TOOL.fullmatch(_MARKS.sub("", _PART.split(name)[-1].lower())):
        given = [arguments[each] for each in _ARGUMENTS if each in arguments]
        # If no argument has a known name, any of them may hold the command.
        for value in given or arguments.values():
            yield from (
                _command_texts(value) if given or not _is_nested(value) else [extract_texts(value)]
            )


def _is_nested(value: Any) -> bool:
    words = isinstance(value, list | tuple) and all(type(word) is str for word in value)
    return not words and not isinstance(value, str)


def _command_texts(value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, list | tuple) and all(type(word) is str for word in value):
        # The list may be the words of one command or one command each: check both.
        yield shlex.join(value)
        yield "\n".join(value)
    elif isinstance(value, str) and not isinstance(value, OpaqueText):
        yield value
    else:
        raise InputTypeError.wrong_type("a command", "a text, or a list of words", value)
