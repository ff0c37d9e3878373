"""Filter what a server offers: tools, prompts and resources.

A model reads all of it before anything is called. A refused entry is left out, and the operator
is notified.
"""

from collections.abc import Callable, Collection
from typing import Any

from demur.errors import DemurError
from demur.guards.tool_call.manifest import MAX_NAME_LENGTH
from demur.integrations.mcp_proxy.definitions import OfferedTool, parse_tool
from demur.integrations.mcp_proxy.judge import LISTING_ACTION, ProxyJudge, JudgedTool
from demur.integrations.mcp_proxy.message import find_look_alikes
from demur.integrations.mcp_proxy.open_requests import OpenRequest

__all__ = ["LIST_MEMBERS", "ListFilter", "Notify", "drop_look_alikes"]

# The member of each result that holds the entries.
LIST_MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_MAX_KNOWN_TOOLS = 10_000

# Gets one line about each action of the proxy.
Notify = Callable[[str], None]


class ListFilter:
    """Filters offered entries, and keeps the tools as offered last."""

    def __init__(self, judge: ProxyJudge, notify: Notify) -> None:
        self._judge = judge
        self._notify = notify
        self._judged_tools: dict[str, JudgedTool] = {}

    def find_tool(self, name: str) -> JudgedTool | None:
        """Return the tool that is offered by a name, or None."""
        return self._judged_tools.get(name)

    async def filter_list(self, request: OpenRequest, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a list without refused entries; or the same object."""
        member = LIST_MEMBERS[request.method]
        entries = result[member]
        if member == "tools":
            kept = await self._keep_tools(entries, is_continued="cursor" in request.params)
        else:
            kept = await self._keep_texts(entries)
        return result if len(kept) == len(entries) else {**result, member: kept}

    async def _keep_tools(self, entries: list[Any], *, is_continued: bool) -> list[Any]:
        if len(self._judged_tools) + len(entries) > _MAX_KNOWN_TOOLS:
            self._notify(f"left out a list: the server offers more than {_MAX_KNOWN_TOOLS} tools")
            return []
        seen = [await self._judge_tool(entry) for entry in entries]
        listed: dict[str, JudgedTool] = {}
        for known in filter(None, seen):
            name = known.tool.name
            before = listed.get(name) or (self._judged_tools.get(name) if is_continued else None)
            # A call could mean either of two tools with one name, so an untrusted one wins.
            listed[name] = known if before is None or before.trusted else before
        self._judged_tools |= listed
        return [
            entry
            for entry, known in zip(entries, seen, strict=True)
            if known is not None and listed[known.tool.name].trusted
        ]

    async def _judge_tool(self, entry: Any) -> JudgedTool | None:
        """Return a tool with whether it is trusted; None for one without a name."""
        try:
            tool = parse_tool(entry, self._judge.server)
        except DemurError as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            self._notify(f"a tool of the server cannot be read: {error.problem}")
            if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH:
                return None
            tool = OfferedTool(name=name, source=self._judge.server)
        before = self._judged_tools.get(tool.name)
        if before is not None and before.tool == tool:
            return before
        ruling = await self._judge.check_tool(tool)
        if not ruling.allowed:
            self._notify(f"hid the tool `{tool.name}`: {ruling.line}")
        return JudgedTool(tool, trusted=ruling.allowed)

    async def _keep_texts(self, entries: list[Any]) -> list[Any]:
        kept = []
        for entry in entries:
            ruling = await self._judge.check_passage(entry, "listing", LISTING_ACTION)
            if ruling.allowed:
                kept.append(entry)
            else:
                name = entry.get("name") if isinstance(entry, dict) else None
                self._notify(f"hid an entry named `{str(name)[:80]}`: {ruling.line}")
        return kept


def drop_look_alikes(
    result: dict[str, Any], members: Collection[str], notify: Notify
) -> dict[str, Any]:
    """Return a result without members that differ from a known one only in case."""
    strange = find_look_alikes(result, members)
    for name in strange:
        meant = next(one for one in members if one.casefold() == name.casefold())
        notify(f"left out `{name}`, which differs from `{meant}` only in case")
    if not strange:
        return result
    return {name: item for name, item in result.items() if name not in strange}
