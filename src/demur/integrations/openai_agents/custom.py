"""A custom tool of the OpenAI Agents SDK that is ruled on: the SDK has no guardrails for those.

What it is asked stands as `input` among the arguments. A hard refusal ends the run where the SDK
asks whether the call has to wait; of what the tool returned, it is too late for that.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from agents import CustomTool, RunContextWrapper, ToolInputGuardrailTripwireTriggered
from agents.tool_context import ToolContext

from demur.enforce.ruling import Ruling

__all__ = ["Custom", "Rulings"]


class Rulings(NamedTuple):
    """Who rules on a tool: before its call is due, when it is, and on what it returned.

    `due` also says whether the call waits for a person, by its own setting or by ours.
    """

    due: Callable[
        [str, Any, RunContextWrapper[Any], Mapping[str, Any], str], Awaitable[tuple[Ruling, bool]]
    ]
    call: Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[Ruling]]
    result: Callable[[ToolContext[Any], Any, Mapping[str, Any]], Awaitable[Ruling]]
    tripwire: Callable[[Ruling], ToolInputGuardrailTripwireTriggered]


class Custom(CustomTool):
    """The custom tool `inner`, once `rulings` have nothing against it."""

    def __init__(self, inner: CustomTool, rulings: Rulings) -> None:
        super().__init__(
            name=inner.name,
            description=inner.description,
            on_invoke_tool=self._invoked,
            format=inner.format,
            defer_loading=inner.defer_loading,
            custom_data_extractor=inner.custom_data_extractor,
            allowed_callers=inner.allowed_callers,
        )
        self.inner = inner
        self.rulings = rulings
        self.tool_config = inner.tool_config

    def runtime_needs_approval(self) -> Any:
        """Return what the SDK asks before a call."""
        return self._waits

    def runtime_on_approval(self) -> Any:
        """Return who answers in a person's place, if the tool has somebody."""
        return self.inner.runtime_on_approval()

    async def _waits(self, ctx: RunContextWrapper[Any], text: str, call_id: str) -> bool:
        own = self.inner.runtime_needs_approval()

        def asked(_arguments: Any) -> Any:
            return own(ctx, text, call_id) if callable(own) else own

        ruling, waits = await self.rulings.due(self.name, asked, ctx, _given(text), call_id)
        if not ruling.allowed and ruling.is_hard:
            raise self.rulings.tripwire(ruling)
        return waits

    async def _invoked(self, ctx: ToolContext[Any], text: str) -> Any:
        ruling = await self.rulings.call(ctx, _given(text))
        if not ruling.allowed:
            return ruling.message
        output = self.inner.on_invoke_tool(ctx, text)
        output = await output if inspect.isawaitable(output) else output
        after = await self.rulings.result(ctx, output, _given(text))
        return output if after.allowed else after.message


def _given(text: str) -> Mapping[str, Any]:
    return {"input": text}
