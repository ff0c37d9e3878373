"""The input of a Claude Code hook: event, session and members."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from demur.enforce.occasion import CallContext
from demur.errors import InputError

__all__ = ["HookEventError", "Hook", "read_hook"]

_MCP_PREFIX = "mcp__"
# Known members that are not content. A later Claude Code may add or rename members.
_KNOWN_MEMBERS = frozenset(
    {*("hook_event_name", "session_id", "transcript_path", "cwd", "permission_mode", "effort")}
    | {*("agent_id", "agent_type", "tool_name", "tool_input", "tool_use_id", "duration_ms")}
)
_NAME_SEPARATORS = re.compile(r"[^A-Za-z0-9_-]")


class HookEventError(InputError):
    """An event, or a file that it names, cannot be read."""


class Hook(NamedTuple):
    """One event with its members as received; guards validate them."""

    event: str
    members: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a member, or None."""
        return self.members.get(name)

    def get_or_unknown(self, name: str) -> Any:
        """Return a member; if it is missing, all unknown members."""
        if name in self.members:
            return self.members[name]
        return {name: value for name, value in self.members.items() if name not in _KNOWN_MEMBERS}

    def get_text(self, name: str) -> str | None:
        """Return a member that is a non-empty text, or None."""
        value = self.members.get(name)
        return value if isinstance(value, str) and value else None

    def for_call(self, members: Any) -> "Hook":
        """Return the event of one call of a batch; a value that is no object is its output."""
        known = members if isinstance(members, dict) else {"tool_response": members}
        return Hook(self.event, known)

    @property
    def run(self) -> str | None:
        """The run of the event: the session's own agent, or a subagent."""
        session, agent = self.get_text("session_id"), self.get_text("agent_id")
        return f"{session}/{agent}" if session and agent else session

    def mcp_server(self, own_servers: Collection[str] = ()) -> str:
        """Return the server of an MCP tool (`mcp__server__tool`); empty for every other tool.

        Claude Code writes other characters than letters, digits, `_` and `-` as `_`.
        """
        name = self.get_text("tool_name") or ""
        if not name.startswith(_MCP_PREFIX):
            return ""
        rest = name.removeprefix(_MCP_PREFIX)
        servers = sorted((_NAME_SEPARATORS.sub("_", server) for server in own_servers), key=len)
        # The longest first, because one name may begin with another.
        matches = (server for server in reversed(servers) if rest.startswith(f"{server}__"))
        return next(matches, rest.partition("__")[0])

    def tool_name(self, own_servers: Collection[str]) -> Any:
        """Return the tool's name; for a server in `own_servers`, without the server."""
        name, source = self.get("tool_name"), self.mcp_server(own_servers)
        is_own = source in {_NAME_SEPARATORS.sub("_", server) for server in own_servers}
        return name.removeprefix(f"{_MCP_PREFIX}{source}__") if source and is_own else name

    def call_context(self, framework: str) -> CallContext:
        """Return the call context of the event."""
        return CallContext(framework=framework, run=self.run, call_id=self.get_text("tool_use_id"))


def read_hook(raw: bytes | str) -> Hook:
    """Return the event in a hook's input.

    Raises:
        EventError: It is no JSON object, or has no event name.
    """
    try:
        members = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HookEventError("the hook's input is not JSON", where="standard input") from error
    event = members.get("hook_event_name") if isinstance(members, dict) else None
    if not isinstance(event, str) or not event:
        raise HookEventError("the hook's input names no event", where="standard input")
    return Hook(event, members)
