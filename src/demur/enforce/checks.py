"""The checks of each surface, written once as generators for sync and async callers.

Inputs are always decided: a prompt before the model is called, a tool call before it runs. Outputs
are decided only if a guard found something. A check yields what it needs (`RunGuards`, `RunGate`);
`drive` and `adrive` supply it.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.detect.detector import RefusalKind, detect_refusal, to_refusal
from demur.enforce.context import ACTION_TYPE, CallContext
from demur.enforce.describe import (
    DescribeCall,
    describe_call,
    extract_texts,
    find_commands,
    to_json_value,
)
from demur.enforce.history import (
    CallHistories,
    drop_old_calls,
    drop_refused_tries,
    finish_call,
    last_open_call,
    start_new_round,
)
from demur.enforce.result import CheckResult, build_result, finding_blocks
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline
from demur.gate.rate import RateRequest
from demur.guards.code_execution.event import Command
from demur.guards.input import InputText
from demur.guards.output import OutputText
from demur.guards.tool_arguments import UnreadableArgumentsError, read_arguments
from demur.guards.tool_call import ToolCall
from demur.guards.tool_loop import CallHistory, RecordedCall
from demur.guards.tool_result import ToolResult
from demur.model.finding import Action, Finding
from demur.model.grant import Grant
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

_Result = TypeVar("_Result")


class RunGuards(NamedTuple):
    """Request for the findings of the guards of a surface."""

    surface: Surface
    event: Any


class RunGate(NamedTuple):
    """Request for the gate's decision."""

    request: Mapping[str, Any]
    findings: Iterable[Finding] = ()
    grants: Iterable[Grant] = ()
    accepted: Iterable[str] = ()
    tenant: str | None = None


Steps = Generator[RunGuards | RunGate, Any, _Result]


class StepResources(Protocol):
    """Supplies the guards and the gate for the steps of a check."""

    @property
    def pipeline(self) -> GuardPipeline:
        """The guards."""

    @property
    def monitor(self) -> Monitor | None:
        """The monitor of the guards."""

    @property
    def gate(self) -> Gate | None:
        """The gate; without one, no step may ask for a decision."""


def drive(steps: Steps[_Result], resources: StepResources) -> _Result:
    """Run the steps and return their result."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
        if isinstance(needed, RunGuards):
            answer = resources.pipeline.run(*needed, monitor=resources.monitor)
        else:
            assert resources.gate is not None
            answer = resources.gate.decide(needed.request, **_gate_arguments(needed))


async def adrive(steps: Steps[_Result], resources: StepResources) -> _Result:
    """Run the steps and return their result, without blocking the event loop."""
    answer: Any = None
    while True:
        try:
            needed = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # a generator's return value
        if isinstance(needed, RunGuards):
            answer = await resources.pipeline.arun(*needed, monitor=resources.monitor)
        else:
            assert resources.gate is not None
            answer = await resources.gate.adecide(needed.request, **_gate_arguments(needed))


def _gate_arguments(needed: RunGate) -> dict[str, Any]:
    return {
        "findings": needed.findings,
        "grants": needed.grants,
        "accepted": needed.accepted,
        "tenant": needed.tenant,
    }


# Looks up the grants that were given for a request.
Authority = Callable[[Mapping[str, Any]], Iterable[Grant]]


class SurfaceChecks(NamedTuple):
    """The checks of an enforcer, and the settings that they share."""

    gate: Gate | None
    pipeline: GuardPipeline
    registry: Registry
    histories: CallHistories
    monotonic: Callable[[], float]
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    locale: str | None = None
    describe: DescribeCall = describe_call
    accepted: tuple[str, ...] = ()
    authority: Authority | None = None
    commands: Mapping[str, str] = {}
    detect_prose: bool = True
    surfaces: frozenset[str] = frozenset()

    def check_prompt(self, text: str, context: CallContext, cost: int) -> Steps[CheckResult]:
        """Check a prompt that is about to reach a model."""
        found = yield RunGuards(
            Surface.INPUT, InputText(extract_texts(_check_text("a prompt", text)), self.locale)
        )
        if Surface.RATE in self.surfaces:
            ask = RateRequest(key=context.rate_key(context.subject or self.subject), cost=cost)
            found = [*found, *(yield RunGuards(Surface.RATE, ask))]
        asked = self._build_request({"action": {"type": ACTION_TYPE}}, "input", context)
        ruling: CheckResult = yield from self._decide_request(Surface.INPUT, asked, found, context)
        run = self._run_key(context)
        if ruling.allowed and run is not None:
            # A new prompt starts a new round: repeating a call in it is no loop.
            self.histories.update(run, start_new_round)
        return ruling

    def check_answer(
        self, text: str, context: CallContext, prompt: str | None, stopped: Finding | None = None
    ) -> Steps[CheckResult]:
        """Check the answer of a model; `stopped` is why the stream was ended early."""
        found = yield RunGuards(
            Surface.OUTPUT, OutputText(extract_texts(_check_text("an answer", text)), prompt)
        )
        if stopped is not None and stopped.code not in {one.code for one in found}:
            found = [*found, stopped]
        asked = self._build_request({"action": {"type": ACTION_TYPE}}, "output", context)
        return (yield from self._decide_if_found(Surface.OUTPUT, asked, found, context))

    def check_tool_call(
        self,
        call_of: Callable[[], ToolCall],
        context: CallContext,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
        commands: Iterable[str] = (),
    ) -> Steps[CheckResult]:
        """Check a tool call that is about to be made; one that cannot be built is refused too."""
        call, grants = call_of(), tuple(grants)
        arguments = _read_arguments(call.arguments)
        found = yield RunGuards(Surface.TOOL_CALL, call)
        if arguments is None and not self._findings_block(found):
            raise InputError("the arguments cannot be read", where="arguments")
        arguments = arguments or {}
        if Surface.CODE_EXECUTION in self.surfaces:
            for text in dict.fromkeys(
                (*find_commands(call.name, arguments, self.commands), *commands)
            ):
                found = [*found, *(yield RunGuards(Surface.CODE_EXECUTION, Command(text=text)))]
        run = self._run_key(context)
        if run is not None:
            made = RecordedCall(name=call.name, arguments=arguments, at_s=self.monotonic())
            history = self.histories.update(run, lambda kept: _extend_history(kept, made, grants))
            found = [*found, *(yield RunGuards(Surface.TOOL_LOOP, history))]
        asked = self._build_request(
            (describe or self.describe)(call.name, arguments), "tool_call", context
        )
        ruling: CheckResult = yield from self._decide_request(
            Surface.TOOL_CALL, asked, found, context, grants=grants, accepted=accepted
        )
        if not ruling.allowed:
            # Record the refused call as failed without a result, so that repeating it counts
            # as a loop.
            self._finish_call(call.name, arguments, None, context, failed=True)
        return ruling

    def check_tool_result(
        self,
        name: str,
        result: Any,
        context: CallContext,
        arguments: Mapping[str, Any] | str | None,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: DescribeCall | None = None,
    ) -> Steps[CheckResult]:
        """Check the result of a tool: decide on the same request again, with new findings."""
        text = extract_texts(result)
        given = self._finish_call(name, arguments, text, context, failed=False)
        found = yield RunGuards(Surface.TOOL_RESULT, ToolResult(text, name or "tool"))
        if not self._findings_matter(found):
            # The call is decided already: a warning about its result does not change that.
            return self.result_of_findings(Surface.TOOL_RESULT, found)
        asked = self._build_request(
            (describe or self.describe)(name, given), "tool_result", context
        )
        return (
            yield from self._decide_request(
                Surface.TOOL_RESULT, asked, found, context, grants=grants, accepted=accepted
            )
        )

    def read_refusal(
        self, answer: Any, context: CallContext, text: str | None, prompt: str | None
    ) -> Steps[CheckResult]:
        """Read whether a model or its provider refused."""
        said = None if answer is None else normalize(answer, registry=self.registry)
        served = said is not None and said.source is not None and said.source.served_by is not None
        weak = served
        if said is None and text and self.detect_prose:
            signal = detect_refusal(text, prompt)
            weak = signal.kind is RefusalKind.PARTIAL
            said = to_refusal(signal)
        if said is None:
            return CheckResult(Surface.MODEL, locale=self.locale)
        found = _refusal_finding(said, Action.WARN if weak else Action.BLOCK)
        asked = self._build_request({"action": {"type": ACTION_TYPE}}, "model", context)
        return (
            yield from self._decide_request(
                Surface.MODEL, asked, [found], context, native_refusal=said
            )
        )

    def check_event(
        self, surface: Surface, event: Any, context: CallContext, action: str
    ) -> Steps[CheckResult]:
        """Check an event of any surface."""
        found = yield RunGuards(surface, event)
        if found and not self._findings_matter(found):
            return self.result_of_findings(surface, found)
        asked = self._build_request({"action": {"type": action}}, str(surface), context)
        return (yield from self._decide_if_found(surface, asked, found, context))

    def record_failure(
        self, surface: Surface, finding: Finding, context: CallContext, action: str
    ) -> Steps[CheckResult]:
        """Record a check that failed, and refuse."""
        asked = self._build_request({"action": {"type": action}}, str(surface), context)
        return (yield from self._decide_request(surface, asked, [finding], context))

    def result_of_findings(self, surface: Surface, findings: Iterable[Finding]) -> CheckResult:
        """Return the result of findings alone, without a decision."""
        return build_result(surface, findings, None, registry=self.registry, locale=self.locale)

    def _findings_matter(self, findings: Collection[Finding]) -> bool:
        """Return whether findings block, or a rule reads findings and may block.

        The policy may not know this action, so its default must not decide on mere warnings.
        """
        reads = self.gate is not None and any(
            rule.reads_findings for rule in self.gate.policy.rules
        )
        return bool(findings) and (reads or self._findings_block(findings))

    def _findings_block(self, findings: Iterable[Finding]) -> bool:
        """Return whether one of the findings blocks without a gate."""
        return any(finding_blocks(one.code, one.action, self.registry) for one in findings)

    def _decide_if_found(
        self,
        surface: Surface,
        request: Mapping[str, Any],
        findings: Iterable[Finding],
        context: CallContext,
    ) -> Steps[CheckResult]:
        if not findings:
            return CheckResult(surface, locale=self.locale)
        return (yield from self._decide_request(surface, request, findings, context))

    def _decide_request(
        self,
        surface: Surface,
        request: Mapping[str, Any],
        findings: Iterable[Finding],
        context: CallContext,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        native_refusal: Refusal | None = None,
    ) -> Steps[CheckResult]:
        record = None
        if self.gate is not None:
            given = () if self.authority is None else self.authority(request)
            # INVARIANT: accepted constraints lift no finding of a guard.
            seen = self._findings_block(findings)
            record = yield RunGate(
                request,
                findings,
                (*grants, *given),
                () if seen else (*self.accepted, *accepted),
                context.tenant or self.tenant,
            )
        return build_result(
            surface,
            findings,
            record,
            registry=self.registry,
            locale=self.locale,
            native_refusal=native_refusal,
        )

    def _build_request(
        self, described: Mapping[str, Any], stage: str, context: CallContext
    ) -> dict[str, Any]:
        asked = dict(described)
        subject, trace = context.subject or self.subject, context.trace
        if subject is not None:
            asked.setdefault("subject", dict(subject))
        if trace:
            asked["trace"] = {**(asked.get("trace") or {}), **trace}
        asked["extensions"] = {**(asked.get("extensions") or {}), "stage": stage}
        return asked

    def _run_key(self, context: CallContext) -> str | None:
        """Return the key of the history of a run; None if no history is kept."""
        if not context.run or Surface.TOOL_LOOP not in self.surfaces:
            return None
        # Other tenants and subjects may use the same run name.
        who = (context.subject or self.subject or {}).get("id")
        return "\x1f".join(
            map(str, (context.framework, context.tenant or self.tenant, who, context.run))
        )

    def _finish_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        result: str | None,
        context: CallContext,
        *,
        failed: bool,
    ) -> Mapping[str, Any]:
        """Add the result of a call to the history, if one is kept; return the call's arguments."""
        given = None if arguments is None else _read_arguments(arguments)
        run = self._run_key(context)
        if run is None:
            return given or {}
        done: list[RecordedCall] = []

        def change(kept: CallHistory) -> CallHistory:
            call = last_open_call(kept, name, given)
            if call is None:
                return kept
            done.append(call)
            return finish_call(kept, call, result, failed=failed)

        self.histories.update(run, change)
        return (done[0].arguments if done and given is None else given) or {}


def _check_text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputTypeError.wrong_type(what, "a text", value)
    return value


def _extend_history(
    history: CallHistory, call: RecordedCall, grants: Collection[Grant]
) -> CallHistory:
    """Return the history of a run with one more call and without old ones."""
    assert call.at_s is not None
    recent = drop_old_calls(history, call.at_s)
    return (drop_refused_tries(recent, call) if grants else recent).add(call)


def _read_arguments(given: Mapping[str, Any] | str) -> Mapping[str, Any] | None:
    """Return the arguments as a mapping; None for a text that cannot be parsed."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", to_json_value(given))
    if not isinstance(given, str):
        raise InputTypeError.wrong_type("arguments", "an object, or the text of one", given)
    try:
        return read_arguments(given)
    except UnreadableArgumentsError:
        return None


def _refusal_finding(refusal: Refusal, action: Action) -> Finding:
    """Return the refusal of a model or provider as a finding."""
    evidence = dict(refusal.evidence)
    if refusal.source is not None:
        native = {
            "name": refusal.source.name,
            "path": refusal.source.path,
            "native": refusal.source.native,
        }
        evidence["source"] = {name: value for name, value in native.items() if value is not None}
    return Finding(
        code=refusal.code,
        surface=Surface.MODEL,
        detail=refusal.detail,
        evidence=evidence,
        action=action,
    )
