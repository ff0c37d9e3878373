"""A handoff of the OpenAI Agents SDK that is ruled on as the tool call it is for its model."""

import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, NamedTuple

from agents import Agent, Handoff, HandoffInputData, RunContextWrapper

__all__ = ["Asks", "Handover", "Whither"]

# Maps the run, the name and the arguments to the message of a refusal, or None.
Asks = Callable[[RunContextWrapper[Any], str, str], Awaitable[str | None]]

# The refusal message of the last handoff in this task, if it was refused.
_said: ContextVar[str | None] = ContextVar("demur_handoff", default=None)


class Whither(NamedTuple):
    """The current agent, the one that takes over, and the function that guards it.

    `target` is None if only the handoff itself can tell.
    """

    owner: Agent[Any]
    target: Agent[Any] | None
    guarded: Callable[[Agent[Any]], Agent[Any]]


class Handover(Handoff[Any, Any]):
    """The handoff `inner`, which happens only if `check` allows it.

    In the SDK a handoff cannot fail. After a refusal the agent hands over to itself, and the
    transfer message is the refusal.
    """

    def __init__(self, inner: Handoff[Any, Any], asks: Asks, whither: Whither) -> None:
        super().__init__(
            **{each.name: getattr(inner, each.name) for each in fields(Handoff) if each.init}
        )
        self.inner = inner
        self.asks = asks
        self.whither = whither
        self.on_invoke_handoff = self._invoked
        self.input_filter = None if inner.input_filter is None else self._filtered
        if whither.target is not None:
            # A run state that is loaded later finds the agent to continue with here.
            self._agent_ref = weakref.ref(whither.target)

    async def _invoked(self, ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        told = await self.asks(ctx, self.tool_name, arguments)
        target = None
        if told is None:
            target = await self.inner.on_invoke_handoff(ctx, arguments)
            # Another guard may have refused.
            told = _said.get() if isinstance(self.inner, Handover) else None
        # Set this last: the inner handoff may itself hand over.
        _said.set(told)
        if told is not None or target is None:
            return self.whither.owner
        return self.whither.guarded(target)

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the handoff call."""
        told = _said.get()
        return self.inner.get_transfer_message(agent) if told is None else told

    def _filtered(self, data: HandoffInputData) -> Any:
        # After a refusal the same agent continues, so nothing is hidden from it.
        if _said.get() is not None or self.inner.input_filter is None:
            return data
        return self.inner.input_filter(data)
