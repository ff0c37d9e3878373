"""Guardrails and approval hooks that the OpenAI Agents SDK calls during a run."""

import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple
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

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, GrantFor, Refused, acollect_grants
from demur.integrations._kit import ContextSource, resolve_context
from demur.integrations.openai_agents.items import (
    build_output_info,
    output_text,
    parse_arguments,
    read_new_prompt,
    to_output,
    to_tool_output,
)
from demur.integrations.openai_agents.run import AgentRunState

_MAX_KEPT = 1_000


class CheckedCall(NamedTuple):
    """A call that was checked before it was due."""

    name: str
    arguments: Any
    result: CheckResult

    def matches_call(self, call: ToolApprovalItem) -> bool:
        """Return whether it is the call that waits for approval."""
        text = call.arguments or ""
        is_same = self.arguments in (parse_arguments(text), {"input": text})
        return is_same and self.name == call.qualified_name


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
        checked = self._checked.pop((context.run, str(context.call_id)), None)
        values = parse_arguments(arguments) if isinstance(arguments, str) else arguments
        if checked is None or checked.name != name or checked.arguments != values:
            return None
        return checked.result

    def add_waiting(self, ctx: RunContextWrapper[Any], call_id: str, call: CheckedCall) -> None:
        """Keep the result of a call that waits for a person."""
        _keep_bounded(self._waiting, (call_id, id(ctx.context)), call)

    def find_waiting(
        self, ctx: RunContextWrapper[Any], call: ToolApprovalItem
    ) -> CheckResult | None:
        """Return the result for which a call waits, or None.

        An agent that runs as a tool has a run of its own, with the same context.
        """
        checked = self._waiting.get((str(call.call_id), id(ctx.context)))
        return checked.result if checked is not None and checked.matches_call(call) else None


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


_FRAMEWORK = "openai-agents"
_GUARDRAIL_NAME = "demur"
_NO_TRACE = "no-op"


class AgentHooks:
    """The SDK's hooks, and the state of each run. Safe to share between tasks."""

    def __init__(
        self,
        enforcer: Enforcer,
        context: ContextSource | None,
        grant_for: GrantFor | None,
        *,
        say_refusal: bool,
        interrupts: bool,
    ) -> None:
        self._enforcer = enforcer
        # Where the SDK offers no way to change a text, it is refused.
        self._plain = enforcer.refuse_changes()
        self.changes_tools = any(
            enforcer.may_change(one) for one in (Surface.TOOL_CALL, Surface.TOOL_RESULT)
        )
        self.changeable: set[str] = set()
        self._context = context
        self._grant_for = grant_for
        self._say_refusal = say_refusal
        self.interrupts = interrupts
        self._runs: WeakKeyDictionary[RunContextWrapper[Any], AgentRunState] = WeakKeyDictionary()
        self._traces: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._numbers = count(1)
        self.pending = PendingChecks()
        name = _GUARDRAIL_NAME
        self.input = InputGuardrail[Any](self._on_input, name=name, run_in_parallel=False)
        self.output = OutputGuardrail[Any](self._on_output, name=name)
        self.tool_input = ToolInputGuardrail[Any](self._on_tool_call, name=name)
        self.tool_output = ToolOutputGuardrail[Any](self._on_tool_result, name=name)

    async def _on_input(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], run_input: str | list[Any]
    ) -> GuardrailFunctionOutput:
        del agent
        run = self.run_state(ctx)
        run.prompt = read_new_prompt(run_input)
        result = await self._plain.acheck_prompt(run.prompt, self.context_for(ctx))
        run.allowed = result.allowed
        await run.release_writes()
        return to_output(result)

    async def _on_output(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any
    ) -> GuardrailFunctionOutput:
        del agent
        run, context, text = self.run_state(ctx), self.context_for(ctx), output_text(output)
        await run.accept_input()
        if run.spoken_refusal is not None and run.spoken_refusal[0] == text:
            # demur's own words for a model's refusal, which is recorded already.
            info = build_output_info(run.spoken_refusal[1])
            return GuardrailFunctionOutput(info, tripwire_triggered=False)
        result = await run.check_once(
            text, lambda: self._enforcer.acheck_answer(text, context, prompt=run.prompt)
        )
        if not result.allowed:
            return to_output(result)
        refusal = await self._enforcer.aread_refusal(None, context, text=text, prompt=run.prompt)
        # A model's refusal in its own words may be shown; it stops nothing.
        info = build_output_info(result if refusal.allowed else refusal)
        return GuardrailFunctionOutput(info, tripwire_triggered=False)

    async def _on_tool_call(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        ctx = data.context
        result = await self.check_call(ctx, ctx.tool_arguments)
        run = self.run_state(ctx)
        if result.changes is not None:
            changed = result.apply_changes(parse_arguments(ctx.tool_arguments))
            run.arguments = json.dumps(changed, ensure_ascii=False)
        return to_tool_output(result)

    async def _on_tool_result(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        ctx = data.context
        return to_tool_output(await self.check_result(ctx, data.output, ctx.tool_arguments))

    def make_changeable(self, name: str, invoke: Any) -> Any:
        """Return the function of a tool that gets changed arguments and returns changed results."""
        self.changeable.add(name)

        async def invoke_tool(ctx: ToolContext[Any], arguments: str) -> Any:
            changed = self.run_state(ctx).arguments
            output = await invoke(ctx, arguments if changed is None else changed)
            return await self.change_output(ctx, output, ctx.tool_arguments)

        return invoke_tool

    async def change_output(
        self, ctx: ToolContext[Any], output: Any, arguments: Mapping[str, Any] | str
    ) -> Any:
        """Return the output of a tool with changed texts; what is left is checked after it."""
        if not self._enforcer.may_change(Surface.TOOL_RESULT):
            return output
        result = await self.check_result(ctx, output, arguments, self._enforcer)
        return result.apply_changes(output)

    async def check_call(
        self, ctx: ToolContext[Any], arguments: Mapping[str, Any] | str
    ) -> CheckResult:
        """Check a call that is due."""
        name, context = ctx.qualified_tool_name, self.context_for(ctx, call_id=ctx.tool_call_id)
        enforcer = self._enforcer if name in self.changeable else self._plain
        result = self.pending.take_result(context, name, arguments)
        if result is None:
            result = await enforcer.acheck_tool_call(name, arguments, context)
        if result.needs_approval and is_approved(ctx):
            grants = await acollect_grants(self._grant_for, result, ctx)
            self.run_state(ctx).grants = grants
            # Check again even without grants: the enforcer's authority may have one by now.
            result = await enforcer.acheck_tool_call(name, arguments, context, grants=grants)
        return result

    async def check_result(
        self,
        ctx: ToolContext[Any],
        output: Any,
        arguments: Mapping[str, Any] | str,
        enforcer: Enforcer | None = None,
    ) -> CheckResult:
        """Check the result of a call; by default as one that cannot be changed."""
        return await (enforcer or self._plain).acheck_tool_result(
            ctx.qualified_tool_name,
            output,
            self.context_for(ctx, call_id=ctx.tool_call_id),
            arguments=arguments,
            grants=self.run_state(ctx).grants,
        )

    async def check_handoff(
        self, ctx: RunContextWrapper[Any], name: str, arguments: str
    ) -> str | None:
        """Return the message of a refused handoff, or None if it is allowed.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """
        context = self.context_for(ctx)
        result = await self._plain.acheck_tool_call(name, arguments or "{}", context)
        if result.is_hard:
            raise self.call_tripwire(result)
        return None if result.allowed else result.model_message

    def call_tripwire(self, result: CheckResult) -> ToolInputGuardrailTripwireTriggered:
        """Return the exception that ends a run before a call."""
        return ToolInputGuardrailTripwireTriggered(self.tool_input, to_tool_output(result))

    def result_tripwire(self, result: CheckResult) -> ToolOutputGuardrailTripwireTriggered:
        """Return the exception that ends a run after a call."""
        return ToolOutputGuardrailTripwireTriggered(self.tool_output, to_tool_output(result))

    async def needs_approval(
        self,
        name: str,
        own_setting: Any,
        ctx: RunContextWrapper[Any],
        arguments: dict[str, Any],
        call_id: str,
    ) -> bool:
        """Return whether a call waits for a person, by its tool's setting or by demur's.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """

        def ask_tool() -> Any:
            return own_setting(ctx, arguments, call_id) if callable(own_setting) else own_setting

        return await self.must_wait(name, ask_tool, ctx, arguments, call_id)

    async def must_wait(
        self,
        name: str,
        ask_tool: Callable[[], Any],
        ctx: RunContextWrapper[Any],
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> bool:
        """Check a call and return whether it waits for a person.

        Raises:
            ToolInputGuardrailTripwireTriggered: It is a hard refusal.
        """
        context, run = self.context_for(ctx, call_id=call_id), self.run_state(ctx)
        await run.accept_input()
        enforcer = self._enforcer if name in self.changeable else self._plain
        result = await enforcer.acheck_tool_call(name, arguments, context)
        refused = not result.allowed and not result.needs_approval
        if refused and result.is_hard:
            raise self.call_tripwire(result)
        checked = CheckedCall(name, arguments, result)
        if result.needs_approval and self.interrupts:
            run.waiting[call_id] = result
            self.pending.add_waiting(ctx, call_id, checked)
            return True
        # Do not ask a person about a refusal that no approval lifts.
        setting = False if refused else ask_tool()
        waits = bool(await setting if inspect.isawaitable(setting) else setting)
        if not waits:
            # The call is due at once. A call that waits is checked again when it is due.
            self.pending.add(context, checked)
        return waits

    def explain_waiting(
        self, ctx: RunContextWrapper[Any], calls: Iterable[ToolApprovalItem]
    ) -> Iterator[CheckResult]:
        """Yield the results of calls that interrupted a run because of demur."""
        waiting = self.run_state(ctx).waiting
        for call in calls:
            result = waiting.get(str(call.call_id))
            result = self.pending.find_waiting(ctx, call) if result is None else result
            if result is not None:
                yield result

    async def on_model_refusal(
        self, failed: RunErrorHandlerInput[Any]
    ) -> RunErrorHandlerResult | None:
        """Return the words for a model's own refusal, or None to leave it to the SDK.

        Raises:
            Refused: The settings ask for an exception, or the agent's output type is not text.
        """
        run, context = self.run_state(failed.context), self.context_for(failed.context)
        result = await self._enforcer.aread_refusal(failed.error, context, prompt=run.prompt)
        if result.allowed:
            return None
        if not self._say_refusal or failed.run_data.last_agent.output_type not in {None, str}:
            raise Refused(result) from failed.error
        run.spoken_refusal = (result.user_text, result)
        return RunErrorHandlerResult(final_output=result.user_text)

    # State and context of a run.

    def run_state(self, ctx: RunContextWrapper[Any]) -> AgentRunState:
        """Return the state of a run."""
        return self._runs.setdefault(ctx, AgentRunState())

    def context_for(
        self, ctx: RunContextWrapper[Any], trace: Any = None, call_id: str | None = None
    ) -> CallContext:
        """Return the call context of a run."""
        run = self._trace_id(trace or get_current_trace())
        return resolve_context(self._context, ctx, _FRAMEWORK, run, call_id)

    def _trace_id(self, trace: Any) -> str | None:
        if trace is None:
            return None
        if trace.trace_id != _NO_TRACE:
            return str(trace.trace_id)
        # With tracing off, all traces share one name, but each run has its own object.
        if trace not in self._traces:
            self._traces[trace] = f"run-{next(self._numbers)}"
        return self._traces[trace]
