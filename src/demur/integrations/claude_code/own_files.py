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
from demur.guards.tool_call.arguments import UnreadableArgumentsError, read_arguments
from demur.guards.tool_call.finding import tool_finding
from demur.guards.tool_call.guard import ToolCall
from demur.integrations.claude_code.own_paths import ProtectedPaths
from demur.integrations.claude_code.running import list_commands
from demur.integrations.claude_code.shell_words import only_reads_files, split_words
from demur.model.finding import Action, Finding

__all__ = ["OwnFilesGuard", "check"]

_WRITING_TOOLS = {
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
}
_READING_TOOLS = frozenset(
    {*("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch")}
)
_READING_NAME = re.compile(r"(?:read|get|list|search|grep|glob|find|view|show|stat|fetch)(?![a-z])")
_WRITING_NAME = re.compile(
    r"write|edit|replace|set|put|update|create|delete|remove|move|save|patch"
)
# Arguments that are never paths, even if they look like one.
_TEXT_ARGUMENTS = frozenset(
    {*("content", "text", "new_string", "old_string", "new_source", "prompt", "description")}
    | {*("command", "cmd", "script", "body", "message", "plan", "subject")}
)
_REMOVING_PROGRAMS = frozenset({"rm", "mv", "rmdir", "unlink", "shred", "rename", "rsync"})
_HOOK_INSTALL = re.compile(r"demur\S*\s+hook\s+install")
_MAX_PATH_LENGTH = 4096
_QUOTING = re.compile(r"""['"\\]""")


class OwnFilesGuard:
    """The guard, as a pipeline takes it."""

    SURFACE = Surface.TOOL_CALL
    CODES: tuple[str, ...] = (ReasonCode.APPROVAL_REQUIRED,)
    # It only resolves links on disk.
    blocking = False

    @staticmethod
    def check(event: ToolCall, config: ProtectedPaths) -> Iterator[Finding]:
        """Yield a finding if a call would change a protected file."""
        return check(event, config)


def check(event: ToolCall, config: ProtectedPaths) -> Iterator[Finding]:
    """Yield a finding if a call would change a protected file."""
    try:
        arguments = read_arguments(event.arguments)
    except UnreadableArgumentsError:
        return
    for text in list_commands(event.name, arguments):
        if _changes_protected(text, config):
            yield _protected_finding(event.name, "COMMAND_ON_OWN_SETTINGS")
            return
    if any(map(config.is_protected, _written_paths(event.name, arguments))):
        yield _protected_finding(event.name, "OWN_SETTINGS")


def _changes_protected(text: str, protected: ProtectedPaths) -> bool:
    if _HOOK_INSTALL.search(_QUOTING.sub("", text)):
        return True
    words = split_words(text)
    if any(map(protected.is_mentioned, words)):
        return not only_reads_files(text, protected.is_mentioned)
    return bool(words & _REMOVING_PROGRAMS) and any(map(protected.has_some_inside, words))


def _written_paths(name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in arguments that may be paths of files to write."""
    if name in _WRITING_TOOLS:
        given: Any = [arguments.get(argument) for argument in _WRITING_TOOLS[name]]
    elif name in _READING_TOOLS or _is_read_only_tool(name):
        return
    else:
        given = [value for key, value in arguments.items() if key not in _TEXT_ARGUMENTS]
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [value for key, value in one.items() if key not in _TEXT_ARGUMENTS]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str) and len(one) <= _MAX_PATH_LENGTH and "\n" not in one.strip():
            yield one.strip().removeprefix("file://")


def _is_read_only_tool(name: str) -> bool:
    said = name.rpartition("__")[2].lower()
    return _READING_NAME.match(said) is not None and _WRITING_NAME.search(said) is None


def _protected_finding(tool: str, rule: str) -> Finding:
    detail = "it would change what holds the agent in check"
    return tool_finding(
        tool,
        ReasonCode.APPROVAL_REQUIRED,
        rule=rule,
        detail=detail,
        facts={"action": "change of settings, rules or state"},
        action=Action.ESCALATE,
    )
