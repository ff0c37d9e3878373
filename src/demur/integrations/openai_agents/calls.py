"""Calls that the OpenAI Agents SDK asked about before they were due, and those that wait."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from agents import RunContextWrapper, ToolApprovalItem
from agents.tool_context import ToolContext

from demur.enforce.occasion import CallContext
from demur.enforce.ruling import CheckResult
from demur.integrations.openai_agents.form import parse_arguments

__all__ = ["CheckedCall", "PendingChecks", "is_approved"]

_MAX_KEPT = 1_000


class CheckedCall(NamedTuple):
    """A call that was checked before it was due."""

    name: str
    arguments: Any
    result: CheckResult

    def matches_call(self, call: ToolApprovalItem) -> bool:
        """Return whether it is the call that waits for approval."""
        given = call.arguments or ""
        known = self.arguments in (parse_arguments(given), {"input": given})
        return known and self.name == call.qualified_name


class PendingChecks:
    """Check results of calls that are not due yet; beyond a limit the oldest are dropped."""

    def __init__(self) -> None:
        self._checked: OrderedDict[tuple[str | None, str], CheckedCall] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, int], CheckedCall] = OrderedDict()

    def add(self, context: CallContext, call: CheckedCall) -> None:
        """Keep the result of a call until it is due."""
        _keep_bounded(self._checked, (context.run, str(context.call_id)), call)

    def take_result(
        self, context: CallContext, name: str, arguments: Mapping[str, Any] | str
    ) -> CheckResult | None:
        """Return the result from when the SDK asked about approval, or None."""
        asked = self._checked.pop((context.run, str(context.call_id)), None)
        given = parse_arguments(arguments) if isinstance(arguments, str) else arguments
        if asked is None or asked.name != name or asked.arguments != given:
            return None
        return asked.result

    def add_waiting(self, ctx: RunContextWrapper[Any], call_id: str, call: CheckedCall) -> None:
        """Keep the result of a call that waits for a person."""
        _keep_bounded(self._waiting, (call_id, id(ctx.context)), call)

    def find_waiting(
        self, ctx: RunContextWrapper[Any], call: ToolApprovalItem
    ) -> CheckResult | None:
        """Return the result for which a call waits, or None.

        An agent that runs as a tool has a run of its own, with the same context.
        """
        asked = self._waiting.get((str(call.call_id), id(ctx.context)))
        return asked.result if asked is not None and asked.matches_call(call) else None


def is_approved(ctx: ToolContext[Any]) -> bool:
    """Return whether a person approved this very call.

    Once all calls of a tool are approved, the SDK stops asking; demur does not accept that.
    """
    records = getattr(ctx, "_approvals", {}).values()
    lists = (one.approved for one in records if isinstance(one.approved, list))
    return any(ctx.tool_call_id in approved for approved in lists)


def _keep_bounded(kept: OrderedDict[Any, CheckedCall], key: Any, call: CheckedCall) -> None:
    kept[key] = call
    while len(kept) > _MAX_KEPT:
        kept.popitem(last=False)
