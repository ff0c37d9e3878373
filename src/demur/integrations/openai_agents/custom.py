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

from demur.enforce.ruling import CheckResult

__all__ = ["GuardedCustomTool", "ToolChecks"]


class ToolChecks(NamedTuple):
    """The checks of a tool: before its call is due, when it is due, and on its result.

    `must_wait` says whether the call waits for a person, by the tool's setting or demur's.
    `call_tripwire` and `result_tripwire` build the exceptions that end a run after a hard refusal.
    """

    must_wait: Callable[[str, Any, RunContextWrapper[Any], Mapping[str, Any], str], Awaitable[bool]]
    check_call: Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[CheckResult]]
    check_result: Callable[[ToolContext[Any], Any, Mapping[str, Any]], Awaitable[CheckResult]]
    call_tripwire: Callable[[CheckResult], AgentsException]
    result_tripwire: Callable[[CheckResult], AgentsException]


class GuardedCustomTool(CustomTool):
    """The custom tool `inner`, which runs only if `checks` allow it."""

    def __init__(self, inner: CustomTool, checks: ToolChecks) -> None:
        super().__init__(
            name=inner.name,
            description=inner.description,
            on_invoke_tool=self._invoke_checked,
            format=inner.format,
            defer_loading=inner.defer_loading,
            custom_data_extractor=self._extract_data,
            allowed_callers=inner.allowed_callers,
        )
        self.inner = inner
        self.checks = checks
        self.tool_config = inner.tool_config
        self._tripwires: WeakKeyDictionary[ToolContext[Any], AgentsException] = WeakKeyDictionary()

    def runtime_needs_approval(self) -> Any:
        """Return the function that the SDK calls before a tool call."""
        return self._needs_approval

    def runtime_on_approval(self) -> Any:
        """Return the tool's own approval callback, if it has one."""
        return self.inner.runtime_on_approval()

    async def _needs_approval(self, ctx: RunContextWrapper[Any], text: str, call_id: str) -> bool:
        own = self.inner.runtime_needs_approval()

        def asked(_arguments: Any) -> Any:
            return own(ctx, text, call_id) if callable(own) else own

        return await self.checks.must_wait(self.name, asked, ctx, _as_arguments(text), call_id)

    async def _invoke_checked(self, ctx: ToolContext[Any], text: str) -> Any:
        ruling = await self.checks.check_call(ctx, _as_arguments(text))
        if not ruling.allowed:
            return self._refuse_call(ctx, ruling, self.checks.call_tripwire)
        try:
            output = self.inner.on_invoke_tool(ctx, text)
            output = await output if inspect.isawaitable(output) else output
        except Exception as error:
            # The SDK passes the error text to the model, so check it like a result.
            after = await self.checks.check_result(
                ctx, str(error) or type(error).__name__, _as_arguments(text)
            )
            if after.allowed:
                raise
        else:
            after = await self.checks.check_result(ctx, output, _as_arguments(text))
            if after.allowed:
                return output
        return self._refuse_call(ctx, after, self.checks.result_tripwire)

    def _refuse_call(
        self,
        ctx: ToolContext[Any],
        result: CheckResult,
        tripwire: Callable[[CheckResult], AgentsException],
    ) -> str:
        if result.is_hard:
            self._tripwires[ctx] = tripwire(result)
        return result.model_message

    async def _extract_data(self, about: Any) -> Any:
        """Return the tool's own data about an output, or end the run after a hard refusal."""
        ends = self._tripwires.pop(about.tool_context, None)
        if ends is not None:
            raise ends
        own = self.inner.custom_data_extractor
        data = None if own is None else own(about)
        return await data if inspect.isawaitable(data) else data


def _as_arguments(text: str) -> Mapping[str, Any]:
    return {"input": text}
