"""Choose which of a server's tools can be pinned."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from demur.errors import DemurError
from demur.guards.tool_call.manifest import PinnedTool, pin_tool
from demur.integrations.mcp_proxy.definitions import DefinitionGuard, Offered, offered, rest_digest
from demur.integrations.mcp_proxy.pins import Pins
from demur.model.finding import Action, Finding

__all__ = ["Candidate", "candidates", "pins_with"]


class Candidate(NamedTuple):
    """A tool to pin, with its findings; `problem` says why it cannot be pinned."""

    name: str
    tool: Offered | None = None
    pin: PinnedTool | None = None
    rest: str = ""
    findings: tuple[Finding, ...] = ()
    problem: str = ""

    @property
    def poisoned(self) -> bool:
        """Whether its definition has findings beyond a warning."""
        return any(found.action is not Action.WARN for found in self.findings)


def candidates(tools: Iterable[Any], server: str) -> Iterator[Candidate]:
    """Yield each tool that a server lists, with its findings."""
    seen: set[str] = set()
    for entry in tools:
        name = entry.get("name") if isinstance(entry, dict) else None
        shown = name if isinstance(name, str) else "?"
        if shown in seen:
            yield Candidate(shown, problem="another tool has the same name")
            continue
        seen.add(shown)
        try:
            yield _candidate(offered(entry, server))
        except DemurError as error:
            yield Candidate(shown, problem=error.problem)


def _candidate(tool: Offered) -> Candidate:
    assert tool.tool is not None
    pin = pin_tool(tool.name, tool.tool.description, tool.tool.schema, tool.source)
    return Candidate(tool.name, tool, pin, rest_digest(tool), tuple(DefinitionGuard().check(tool)))


def pins_with(pins: Pins, server: str, chosen: Iterable[Candidate]) -> Pins:
    """Return the pins with the chosen tools of a server in place of its earlier ones."""
    kept = [(one.pin, one.rest) for one in chosen if one.pin is not None]
    return pins.with_server(
        server, tuple(pin for pin, _ in kept), {pin.name: rest for pin, rest in kept}
    )
