"""A handoff of the OpenAI Agents SDK that is ruled on as the tool call it is for its model."""

import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, NamedTuple

from agents import Agent, Handoff, HandoffInputData, RunContextWrapper

__all__ = ["Asks", "Handover", "Whither"]

# From the run, the name and what the model wrote to what it is told instead, if that is a no.
Asks = Callable[[RunContextWrapper[Any], str, str], Awaitable[str | None]]

# What the model was told at the last handoff of this task, if that was a no.
_said: ContextVar[str | None] = ContextVar("demur_handoff", default=None)


class Whither(NamedTuple):
    """The agent that stays if it is a no, the one that takes over, and how that is guarded.

    `target` is None where only the handoff itself can tell.
    """

    owner: Agent[Any]
    target: Agent[Any] | None
    guarded: Callable[[Agent[Any]], Agent[Any]]


class Handover(Handoff[Any, Any]):
    """The handoff `inner`, once `asks` has nothing against it.

    The SDK knows no handoff that fails. After a no, the agent hands over to itself, and the
    output of its call is what it is told.
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
            # Here a state that is read later finds the agent that it goes on with.
            self._agent_ref = weakref.ref(whither.target)

    async def _invoked(self, ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        told = await self.asks(ctx, self.tool_name, arguments)
        target = None
        if told is None:
            target = await self.inner.on_invoke_handoff(ctx, arguments)
            # Another guard may have said no.
            told = _said.get() if isinstance(self.inner, Handover) else None
        # Not earlier: whatever the handoff does may hand over, too.
        _said.set(told)
        if told is not None or target is None:
            return self.whither.owner
        return self.whither.guarded(target)

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the call."""
        told = _said.get()
        return self.inner.get_transfer_message(agent) if told is None else told

    def _filtered(self, data: HandoffInputData) -> Any:
        # What another agent may not read, the agent that stays may.
        if _said.get() is not None or self.inner.input_filter is None:
            return data
        return self.inner.input_filter(data)
