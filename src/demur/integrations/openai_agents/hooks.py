"""What the OpenAI Agents SDK asks a guard while it runs an agent, and what it is told."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    RunContextWrapper,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    ToolApprovalItem,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.tool_context import ToolContext
from agents.tracing import get_current_trace

from demur.enforce.approval import GrantFor, agranted
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Refused, Ruling
from demur.integrations.openai_agents.calls import Asked, Calls, is_approved
from demur.integrations.openai_agents.form import (
    info_of,
    prompt_of,
    text_of,
    to_output,
    to_tool_output,
)
from demur.integrations.openai_agents.run import Run

__all__ = ["Hooks", "Whose"]

_FRAMEWORK = "openai-agents"
_NAME = "demur"
_NO_TRACE = "no-op"

# Returns the call context of a run.
Whose = Callable[[RunContextWrapper[Any]], Occasion]


class Hooks:
    """The SDK's hooks, and the state of each run. Safe to share between tasks."""

    def __init__(
        self,
        enforcer: Enforcer,
        whose: Whose | None,
        grant_for: GrantFor | None,
        *,
        says: bool,
        waits: bool,
    ) -> None:
        self._enforcer = enforcer
        self._whose = whose
        self._grant_for = grant_for
        self._says = says
        self._waits = waits
        self._runs: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()
        self._traces: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._numbers = count(1)
        self.calls = Calls()
        self.input: InputGuardrail[Any] = InputGuardrail(
            self._on_input, name=_NAME, run_in_parallel=False
        )
        self.output: OutputGuardrail[Any] = OutputGuardrail(self._on_output, name=_NAME)
        self.tool_input: ToolInputGuardrail[Any] = ToolInputGuardrail(
            self._on_tool_call, name=_NAME
        )
        self.tool_output: ToolOutputGuardrail[Any] = ToolOutputGuardrail(
            self._on_tool_result, name=_NAME
        )

    async def _on_input(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], given: str | list[Any]
    ) -> GuardrailFunctionOutput:
        del agent
        run = self.run(ctx)
        run.prompt = prompt_of(given)
        ruling = await self._enforcer.aprompt(run.prompt, self.at(ctx))
        run.allowed = ruling.allowed
        await run.release()
        return to_output(ruling)

    async def _on_output(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], said: Any
    ) -> GuardrailFunctionOutput:
        del agent
        run, at, text = self.run(ctx), self.at(ctx), text_of(said)
        await run.go_on()
        if run.said is not None and run.said[0] == text:
            # demur's own words for a model's refusal, which is recorded already.
            return GuardrailFunctionOutput(info_of(run.said[1]), tripwire_triggered=False)
        ruling = await run.rule_once(
            text, lambda: self._enforcer.aanswer(text, at, prompt=run.prompt)
        )
        if not ruling.allowed:
            return to_output(ruling)
        model = await self._enforcer.amodel(None, at, text=text, prompt=run.prompt)
        # A model's refusal in its own words may be shown; it stops nothing.
        told = ruling if model.allowed else model
        return GuardrailFunctionOutput(info_of(told), tripwire_triggered=False)

    async def _on_tool_call(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return to_tool_output(await self.call(data.context, data.context.tool_arguments))

    async def _on_tool_result(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        ctx = data.context
        return to_tool_output(await self.result(ctx, data.output, ctx.tool_arguments))

    async def call(self, ctx: ToolContext[Any], arguments: Mapping[str, Any] | str) -> Ruling:
        """Check a call that is due."""
        name, at = ctx.qualified_tool_name, self.at(ctx)._replace(call_id=ctx.tool_call_id)
        ruling = self.calls.ruled(at, name, arguments)
        if ruling is None:
            ruling = await self._enforcer.atool_call(name, arguments, at)
        if ruling.may_be_approved and is_approved(ctx):
            grants = self.run(ctx).grants = await agranted(self._grant_for, ruling, ctx)
            # Check again even without grants: the enforcer's authority may have one by now.
            ruling = await self._enforcer.atool_call(name, arguments, at, grants=grants)
        return ruling

    async def result(
        self, ctx: ToolContext[Any], output: Any, arguments: Mapping[str, Any] | str
    ) -> Ruling:
        """Check the result of a call."""
        return await self._enforcer.atool_result(
            ctx.qualified_tool_name,
            output,
            self.at(ctx)._replace(call_id=ctx.tool_call_id),
            arguments=arguments,
            grants=self.run(ctx).grants,
        )

    async def handed_over(
        self, ctx: RunContextWrapper[Any], name: str, arguments: str
    ) -> str | None:
        """Return the message of a refused handoff, or None if it is allowed.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """
        ruling = await self._enforcer.atool_call(name, arguments or "{}", self.at(ctx))
        if not ruling.allowed and ruling.is_hard:
            raise self.tripwire(ruling)
        return None if ruling.allowed else ruling.message

    def tripwire(self, ruling: Ruling) -> ToolInputGuardrailTripwireTriggered:
        """Return the exception that ends a run before a call."""
        return ToolInputGuardrailTripwireTriggered(self.tool_input, to_tool_output(ruling))

    def result_tripwire(self, ruling: Ruling) -> ToolOutputGuardrailTripwireTriggered:
        """Return the exception that ends a run after a call."""
        return ToolOutputGuardrailTripwireTriggered(self.tool_output, to_tool_output(ruling))

    async def needs_approval(
        self,
        name: str,
        before: Any,
        ctx: RunContextWrapper[Any],
        arguments: dict[str, Any],
        call_id: str,
    ) -> bool:
        """Return whether a call waits for a person, by its tool's setting or by demur's.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """

        def own(given: Mapping[str, Any]) -> Any:
            return before(ctx, given, call_id) if callable(before) else before

        return await self.due(name, own, ctx, arguments, call_id)

    async def due(
        self,
        name: str,
        own: Callable[[Mapping[str, Any]], Any],
        ctx: RunContextWrapper[Any],
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> bool:
        """Check a call and return whether it waits for a person.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """
        at, run = self.at(ctx)._replace(call_id=call_id), self.run(ctx)
        await run.go_on()
        ruling = await self._enforcer.atool_call(name, arguments, at)
        refused = not ruling.allowed and not ruling.may_be_approved
        if refused and ruling.is_hard:
            raise self.tripwire(ruling)
        asked = Asked(name, arguments, ruling)
        if ruling.may_be_approved and self._waits:
            run.waiting[call_id] = ruling
            self.calls.wait(ctx, call_id, asked)
            return True
        # Do not ask a person about a refusal that no approval lifts.
        wish = False if refused else own(arguments)
        waits = bool(await wish if inspect.isawaitable(wish) else wish)
        if not waits:
            # The call is due at once. A call that waits is checked again when it is due.
            self.calls.add(at, asked)
        return waits

    def why(
        self, ctx: RunContextWrapper[Any], calls: Iterable[ToolApprovalItem]
    ) -> Iterator[Ruling]:
        """Yield the results of calls that interrupted a run because of demur."""
        own = self.run(ctx).waiting
        for call in calls:
            known = own.get(str(call.call_id))
            ruling = self.calls.why(ctx, call) if known is None else known
            if ruling is not None:
                yield ruling

    async def on_model_refusal(
        self, given: RunErrorHandlerInput[Any]
    ) -> RunErrorHandlerResult | None:
        """Return the words for a model's own refusal, or None to leave it to the SDK.

        Raises:
            Refused: The settings ask for an exception, or the agent's output type is not text.
        """
        run, agent = self.run(given.context), given.run_data.last_agent
        ruling = await self._enforcer.amodel(given.error, self.at(given.context), prompt=run.prompt)
        if ruling.allowed:
            return None
        if not self._says or agent.output_type not in {None, str}:
            raise Refused(ruling) from given.error
        run.said = (ruling.words, ruling)
        return RunErrorHandlerResult(final_output=ruling.words)

    # State and context of a run.

    def run(self, ctx: RunContextWrapper[Any]) -> Run:
        """Return the state of a run."""
        return self._runs.setdefault(ctx, Run())

    def at(self, ctx: RunContextWrapper[Any], trace: Any = None) -> Occasion:
        """Return the call context of a run."""
        at = Occasion() if self._whose is None else self._whose(ctx)
        run = at.run or self._trace_id(trace or get_current_trace())
        return at._replace(framework=at.framework or _FRAMEWORK, run=run)

    def _trace_id(self, trace: Any) -> str | None:
        if trace is None:
            return None
        if trace.trace_id != _NO_TRACE:
            return str(trace.trace_id)
        # With tracing off, all traces share one name, but each run has its own object.
        if trace not in self._traces:
            self._traces[trace] = f"run-{next(self._numbers)}"
        return self._traces[trace]
