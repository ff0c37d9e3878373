"""The enforcer: checks everything an agent asks, calls, reads and says against guards and gate.

Frameworks differ in where they allow a check and in how they receive a refusal. This module
checks, decides and records the same way for all of them; an adapter only translates.

Inputs are always decided: a prompt before the model is called, a tool call before it runs.
Outputs are decided only if a guard found something. Each check is one generator of steps, with
a sync and an async form that run it.
"""

import inspect
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from demur.codes.loading import default_registry
from demur.codes.vocabulary import Surface
from demur.detect.detector import RefusalKind, detect_refusal, to_refusal
from demur.enforce.context import (
    GENERATE_ACTION,
    CallContext,
    RunGate,
    RunGuards,
    Steps,
    adrive,
    drive,
)
from demur.enforce.describe import (
    DescribeCall,
    describe_call,
    extract_texts,
    parse_arguments,
    require_text,
    to_json_value,
)
from demur.enforce.history import (
    CallHistories,
    LocalCallHistories,
    add_call,
    finish_last_call,
    make_run_key,
    start_new_round,
)
from demur.enforce.result import (
    CheckResult,
    build_result,
    failure_finding,
    finding_blocks,
    recordable_action,
    refusal_finding,
)
from demur.enforce.streams import AnswerStream, max_answer_length, stream_config_for
from demur.enforce.tool_effects import ResolvePath, find_tool_effects
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.gate.rate import RateRequest
from demur.guards.builtin import parse_event
from demur.guards.code_execution.event import Command
from demur.guards.input import InputText
from demur.guards.output import OutputText
from demur.guards.tool_call import ToolCall
from demur.guards.tool_loop import RecordedCall
from demur.guards.tool_manifest import ToolDefinition
from demur.guards.tool_result import ToolResult
from demur.model.finding import Action, Finding
from demur.model.grant import Grant
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

AGENT_SURFACES = (
    Surface.INPUT,
    Surface.OUTPUT,
    Surface.TOOL_CALL,
    Surface.TOOL_LOOP,
    Surface.TOOL_RESULT,
    Surface.RETRIEVAL,
    Surface.COMPACTION,
    Surface.CODE_EXECUTION,
)
_agent_pipeline = cache(partial(standard_pipeline, *AGENT_SURFACES))
_NO_CONTEXT = CallContext()
_GENERATE = {"action": {"type": GENERATE_ACTION}}
_P = ParamSpec("_P")
_Form = TypeVar("_Form", bound=Callable[..., Any])

# Looks up the grants that were given for a request.
Authority = Callable[[Mapping[str, Any]], Iterable[Grant]]
_StepsMethod = Callable[Concatenate["Enforcer", _P], Steps[CheckResult]]


def _sync(steps: _StepsMethod[_P]) -> Callable[Concatenate["Enforcer", _P], CheckResult]:
    """Return the sync form of a check."""

    def check(enforcer: "Enforcer", /, *args: _P.args, **kwargs: _P.kwargs) -> CheckResult:
        return drive(steps(enforcer, *args, **kwargs))

    return _describe_form(check, steps)


def _async(
    steps: _StepsMethod[_P],
) -> Callable[Concatenate["Enforcer", _P], Coroutine[Any, Any, CheckResult]]:
    """Return the async form of a check."""

    async def check(enforcer: "Enforcer", /, *args: _P.args, **kwargs: _P.kwargs) -> CheckResult:
        return await adrive(steps(enforcer, *args, **kwargs))

    return _describe_form(check, steps)


def _describe_form(check: _Form, steps: Callable[..., Any]) -> _Form:
    """Give a check the documentation and the parameters of its steps."""
    check.__doc__ = steps.__doc__
    signature = inspect.signature(steps).replace(return_annotation=CheckResult)
    check.__signature__ = signature  # type: ignore[attr-defined]
    return check


def _name_forms(enforcer: "type[Enforcer]") -> "type[Enforcer]":
    """Name each check as the attribute that holds it, so that traces and help show that name."""
    for name, member in vars(enforcer).items():
        if getattr(member, "__name__", "") == "check":
            member.__name__, member.__qualname__ = name, f"{enforcer.__name__}.{name}"
    return enforcer


@_name_forms
class Enforcer:
    """Checks prompts, answers, tool calls and results by guards and gate. Thread- and task-safe.

    If guards, policy, store or the text itself fail, a check does not raise. Its result refuses
    with a runtime code, unless the gate is advisory: then the failure is recorded and the result
    allows. Only `check_event` raises, for an unknown surface. Without a gate, findings alone decide
    and nothing is stored. Without a pipeline, the built-in and installed guards run. Each check has
    three forms: `check_prompt` runs it, `acheck_prompt` awaits it, and `prompt_steps` is for
    adapters that `drive` it.

    `describe` turns a tool call into a request. `accepted` are constraints that the tools honour.
    `authority` looks up grants for a request. `commands` maps further tools that run commands to
    the argument that holds the command. `detect_prose` searches the text of a model for refusals.
    `histories` keeps the tool calls of each run for the guard against loops. `resolve_path` returns
    where links in a path lead, if the tools work on this machine.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        pipeline: GuardPipeline | None = None,
        subject: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        locale: str | None = None,
        describe: DescribeCall = describe_call,
        accepted: Collection[str] = (),
        authority: Authority | None = None,
        commands: Mapping[str, str] | None = None,
        detect_prose: bool = True,
        monitor: Monitor | None = None,
        histories: CallHistories | None = None,
        resolve_path: ResolvePath | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if gate is not None and not isinstance(gate, Gate):
            raise InputTypeError.wrong_type("gate", "a `Gate`", gate)
        self.gate = gate
        self.pipeline = _agent_pipeline() if pipeline is None else pipeline
        self.monitor = monitor
        self.registry = default_registry() if gate is None else gate.registry
        self.locale = locale
        self._subject = subject
        self._tenant = tenant
        self._describe = describe
        self._accepted = tuple(accepted)
        self._authority = authority
        self._commands = commands or {}
        self._detect_prose = detect_prose
        self._histories = LocalCallHistories() if histories is None else histories
        self._resolve_path = resolve_path
        self._monotonic = monotonic
        self._surfaces = frozenset(self.pipeline.surfaces)

    @classmethod
    def coerce(cls, enforcer: "Enforcer | Gate") -> "Enforcer":
        """Return the enforcer itself, or for a gate an enforcer with the standard guards.

        Raises:
            InputTypeError: It is neither.
        """
        if isinstance(enforcer, Enforcer):
            return enforcer
        if not isinstance(enforcer, Gate):
            raise InputTypeError.wrong_type("enforcer", "an `Enforcer` or a `Gate`", enforcer)
        return cls(enforcer)

    def prompt_steps(
        self,
        text: str,
        context: CallContext = _NO_CONTEXT,
        *,
        cost: int = 1,
        request: Mapping[str, Any] | None = None,
    ) -> Steps[CheckResult]:
        """Check a prompt that is about to reach a model.

        `cost` counts towards rate limits; `request` holds further parts of the request.
        """

        def steps() -> Steps[CheckResult]:
            event = InputText(extract_texts(require_text("a prompt", text)), self.locale)
            findings = yield self._guard_step(Surface.INPUT, event)
            # Count refused prompts too, to slow down repeated attempts.
            if Surface.RATE in self._surfaces:
                key = context.rate_key(context.subject or self._subject)
                findings += yield self._guard_step(Surface.RATE, RateRequest(key=key, cost=cost))
            parts = self._build_request({**_GENERATE, **(request or {})}, "input", context)
            result: CheckResult = yield from self._decide(Surface.INPUT, parts, findings, context)
            run = self._run_key(context)
            if result.allowed and run is not None:
                # A new prompt starts a new round: repeating a call in it is no loop.
                self._histories.update(run, start_new_round)
            return result

        return self._fail_closed(Surface.INPUT, context, steps())

    check_prompt = _sync(prompt_steps)
    acheck_prompt = _async(prompt_steps)

    def answer_steps(
        self,
        text: str,
        context: CallContext = _NO_CONTEXT,
        *,
        prompt: str | None = None,
        request: Mapping[str, Any] | None = None,
        earlier: CheckResult | None = None,
    ) -> Steps[CheckResult]:
        """Check the answer of a model.

        `request` holds further parts of the request; `earlier` is the result on the prompt, if its
        findings count together with those on the answer.
        """
        steps = self._check_whole_answer(
            text, None, context, prompt=prompt, request=request, earlier=earlier
        )
        return self._fail_closed(Surface.OUTPUT, context, steps)

    check_answer = _sync(answer_steps)
    acheck_answer = _async(answer_steps)

    def stream_answer(
        self,
        context: CallContext = _NO_CONTEXT,
        *,
        prompt: str | None = None,
        request: Mapping[str, Any] | None = None,
        earlier: CheckResult | None = None,
    ) -> AnswerStream:
        """Return a stream that guards an answer while it is written, like `check_answer`."""

        def check(text: str, reason: Finding | Exception | None) -> Steps[CheckResult]:
            parts = (text, reason, context)
            steps = self._check_whole_answer(
                *parts, prompt=prompt, request=request, earlier=earlier
            )
            return self._fail_closed(Surface.OUTPUT, context, steps)

        config = stream_config_for(self.pipeline, self.gate, self.registry)
        return AnswerStream(config, max_answer_length(self.pipeline, self.gate), prompt, check)

    def tool_call_steps(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        context: CallContext = _NO_CONTEXT,
        *,
        tool: ToolDefinition | None = None,
        source: str = "",
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
        commands: Iterable[str] = (),
    ) -> Steps[CheckResult]:
        """Check a tool call that is about to be made.

        `arguments` are values or the JSON text that a model wrote. `tool` is the definition that
        its server `source` presents now. `grants`, `accepted` and `describe` hold for this call
        only. `commands` are further texts that the call would run.
        """

        def steps() -> Steps[CheckResult]:
            call = ToolCall(name=name, arguments=to_json_value(arguments), tool=tool, source=source)
            call_grants = tuple(grants)
            values = parse_arguments(call.arguments)
            findings = yield from self.guard_steps(Surface.TOOL_CALL, call, commands=commands)
            if values is None and not self._any_blocks(findings):
                raise InputError("the arguments cannot be read", where="arguments")
            values = values or {}
            run = self._run_key(context)
            if run is not None:
                recorded = RecordedCall(name=name, arguments=values, at_s=self._monotonic())
                add = partial(add_call, call=recorded, granted=bool(call_grants))
                history = self._histories.update(run, add)
                findings += yield self._guard_step(Surface.TOOL_LOOP, history)
            described = (describe or self._describe)(name, values)
            request = self._build_request(described, "tool_call", context)
            result: CheckResult = yield from self._decide(
                Surface.TOOL_CALL, request, findings, context, grants=call_grants, accepted=accepted
            )
            if not result.allowed and run is not None:
                # Record the refused call as failed without a result, so that repeating it counts
                # as a loop.
                finish_last_call(self._histories, run, name, values, None)
            return result

        return self._fail_closed(Surface.TOOL_CALL, context, steps(), name)

    check_tool_call = _sync(tool_call_steps)
    acheck_tool_call = _async(tool_call_steps)

    def tool_result_steps(
        self,
        name: str,
        result: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        arguments: Mapping[str, Any] | str | None = None,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
    ) -> Steps[CheckResult]:
        """Check the result of a tool: a text, or a value with a JSON form.

        If a guard finds something, the gate decides on the request of the call again. By default
        `arguments` are those of the last open call in the run.
        """

        def steps() -> Steps[CheckResult]:
            text = extract_texts(result)
            values = None if arguments is None else parse_arguments(to_json_value(arguments))
            run = self._run_key(context)
            values = finish_last_call(self._histories, run, name, values, text)
            findings = yield self._guard_step(Surface.TOOL_RESULT, ToolResult(text, name or "tool"))
            if not self._needs_decision(findings):
                # The call is decided already: a warning about its result does not change that.
                return self._build_result_without_gate(Surface.TOOL_RESULT, findings)
            described = (describe or self._describe)(name, values)
            request = self._build_request(described, "tool_result", context)
            parts = (Surface.TOOL_RESULT, request, findings, context)
            return (yield from self._decide(*parts, grants=grants, accepted=accepted))

        return self._fail_closed(Surface.TOOL_RESULT, context, steps(), name)

    check_tool_result = _sync(tool_result_steps)
    acheck_tool_result = _async(tool_result_steps)

    def refusal_steps(
        self,
        answer: Any,
        context: CallContext = _NO_CONTEXT,
        *,
        text: str | None = None,
        prompt: str | None = None,
    ) -> Steps[CheckResult]:
        """Read whether a model refused: from the response, the exception or its text.

        `text` is the answer, if there is one; `prompt` helps to classify it.
        """

        def steps() -> Steps[CheckResult]:
            refusal = None if answer is None else normalize(answer, registry=self.registry)
            # Another model served the request, or only a part was refused.
            weak = bool(refusal and refusal.source and refusal.source.served_by is not None)
            if refusal is None and text and self._detect_prose:
                signal = detect_refusal(text, prompt)
                weak = signal.kind is RefusalKind.PARTIAL
                refusal = to_refusal(signal)
            if refusal is None:
                return CheckResult(Surface.MODEL, locale=self.locale)
            finding = refusal_finding(refusal, Action.WARN if weak else Action.BLOCK)
            request = self._build_request(_GENERATE, "model", context)
            parts = (Surface.MODEL, request, [finding], context)
            return (yield from self._decide(*parts, native_refusal=refusal))

        return self._fail_closed(Surface.MODEL, context, steps())

    read_refusal = _sync(refusal_steps)
    aread_refusal = _async(refusal_steps)

    def event_steps(
        self, surface: Surface | str, event: Any, context: CallContext = _NO_CONTEXT, *, action: str
    ) -> Steps[CheckResult]:
        """Check an event of any other surface, as part of `action`.

        Raises:
            ValueError: There is no such surface.
        """
        known_surface = Surface(surface)

        def steps() -> Steps[CheckResult]:
            findings = yield from self.guard_steps(known_surface, event)
            if not self._needs_decision(findings):
                return self._build_result_without_gate(known_surface, findings)
            request = self._build_request({"action": {"type": action}}, str(known_surface), context)
            return (yield from self._decide(known_surface, request, findings, context))

        return self._fail_closed(known_surface, context, steps(), action)

    check_event = _sync(event_steps)
    acheck_event = _async(event_steps)

    def guard_steps(
        self, surface: Surface | str, event: Any, *, commands: Iterable[str] = ()
    ) -> Steps[list[Finding]]:
        """Yield the steps to what guards find in an event, without a decision.

        What a tool call runs, reads and writes is guarded as well, and further `commands` are.
        `tool_call_steps`, `event_steps` and `run_guards` use this.

        Raises:
            InputError: There is no such surface, or the event is not one of it.
        """
        # INVARIANT: the same call gets the same findings, whichever way it comes in.
        found: list[Finding] = yield self._guard_step(surface, event)
        if surface == Surface.TOOL_CALL and Surface.CODE_EXECUTION in self._surfaces:
            call = event if isinstance(event, ToolCall) else parse_event(surface, event)
            values = parse_arguments(call.arguments) or {}
            effects = find_tool_effects(call.name, values, self._commands, self._resolve_path)
            for effect in dict.fromkeys((*effects, *(Command(text=text) for text in commands))):
                found += yield self._guard_step(Surface.CODE_EXECUTION, effect)
        return found

    def run_guards(self, surface: Surface | str, event: Any) -> list[Finding]:
        """Return what guards find in an event, without a decision."""
        return drive(self.guard_steps(surface, event))

    def close(self) -> None:
        """Close the gate and its store."""
        if self.gate is not None:
            self.gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The steps that all checks share.

    def _fail_closed(
        self,
        surface: Surface,
        context: CallContext,
        steps: Steps[CheckResult],
        action: Any = GENERATE_ACTION,
    ) -> Steps[CheckResult]:
        # INVARIANT: a check that fails raises nothing, and refuses unless the gate is advisory.
        try:
            return (yield from steps)
        except Exception as error:  # noqa: BLE001 - see above
            finding = failure_finding(error, surface)
        try:
            described = {"action": {"type": recordable_action(action)}}
            request = self._build_request(described, str(surface), context)
            return (yield from self._decide(surface, request, [finding], context))
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._build_result_without_gate(surface, [finding])

    def _check_whole_answer(
        self,
        text: str,
        reason: Finding | Exception | None,
        context: CallContext,
        *,
        prompt: str | None,
        request: Mapping[str, Any] | None,
        earlier: CheckResult | None,
    ) -> Steps[CheckResult]:
        """Check an answer; `reason` is why its stream was ended early."""
        if isinstance(reason, Exception):
            raise reason
        event = OutputText(extract_texts(require_text("an answer", text)), prompt)
        findings = yield self._guard_step(Surface.OUTPUT, event)
        if reason is not None and reason.code not in {finding.code for finding in findings}:
            findings.append(reason)
        if not findings:
            return earlier or CheckResult(Surface.OUTPUT, locale=self.locale)
        if earlier is not None:
            findings = [*earlier.findings, *findings]
        parts = self._build_request({**_GENERATE, **(request or {})}, "output", context)
        return (yield from self._decide(Surface.OUTPUT, parts, findings, context))

    def _guard_step(self, surface: Surface | str, event: Any) -> RunGuards:
        return RunGuards(self.pipeline, surface, event, self.monitor)

    def _decide(
        self,
        surface: Surface,
        request: Mapping[str, Any],
        findings: Collection[Finding],
        context: CallContext,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        native_refusal: Refusal | None = None,
    ) -> Steps[CheckResult]:
        record = None
        if self.gate is not None:
            looked_up_grants = () if self._authority is None else self._authority(request)
            # INVARIANT: accepted constraints lift no finding of a guard.
            any_blocks = self._any_blocks(findings)
            accepted_constraints = () if any_blocks else (*self._accepted, *accepted)
            record = yield RunGate(
                self.gate,
                request,
                tuple(findings),
                (*grants, *looked_up_grants),
                accepted_constraints,
                tenant=context.tenant or self._tenant,
                signals=context.signals,
                subjects=context.subjects,
            )
        return build_result(
            surface,
            findings,
            record,
            registry=self.registry,
            locale=self.locale,
            native_refusal=native_refusal,
        )

    def _build_result_without_gate(
        self, surface: Surface, findings: Iterable[Finding]
    ) -> CheckResult:
        """Return the result of findings alone, without a decision."""
        return build_result(surface, findings, None, registry=self.registry, locale=self.locale)

    def _needs_decision(self, findings: Collection[Finding]) -> bool:
        """Return whether findings block, or a rule reads findings and may block.

        The policy may not know this action, so its default must not decide on mere warnings.
        """
        rules = () if self.gate is None else self.gate.policy.rules
        reads_findings = any(rule.reads_findings for rule in rules)
        return bool(findings) and (reads_findings or self._any_blocks(findings))

    def _any_blocks(self, findings: Iterable[Finding]) -> bool:
        """Return whether one of the findings blocks without a gate."""
        return any(finding_blocks(one.code, one.action, self.registry) for one in findings)

    def _build_request(
        self, base: Mapping[str, Any], stage: str, context: CallContext
    ) -> dict[str, Any]:
        request = dict(base)
        subject, trace = context.subject or self._subject, context.trace
        if subject is not None:
            request.setdefault("subject", dict(subject))
        if trace:
            request["trace"] = {**(request.get("trace") or {}), **trace}
        request["extensions"] = {**(request.get("extensions") or {}), "stage": stage}
        return request

    def _run_key(self, context: CallContext) -> str | None:
        """Return the key of the history of a run; None if no history is kept."""
        if not context.run or Surface.TOOL_LOOP not in self._surfaces:
            return None
        subject_id = (context.subject or self._subject or {}).get("id")
        tenant = context.tenant or self._tenant
        return make_run_key(context.framework, tenant, subject_id, context.run)
