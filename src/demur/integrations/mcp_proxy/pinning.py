"""Choose which of a server's tools can be pinned."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from demur.errors import DemurError
from demur.guards.tool_call.manifest import PinnedTool, pin_tool
from demur.integrations.mcp_proxy.definitions import (
    DefinitionGuard,
    OfferedTool,
    parse_tool,
    rest_digest,
)
from demur.integrations.mcp_proxy.pins import ToolPins
from demur.model.finding import Action, Finding

__all__ = ["PinCandidate", "list_candidates", "add_pins"]


class PinCandidate(NamedTuple):
    """A tool to pin, with its findings; `problem` says why it cannot be pinned."""

    name: str
    tool: OfferedTool | None = None
    pin: PinnedTool | None = None
    rest: str = ""
    findings: tuple[Finding, ...] = ()
    problem: str = ""

    @property
    def is_poisoned(self) -> bool:
        """Whether its definition has findings beyond a warning."""
        return any(found.action is not Action.WARN for found in self.findings)


def list_candidates(tools: Iterable[Any], server: str) -> Iterator[PinCandidate]:
    """Yield each tool that a server lists, with its findings."""
    seen: set[str] = set()
    for entry in tools:
        name = entry.get("name") if isinstance(entry, dict) else None
        shown = name if isinstance(name, str) else "?"
        if shown in seen:
            yield PinCandidate(shown, problem="another tool has the same name")
            continue
        seen.add(shown)
        try:
            yield _make_candidate(parse_tool(entry, server))
        except DemurError as error:
            yield PinCandidate(shown, problem=error.problem)


def _make_candidate(tool: OfferedTool) -> PinCandidate:
    assert tool.tool is not None
    pin = pin_tool(tool.name, tool.tool.description, tool.tool.schema, tool.source)
    return PinCandidate(
        tool.name, tool, pin, rest_digest(tool), tuple(DefinitionGuard().check(tool))
    )


def add_pins(pins: ToolPins, server: str, chosen: Iterable[PinCandidate]) -> ToolPins:
    """Return the pins with the chosen tools of a server in place of its earlier ones."""
    kept = [(one.pin, one.rest) for one in chosen if one.pin is not None]
    return pins.with_server(
        server, tuple(pin for pin, _ in kept), {pin.name: rest for pin, rest in kept}
    )
