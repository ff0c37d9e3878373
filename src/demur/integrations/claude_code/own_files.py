"""A guard of what holds the agent in check: changing it waits for a person, whatever rules say.

Code: APPROVAL_REQUIRED, for a tool that may write one of those files, and for a command that
names one and does more than read. It is strict: a command that is not plain counts as one
that writes. Limits: the agent works as the same user. A program that makes up a path while it
runs is not seen, nor is one that was written before.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.tool_call.arguments import UnreadableError, read_arguments
from demur.guards.tool_call.finding import tool_finding
from demur.guards.tool_call.guard import ToolCall
from demur.integrations.claude_code.own_paths import OwnPaths
from demur.integrations.claude_code.running import commands_of
from demur.integrations.claude_code.shell_words import only_reads, words_in
from demur.model.finding import Action, Finding

__all__ = ["OwnFilesGuard", "check"]

_WRITERS = {
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
}
_READERS = frozenset(
    {*("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch")}
)
_READS = re.compile(r"(?:read|get|list|search|grep|glob|find|view|show|stat|fetch)(?![a-z])")
_WRITES = re.compile(r"write|edit|replace|set|put|update|create|delete|remove|move|save|patch")
# Arguments that are never paths, even if they look like one.
_TEXTS = frozenset(
    {*("content", "text", "new_string", "old_string", "new_source", "prompt", "description")}
    | {*("command", "cmd", "script", "body", "message", "plan", "subject")}
)
_REMOVERS = frozenset({"rm", "mv", "rmdir", "unlink", "shred", "rename", "rsync"})
_INSTALLS = re.compile(r"demur\S*\s+hook\s+install")
_LONGEST_PATH = 4096
_MARKS = re.compile(r"""['"\\]""")


class OwnFilesGuard:
    """The guard, as a pipeline takes it."""

    SURFACE = Surface.TOOL_CALL
    CODES: tuple[str, ...] = (ReasonCode.APPROVAL_REQUIRED,)
    # It only resolves links on disk.
    blocking = False

    @staticmethod
    def check(event: ToolCall, config: OwnPaths) -> Iterator[Finding]:
        """Yield a finding if a call would change a protected file."""
        return check(event, config)


def check(event: ToolCall, config: OwnPaths) -> Iterator[Finding]:
    """Yield a finding if a call would change a protected file."""
    try:
        arguments = read_arguments(event.arguments)
    except UnreadableError:
        return
    for text in commands_of(event.name, arguments):
        if _changes(text, config):
            yield _finding(event.name, "COMMAND_ON_OWN_SETTINGS")
            return
    if any(map(config.hold, _paths(event.name, arguments))):
        yield _finding(event.name, "OWN_SETTINGS")


def _changes(text: str, own: OwnPaths) -> bool:
    if _INSTALLS.search(_MARKS.sub("", text)):
        return True
    words = words_in(text)
    if any(map(own.mention, words)):
        return not only_reads(text, own.mention)
    return bool(words & _REMOVERS) and any(map(own.lie_in, words))


def _paths(name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in arguments that may be paths of files to write."""
    if name in _WRITERS:
        given: Any = [arguments.get(argument) for argument in _WRITERS[name]]
    elif name in _READERS or _only_reads(name):
        return
    else:
        given = [value for key, value in arguments.items() if key not in _TEXTS]
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [value for key, value in one.items() if key not in _TEXTS]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str) and len(one) <= _LONGEST_PATH and "\n" not in one.strip():
            yield one.strip().removeprefix("file://")


def _only_reads(name: str) -> bool:
    said = name.rpartition("__")[2].lower()
    return _READS.match(said) is not None and _WRITES.search(said) is None


def _finding(tool: str, rule: str) -> Finding:
    detail = "it would change what holds the agent in check"
    return tool_finding(
        tool,
        ReasonCode.APPROVAL_REQUIRED,
        rule=rule,
        detail=detail,
        facts={"action": "change of settings, rules or state"},
        action=Action.ESCALATE,
    )
