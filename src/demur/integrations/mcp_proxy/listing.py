"""Filter what a server offers: tools, prompts and resources.

A model reads all of it before anything is called. A refused entry is left out, and the operator
is notified.
"""

from collections.abc import Callable, Collection
from typing import Any

from demur.errors import DemurError
from demur.guards.tool_call.manifest import LONGEST_NAME
from demur.integrations.mcp_proxy.definitions import Offered, offered
from demur.integrations.mcp_proxy.judge import LISTING, Judge, Known
from demur.integrations.mcp_proxy.message import look_alikes
from demur.integrations.mcp_proxy.open_requests import Asked

__all__ = ["LISTS", "Listing", "Note", "without_look_alikes"]

# The member of each result that holds the entries.
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_MOST_KNOWN = 10_000

# Gets one line about each action of the proxy.
Note = Callable[[str], None]


class Listing:
    """Filters offered entries, and keeps the tools as offered last."""

    def __init__(self, judge: Judge, note: Note) -> None:
        self._judge = judge
        self._note = note
        self._judged: dict[str, Known] = {}

    def tool(self, name: str) -> Known | None:
        """Return the tool that is offered by a name, or None."""
        return self._judged.get(name)

    async def filtered(self, asked: Asked, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a list without refused entries; or the same object."""
        member = LISTS[asked.method]
        entries = result[member]
        if member == "tools":
            kept = await self._tools_kept(entries, goes_on="cursor" in asked.params)
        else:
            kept = await self._texts_kept(entries)
        return result if len(kept) == len(entries) else {**result, member: kept}

    async def _tools_kept(self, entries: list[Any], *, goes_on: bool) -> list[Any]:
        if len(self._judged) + len(entries) > _MOST_KNOWN:
            self._note(f"left out a list: the server offers more than {_MOST_KNOWN} tools")
            return []
        seen = [await self._known(entry) for entry in entries]
        listed: dict[str, Known] = {}
        for known in filter(None, seen):
            name = known.tool.name
            before = listed.get(name) or (self._judged.get(name) if goes_on else None)
            # A call could mean either of two tools with one name, so an untrusted one wins.
            listed[name] = known if before is None or before.trusted else before
        self._judged |= listed
        return [
            entry
            for entry, known in zip(entries, seen, strict=True)
            if known is not None and listed[known.tool.name].trusted
        ]

    async def _known(self, entry: Any) -> Known | None:
        """Return a tool with whether it is trusted; None for one without a name."""
        try:
            tool = offered(entry, self._judge.server)
        except DemurError as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            self._note(f"a tool of the server cannot be read: {error.problem}")
            if not isinstance(name, str) or len(name) > LONGEST_NAME:
                return None
            tool = Offered(name=name, source=self._judge.server)
        before = self._judged.get(tool.name)
        if before is not None and before.tool == tool:
            return before
        ruling = await self._judge.definition(tool)
        if not ruling.allowed:
            self._note(f"hid the tool `{tool.name}`: {ruling.line}")
        return Known(tool, trusted=ruling.allowed)

    async def _texts_kept(self, entries: list[Any]) -> list[Any]:
        kept = []
        for entry in entries:
            ruling = await self._judge.passage(entry, "listing", LISTING)
            if ruling.allowed:
                kept.append(entry)
            else:
                name = entry.get("name") if isinstance(entry, dict) else None
                self._note(f"hid an entry named `{str(name)[:80]}`: {ruling.line}")
        return kept


def without_look_alikes(
    result: dict[str, Any], members: Collection[str], note: Note
) -> dict[str, Any]:
    """Return a result without members that differ from a known one only in case."""
    strange = look_alikes(result, members)
    for name in strange:
        meant = next(one for one in members if one.casefold() == name.casefold())
        note(f"left out `{name}`, which differs from `{meant}` only in case")
    if not strange:
        return result
    return {name: item for name, item in result.items() if name not in strange}
