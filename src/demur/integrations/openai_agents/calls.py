"""Calls that the OpenAI Agents SDK asked about before they were due, and those that wait."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from agents import RunContextWrapper, ToolApprovalItem
from agents.tool_context import ToolContext

from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.openai_agents.form import parsed

__all__ = ["Asked", "Calls", "is_approved"]

_MOST_KEPT = 1_000


class Asked(NamedTuple):
    """A call that was checked before it was due."""

    name: str
    arguments: Any
    ruling: Ruling

    def is_about(self, call: ToolApprovalItem) -> bool:
        """Return whether it is the call that waits for approval."""
        given = call.arguments or ""
        known = self.arguments in (parsed(given), {"input": given})
        return known and self.name == call.qualified_name


class Calls:
    """Check results of calls that are not due yet; beyond a limit the oldest are dropped."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[str | None, str], Asked] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, int], Asked] = OrderedDict()

    def add(self, at: Occasion, asked: Asked) -> None:
        """Keep the result of a call until it is due."""
        _keep(self._asked, (at.run, str(at.call_id)), asked)

    def ruled(self, at: Occasion, name: str, arguments: Mapping[str, Any] | str) -> Ruling | None:
        """Return the result from when the SDK asked about approval, or None."""
        asked = self._asked.pop((at.run, str(at.call_id)), None)
        given = parsed(arguments) if isinstance(arguments, str) else arguments
        if asked is None or asked.name != name or asked.arguments != given:
            return None
        return asked.ruling

    def wait(self, ctx: RunContextWrapper[Any], call_id: str, asked: Asked) -> None:
        """Keep the result of a call that waits for a person."""
        _keep(self._waiting, (call_id, id(ctx.context)), asked)

    def why(self, ctx: RunContextWrapper[Any], call: ToolApprovalItem) -> Ruling | None:
        """Return the result for which a call waits, or None.

        An agent that runs as a tool has a run of its own, with the same context.
        """
        asked = self._waiting.get((str(call.call_id), id(ctx.context)))
        return asked.ruling if asked is not None and asked.is_about(call) else None


def is_approved(ctx: ToolContext[Any]) -> bool:
    """Return whether a person approved this very call.

    Once all calls of a tool are approved, the SDK stops asking; demur does not accept that.
    """
    records = getattr(ctx, "_approvals", {}).values()
    lists = (one.approved for one in records if isinstance(one.approved, list))
    return any(ctx.tool_call_id in approved for approved in lists)


def _keep(kept: OrderedDict[Any, Asked], key: Any, asked: Asked) -> None:
    kept[key] = asked
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
