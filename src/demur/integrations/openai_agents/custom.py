"""A custom tool of the OpenAI Agents SDK that is ruled on: the SDK has no guardrails for those.

What it is asked stands as `input` among the arguments. Of whatever the tool raises, the SDK makes
an output, so a hard refusal ends the run elsewhere: where the SDK asks whether the call has to
wait or, once that is settled, where it asks for data about the output.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from agents import AgentsException, CustomTool, RunContextWrapper
from agents.tool_context import ToolContext

from demur.enforce.ruling import Ruling

__all__ = ["Custom", "Rulings"]


class Rulings(NamedTuple):
    """The checks of a tool: before its call is due, when it is due, and on its result.

    `must_wait` says whether the call waits for a person, by the tool's setting or demur's.
    `call_tripwire` and `result_tripwire` build the exceptions that end a run after a hard refusal.
    """

    due: Callable[[str, Any, RunContextWrapper[Any], Mapping[str, Any], str], Awaitable[bool]]
    call: Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[Ruling]]
    result: Callable[[ToolContext[Any], Any, Mapping[str, Any]], Awaitable[Ruling]]
    ends_call: Callable[[Ruling], AgentsException]
    ends_result: Callable[[Ruling], AgentsException]


class Custom(CustomTool):
    """The custom tool `inner`, which runs only if `checks` allow it."""

    def __init__(self, inner: CustomTool, rulings: Rulings) -> None:
        super().__init__(
            name=inner.name,
            description=inner.description,
            on_invoke_tool=self._invoked,
            format=inner.format,
            defer_loading=inner.defer_loading,
            custom_data_extractor=self._data,
            allowed_callers=inner.allowed_callers,
        )
        self.inner = inner
        self.rulings = rulings
        self.tool_config = inner.tool_config
        self._ends: WeakKeyDictionary[ToolContext[Any], AgentsException] = WeakKeyDictionary()

    def runtime_needs_approval(self) -> Any:
        """Return the function that the SDK calls before a tool call."""
        return self._waits

    def runtime_on_approval(self) -> Any:
        """Return the tool's own approval callback, if it has one."""
        return self.inner.runtime_on_approval()

    async def _waits(self, ctx: RunContextWrapper[Any], text: str, call_id: str) -> bool:
        own = self.inner.runtime_needs_approval()

        def asked(_arguments: Any) -> Any:
            return own(ctx, text, call_id) if callable(own) else own

        return await self.rulings.due(self.name, asked, ctx, _given(text), call_id)

    async def _invoked(self, ctx: ToolContext[Any], text: str) -> Any:
        ruling = await self.rulings.call(ctx, _given(text))
        if not ruling.allowed:
            return self._told(ctx, ruling, self.rulings.ends_call)
        try:
            output = self.inner.on_invoke_tool(ctx, text)
            output = await output if inspect.isawaitable(output) else output
        except Exception as error:
            # The SDK passes the error text to the model, so check it like a result.
            after = await self.rulings.result(ctx, str(error) or type(error).__name__, _given(text))
            if after.allowed:
                raise
        else:
            after = await self.rulings.result(ctx, output, _given(text))
            if after.allowed:
                return output
        return self._told(ctx, after, self.rulings.ends_result)

    def _told(
        self, ctx: ToolContext[Any], ruling: Ruling, ends: Callable[[Ruling], AgentsException]
    ) -> str:
        if ruling.is_hard:
            self._ends[ctx] = ends(ruling)
        return ruling.message

    async def _data(self, about: Any) -> Any:
        """Return the tool's own data about an output, or end the run after a hard refusal."""
        ends = self._ends.pop(about.tool_context, None)
        if ends is not None:
            raise ends
        own = self.inner.custom_data_extractor
        data = None if own is None else own(about)
        return await data if inspect.isawaitable(data) else data


def _given(text: str) -> Mapping[str, Any]:
    return {"input": text}
