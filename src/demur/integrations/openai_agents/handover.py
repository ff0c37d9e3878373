"""A handoff of the OpenAI Agents SDK that is ruled on as the tool call it is for its model."""

import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, NamedTuple

from agents import Agent, Handoff, HandoffInputData, RunContextWrapper

__all__ = ["CheckHandoff", "GuardedHandoff", "HandoffTarget"]

# Maps the run, the name and the arguments to the message of a refusal, or None.
CheckHandoff = Callable[[RunContextWrapper[Any], str, str], Awaitable[str | None]]

# The refusal message of the last handoff in this task, if it was refused.
_handoff_refusal: ContextVar[str | None] = ContextVar("demur_handoff", default=None)


class HandoffTarget(NamedTuple):
    """The current agent, the one that takes over, and the function that guards it.

    `target` is None if only the handoff itself can tell.
    """

    owner: Agent[Any]
    target: Agent[Any] | None
    guard_agent: Callable[[Agent[Any]], Agent[Any]]


class GuardedHandoff(Handoff[Any, Any]):
    """The handoff `inner`, which happens only if `check` allows it.

    In the SDK a handoff cannot fail. After a refusal the agent hands over to itself, and the
    transfer message is the refusal.
    """

    def __init__(
        self, inner: Handoff[Any, Any], check: CheckHandoff, handoff_target: HandoffTarget
    ) -> None:
        super().__init__(
            **{each.name: getattr(inner, each.name) for each in fields(Handoff) if each.init}
        )
        self.inner = inner
        self.check = check
        self.handoff_target = handoff_target
        self.on_invoke_handoff = self._invoke_checked
        self.input_filter = None if inner.input_filter is None else self._filter_input
        if handoff_target.target is not None:
            # A run state that is loaded later finds the agent to continue with here.
            self._agent_ref = weakref.ref(handoff_target.target)

    async def _invoke_checked(self, ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        told = await self.check(ctx, self.tool_name, arguments)
        target = None
        if told is None:
            target = await self.inner.on_invoke_handoff(ctx, arguments)
            # Another guard may have refused.
            told = _handoff_refusal.get() if isinstance(self.inner, GuardedHandoff) else None
        # Set this last: the inner handoff may itself hand over.
        _handoff_refusal.set(told)
        if told is not None or target is None:
            return self.handoff_target.owner
        return self.handoff_target.guard_agent(target)

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the handoff call."""
        told = _handoff_refusal.get()
        return self.inner.get_transfer_message(agent) if told is None else told

    def _filter_input(self, data: HandoffInputData) -> Any:
        # After a refusal the same agent continues, so nothing is hidden from it.
        if _handoff_refusal.get() is not None or self.inner.input_filter is None:
            return data
        return self.inner.input_filter(data)
