"""What Claude Code tells a hook: which event, in which session, and about what."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from demur.errors import InputError
from demur.gate.occasion import Occasion

__all__ = ["Hook", "read_hook"]

_MCP = "mcp__"


class Hook(NamedTuple):
    """One event with its members as they came: a guard judges them, not their reader."""

    event: str
    members: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a member, or None."""
        return self.members.get(name)

    def text(self, name: str) -> str | None:
        """Return a member that is a text with something in it, or None."""
        value = self.members.get(name)
        return value if isinstance(value, str) and value else None

    @property
    def run(self) -> str | None:
        """The agent that the event is about: the session's own, or one that it started."""
        session, agent = self.text("session_id"), self.text("agent_id")
        return f"{session}/{agent}" if session and agent else session

    @property
    def source(self) -> str:
        """The server of an MCP tool (`mcp__server__tool`); empty for every other tool."""
        name = self.text("tool_name") or ""
        return name.removeprefix(_MCP).partition("__")[0] if name.startswith(_MCP) else ""

    def tool(self, own: Collection[str]) -> Any:
        """Return the tool's name; that of a server of one's `own` stands without the server."""
        name = self.get("tool_name")
        return name.removeprefix(f"{_MCP}{self.source}__") if self.source in own else name

    def occasion(self, framework: str) -> Occasion:
        """Return where the event happened."""
        return Occasion(framework=framework, run=self.run, call_id=self.text("tool_use_id"))


def read_hook(raw: bytes | str) -> Hook:
    """Return the event in a hook's input.

    Raises:
        InputError: It is no JSON object, or names no event.
    """
    try:
        members = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError("the hook's input is not JSON", where="standard input") from error
    event = members.get("hook_event_name") if isinstance(members, dict) else None
    if not isinstance(event, str) or not event:
        raise InputError("the hook's input names no event", where="standard input")
    return Hook(event, members)
