"""The enforcer: checks everything an agent asks, calls, reads and says against guards and gate.

Frameworks differ in where they allow a check and in how they receive a refusal. This module
checks, decides and records the same way for all of them; an adapter only translates.

Inputs are always decided: a prompt before the model is called, a tool call before it runs.
Outputs are decided only if a guard found something. Each check is one generator of steps, with
a sync and an async form that run it.
"""

import asyncio
import copy
import inspect
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import cache, partial
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import msgspec

from demur.codes.loading import default_registry
from demur.codes.vocabulary import Surface
from demur.detect.detector import RefusalKind, detect_refusal, to_refusal
from demur.enforce.approval_wait import ApprovalAnswer, wait_steps
from demur.enforce.changes import (
    FindingAction,
    FindingActions,
    OnFinding,
    TextChanges,
    find_named_surfaces,
    find_sensitive,
    mark_changed,
    may_reask,
    merge_changes,
    plan_changes,
    read_on_finding,
)
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
    merge_constraints,
    recordable_action,
    refusal_finding,
)
from demur.enforce.streams import AnswerStream, max_answer_length, stream_config_for
from demur.enforce.tool_effects import ResolvePath, find_tool_effects
from demur.errors import InputError, InputTypeError
from demur.gate.approvals import can_people_lift
from demur.gate.excerpt import Utterance
from demur.gate.gate import Gate
from demur.gate.guard_settings import ToolSettings, read_tool_settings
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.gate.rate import RateRequest
from demur.gate.scoring import PipelineResult, find_read_scorers
from demur.guards.builtin import parse_event
from demur.guards.code_execution.event import Command
from demur.guards.input import InputText
from demur.guards.output import OutputText
from demur.guards.quoting import quote_as_data
from demur.guards.retrieval import RetrievedPassage
from demur.guards.tool_call import ToolCall, denied_tool_finding
from demur.guards.tool_loop import RecordedCall
from demur.guards.tool_manifest import ToolDefinition
from demur.guards.tool_result import RETURNED_CODES, ToolResult
from demur.model.finding import Action, Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.policy.evaluation import CHANGE_EVIDENCE, finding_blocks
from demur.policy.policy import Mode
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
_NO_TEXT_ACTIONS: Mapping[str, FindingAction] = {}
_GENERATE = {"action": {"type": GENERATE_ACTION}}
_P = ParamSpec("_P")
_Form = TypeVar("_Form", bound=Callable[..., Any])

# `shadow` records what `enforce` would refuse, and refuses nothing.
EnforceMode = Literal["enforce", "shadow"]
_GATE_MODES = {"enforce": Mode.ENFORCE, "shadow": Mode.ADVISORY}
Tools = Mapping[str, ToolSettings | Mapping[str, Any]]
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
    allows. Only `check_event` raises, for an unknown surface. Without a gate, findings alone
    decide, and there is no record. Without a pipeline, the built-in and installed guards run. Each
    check has three forms: `check_prompt` runs it, `acheck_prompt` awaits it, and `prompt_steps` is
    for adapters that `drive` it.

    `describe` turns a tool call into a request. `accepted` are constraints that the tools honour.
    `authority` looks up grants for a request. `commands` maps further tools that run commands to
    the argument that holds the command. `detect_prose` searches the text of a model for refusals.
    `histories` keeps the tool calls of each run for the guard against loops. `resolve_path` returns
    where links in a path lead, if the tools work on this machine.

    `on_finding` changes texts with findings of soft codes instead of refusing them: `redact`,
    `mask` or `reask`, by surface and code. Pass on `result.apply_changes(text)` then. With
    `mode="shadow"` everything is checked and recorded, and nothing is refused. `tools` are settings
    of single tools.
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
        on_finding: OnFinding | None = None,
        mode: EnforceMode | None = None,
        tools: Tools | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if gate is not None and not isinstance(gate, Gate):
            raise InputTypeError.wrong_type("gate", "a `Gate`", gate)
        self.gate = gate
        self.pipeline = _agent_pipeline() if pipeline is None else pipeline
        self.monitor = monitor
        self.registry = default_registry() if gate is None else gate.registry
        self.locale = locale
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
        scorers = self.pipeline.scorers
        self._read_scorers = {} if gate is None else find_read_scorers(gate.policy, scorers)
        self._tools: Mapping[str, ToolSettings] = {}
        self._shadow_gate: Gate | None = None
        self._is_shadow = False
        self._approval_wait_s: float | None = None
        actions = read_on_finding(on_finding, self.registry)
        self._named_surfaces = find_named_surfaces(on_finding)
        self._apply_settings(actions, mode, tools, subject)

    @classmethod
    def coerce(
        cls,
        enforcer: "Enforcer | Gate",
        *,
        on_finding: OnFinding | None = None,
        mode: EnforceMode | None = None,
        tools: Tools | None = None,
        carried: Collection[Surface] = (),
        subject: Mapping[str, Any] | None = None,
    ) -> "Enforcer":
        """Return the enforcer, or for a gate one with the standard guards, with these settings.

        The settings take the place of the enforcer's own; those of tools are added. A text is
        changed only on the surfaces in `carried`, where the caller applies `result.changes`. What
        the enforcer's settings would change on another surface that they name is refused.
        `subject` is the requester if neither the enforcer nor a call names one.

        Raises:
            InputTypeError: It is neither an enforcer nor a gate.
            InputError: A setting is invalid.
        """
        if isinstance(enforcer, Gate):
            enforcer = cls(enforcer)
        if not isinstance(enforcer, Enforcer):
            raise InputTypeError.wrong_type("enforcer", "an `Enforcer` or a `Gate`", enforcer)
        # INVARIANT: no text is changed on a surface where the caller would pass on the old one.
        kept = {
            surface: codes if surface in carried else dict.fromkeys(codes, FindingAction.REFUSE)
            for surface, codes in enforcer._on_finding.items()
            if surface in carried or surface in enforcer._named_surfaces
        }
        named = enforcer._named_surfaces
        if on_finding is not None:
            kept = {**read_on_finding(on_finding, enforcer.registry, carried)}
            named = find_named_surfaces(on_finding)
        own_subject = enforcer._subject or subject
        is_same = kept == enforcer._on_finding and own_subject is enforcer._subject
        if is_same and mode is None and not tools:
            return enforcer
        changed = copy.copy(enforcer)
        changed._named_surfaces = named  # noqa: SLF001 - a copy of our own
        own = (kept, mode, tools, own_subject)
        return changed._apply_settings(*own)  # noqa: SLF001 - likewise

    def waiting_for_people(self, timeout_s: float = 300.0) -> Self:
        """Return the enforcer whose tool calls wait for people, if a refusal is put before them.

        A call that people approve in time is checked again with their grants. Otherwise it stays
        refused, and the model reads what people said.

        Raises:
            InputError: There is no store that holds the queue.
        """
        if self.gate is None or self.gate.store is None:
            help_text = "use `open_enforcer()` with the store of the service"
            raise InputError("waiting for an approval needs a store", help=help_text)
        changed = copy.copy(self)
        changed._approval_wait_s = timeout_s  # noqa: SLF001 - a copy of our own
        return changed

    def may_change(self, *surfaces: Surface) -> bool:
        """Return whether settings change texts of a surface, or have them written again."""
        actions = {one for surface in surfaces for one in self._text_actions(surface).values()}
        return not actions <= {FindingAction.REFUSE}

    def refuse_changes(self) -> Self:
        """Return the enforcer that refuses what this one changes, where a text cannot be changed.

        It also looks for secrets and personal data on the same surfaces.
        """
        refused = {
            surface: dict.fromkeys(codes, FindingAction.REFUSE)
            for surface, codes in self._on_finding.items()
        }
        own = (refused, None, None, self._subject)
        return copy.copy(self)._apply_settings(*own)  # noqa: SLF001 - a copy of our own

    def _apply_settings(
        self,
        actions: FindingActions,
        mode: EnforceMode | None,
        tools: Tools | None,
        subject: Mapping[str, Any] | None,
    ) -> Self:
        self._on_finding = actions
        self._subject = subject
        self._set_mode(mode)
        self._add_tools(tools)
        return self

    def _set_mode(self, mode: EnforceMode | None) -> None:
        if mode is None:
            return
        if mode not in _GATE_MODES:
            known = ", ".join(_GATE_MODES)
            raise InputError(f"unknown mode `{mode}`", where="mode", help=f"one of {known}")
        self._is_shadow = mode == "shadow"
        if self.gate is not None:
            self.gate = self.gate.with_mode(_GATE_MODES[mode])

    def _add_tools(self, tools: Tools | None) -> None:
        if not tools:
            return
        self._tools = {**self._tools, **read_tool_settings(tools, "tools")}
        commands = {name: tool.command for name, tool in self._tools.items() if tool.command}
        self._commands = {**self._commands, **commands}
        if self.gate is not None and any(tool.mode for tool in self._tools.values()):
            self._shadow_gate = self.gate.with_mode(Mode.ADVISORY)

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
            said = Utterance(require_text("a prompt", text), "user", Surface.INPUT)
            found, changes = yield from self._guard_text(
                Surface.INPUT,
                said.text,
                lambda plain: InputText(plain, self.locale),
            )
            # Count refused prompts too, to slow down repeated attempts.
            if Surface.RATE in self._surfaces:
                key = context.rate_key(context.subject or self._subject)
                use = RateRequest(key=key, cost=cost)
                found = found.merge((yield self._guard_step(Surface.RATE, use)))
            parts = self._build_request({**_GENERATE, **(request or {})}, "input", context)
            result: CheckResult = yield from self._decide(
                Surface.INPUT, parts, found, context, changes=changes, said=said
            )
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
        hold_changes: bool = False,
    ) -> AnswerStream:
        """Return a stream that guards an answer while it is written, like `check_answer`.

        With `hold_changes`, an answer that may be changed is held to its end, for callers who
        cannot take changed pieces.
        """

        def check(text: str, reason: Finding | Exception | None) -> Steps[CheckResult]:
            parts = (text, reason, context)
            steps = self._check_whole_answer(
                *parts, prompt=prompt, request=request, earlier=earlier
            )
            return self._fail_closed(Surface.OUTPUT, context, steps)

        actions = self._text_actions(Surface.OUTPUT)
        config = None
        if not (hold_changes and self.may_change(Surface.OUTPUT)):
            config = stream_config_for(self.pipeline, self.gate, self.registry, actions)
        limit, windows = max_answer_length(self.pipeline, self.gate), None
        if config is not None and not self._allows_all:
            windows = self.pipeline.open_windows(prompt)
        return AnswerStream(config, limit, prompt, check, windows, allows_all=self._allows_all)

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
            changes, sensitive = self.change_arguments(values, name)
            if changes is not None:
                values = changes.apply(values)
                call = msgspec.structs.replace(call, arguments=values)
            guarded = yield from self.guard_steps(Surface.TOOL_CALL, call, commands=commands)
            own = mark_changed(guarded.findings, _NO_TEXT_ACTIONS, self.registry)
            found = guarded._replace(findings=[*own, *sensitive])
            settings = self._find_tool(name)
            if settings is not None and settings.deny:
                found.findings.append(denied_tool_finding(name))
            if values is None and not self._any_blocks(found.findings):
                raise InputError("the arguments cannot be read", where="arguments")
            values = values or {}
            run = self._run_key(context)
            if run is not None:
                recorded = RecordedCall(name=name, arguments=values, at_s=self._monotonic())
                add = partial(add_call, call=recorded, granted=bool(call_grants))
                history = self._histories.update(run, add)
                if settings is None or settings.loops:
                    found = found.merge((yield self._guard_step(Surface.TOOL_LOOP, history)))
            described = (describe or self._describe)(name, values)
            request = self._build_request(described, "tool_call", context)
            decide = partial(
                self._decide,
                Surface.TOOL_CALL,
                request,
                found,
                context,
                accepted=accepted,
                changes=changes,
                tool=settings,
            )
            result: CheckResult = yield from decide(grants=call_grants)
            answer = yield from self._wait_for_people(result)
            if answer is not None and answer:
                result = yield from decide(grants=(*call_grants, *answer.grants))
            if answer is not None and not result.allowed:
                result = result._replace(answer=answer.message)
            if not result.allowed and run is not None:
                # Record the refused call as failed without a result, so that repeating it counts
                # as a loop.
                finish_last_call(self._histories, run, name, values, None)
            return result

        return self._fail_closed(Surface.TOOL_CALL, context, steps(), name, self._find_tool(name))

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
            found, changes = yield from self._guard_text(
                Surface.TOOL_RESULT,
                result,
                lambda plain: ToolResult(plain, name or "tool"),
                tool=self._find_tool(name),
            )
            if not self._needs_decision(Surface.TOOL_RESULT, found):
                # The call is decided already: a warning about its result does not change that.
                return self._build_result_without_gate(Surface.TOOL_RESULT, found)
            described = (describe or self._describe)(name, values)
            request = self._build_request(described, "tool_result", context)
            parts = (Surface.TOOL_RESULT, request, found, context)
            decided = yield from self._decide(
                *parts,
                grants=grants,
                accepted=accepted,
                changes=changes,
                tool=self._find_tool(name),
                said=Utterance(text, "tool", Surface.TOOL_RESULT, name or "tool"),
            )
            return (yield from self._quote(decided, text, name or "tool"))

        return self._fail_closed(Surface.TOOL_RESULT, context, steps(), name, self._find_tool(name))

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
            parts = (Surface.MODEL, request, PipelineResult([finding]), context)
            said = Utterance(text or "", "assistant", Surface.MODEL, prompt=prompt or "")
            return (yield from self._decide(*parts, native_refusal=refusal, said=said))

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
            changes, is_passage = None, known_surface is Surface.RETRIEVAL
            if is_passage and self._text_actions(known_surface):
                parsed = parse_event(known_surface, event)
                found, changes = yield from self._guard_text(
                    known_surface, parsed.text, lambda plain: parsed._replace(text=plain)
                )
            else:
                found = yield from self.guard_steps(known_surface, event)
            if not self._needs_decision(known_surface, found):
                return self._build_result_without_gate(known_surface, found)
            request = self._build_request({"action": {"type": action}}, str(known_surface), context)
            parts = (known_surface, request, found, context)
            if not is_passage:
                return (yield from self._decide(*parts))
            passage = parse_event(known_surface, event)
            said = Utterance(passage.text, "document", known_surface, passage.source)
            decided = yield from self._decide(*parts, changes=changes, said=said)
            return (yield from self._quote(decided, passage.text, passage.source))

        return self._fail_closed(known_surface, context, steps(), action)

    check_event = _sync(event_steps)
    acheck_event = _async(event_steps)

    def guard_steps(
        self, surface: Surface | str, event: Any, *, commands: Iterable[str] = ()
    ) -> Steps[PipelineResult]:
        """Yield the steps to what guards and scorers find in an event, without a decision.

        What a tool call runs, reads and writes is guarded as well, and further `commands` are.
        `tool_call_steps`, `event_steps` and `run_guards` use this.

        Raises:
            InputError: There is no such surface, or the event is not one of it.
        """
        # INVARIANT: the same call gets the same findings, whichever way it comes in.
        found: PipelineResult = yield self._guard_step(surface, event)
        if surface == Surface.TOOL_CALL and Surface.CODE_EXECUTION in self._surfaces:
            call = event if isinstance(event, ToolCall) else parse_event(surface, event)
            values = parse_arguments(call.arguments) or {}
            effects = find_tool_effects(call.name, values, self._commands, self._resolve_path)
            for effect in dict.fromkeys((*effects, *(Command(text=text) for text in commands))):
                found = found.merge((yield self._guard_step(Surface.CODE_EXECUTION, effect)))
        return found

    def run_guards(self, surface: Surface | str, event: Any) -> list[Finding]:
        """Return what guards and scorers find in an event, without a decision."""
        return drive(self.guard_steps(surface, event)).findings

    def approve(self, result: CheckResult, person: str) -> tuple[Grant, ...]:
        """Return the grants by which a person approves one refused call; none if nobody can.

        The caller has authenticated the `person`, and shown what the approval is for. Check the
        call again with these grants: they hold for the same call, once and for a few minutes.

        Raises:
            InputError: There is no gate, so that the approval would not be on record.
        """
        if self.gate is None:
            problem, help_text = "an approval is recorded by a gate", "use `open_enforcer()`"
            raise InputError(problem, where="approver", help=help_text)
        # INVARIANT: a person's approval lifts only what waits for approval and nothing else.
        if result.record is None or not result.needs_approval:
            return ()
        return self.gate.approve(result.record, person)

    def wait_for(
        self, decision: CheckResult | DecisionRecord | str, *, timeout_s: float = 300.0
    ) -> ApprovalAnswer:
        """Wait until people approve or decline a refused call, and return what they said.

        `decision` is the result of a check, its record, or its id. If the answer is true, check the
        call again with its `grants`: they hold for this call, as long and as often as the person
        said. After `timeout_s` the state is still `waiting`, and you may wait again.

        Raises:
            InputError: There is no store, or nobody was asked about the decision.
            StorageError: The store cannot be read.
        """
        return drive(wait_steps(self.gate, decision, timeout_s, self._monotonic))

    async def await_for(
        self, decision: CheckResult | DecisionRecord | str, *, timeout_s: float = 300.0
    ) -> ApprovalAnswer:
        """Wait until people decide, like `wait_for`, without blocking the event loop."""
        return await adrive(wait_steps(self.gate, decision, timeout_s, self._monotonic))

    def warm(self) -> None:
        """Load all that the first checks need, so that they take no longer than later ones.

        Without it, each check loads what it needs itself. Nothing is recorded, and no guard of
        another package and no model elsewhere is asked.
        """
        self.pipeline.warm()

    async def awarm(self) -> None:
        """Load all that the first checks need, like `warm`, without blocking the event loop."""
        await asyncio.to_thread(self.warm)

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
        tool: ToolSettings | None = None,
    ) -> Steps[CheckResult]:
        # INVARIANT: a check that fails raises nothing, and refuses unless the gate is advisory.
        try:
            return (yield from steps)
        except Exception as error:  # noqa: BLE001 - see above
            found = PipelineResult([failure_finding(error, surface)])
        try:
            described = {"action": {"type": recordable_action(action)}}
            request = self._build_request(described, str(surface), context)
            return (yield from self._decide(surface, request, found, context, tool=tool))
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._build_result_without_gate(surface, found, tool)

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
        said = Utterance(require_text("an answer", text), "assistant", Surface.OUTPUT)
        if prompt is not None:
            kept = prompt if earlier is None else earlier.apply_changes(prompt)
            said = said._replace(prompt=kept)
        found, changes = yield from self._guard_text(
            Surface.OUTPUT, said.text, lambda plain: OutputText(plain, prompt)
        )
        if reason is not None and reason.code not in {one.code for one in found.findings}:
            found.findings.append(reason)
        if not found.findings and not self._needs_decision(Surface.OUTPUT, found):
            if earlier is not None:
                # Changes of the prompt are none of the answer.
                return earlier._replace(changes=None)
            return self._build_result_without_gate(Surface.OUTPUT, found)
        if earlier is not None:
            before = PipelineResult(list(earlier.findings), earlier.signals, earlier.models)
            found = before.merge(found)
        parts = self._build_request({**_GENERATE, **(request or {})}, "output", context)
        decided = self._decide(
            Surface.OUTPUT, parts, found, context, changes=changes, earlier=earlier, said=said
        )
        return (yield from decided)

    def _find_tool(self, name: Any) -> ToolSettings | None:
        return self._tools.get(name) if isinstance(name, str) else None

    def _guard_text(
        self,
        surface: Surface,
        value: Any,
        make_event: Callable[[str], Any],
        tool: ToolSettings | None = None,
    ) -> Steps[tuple[PipelineResult, TextChanges | None]]:
        """Run the guards of a text; if settings say so, change it and run them again.

        The changes are None unless nothing that blocks is left in the changed text.
        """
        text = extract_texts(value)
        found: PipelineResult = yield self._guard_step(surface, make_event(text))
        actions = self._text_actions(surface, tool)
        if not actions:
            return found, None
        # The guard of answers looks for secrets and personal data itself.
        is_answer = surface is Surface.OUTPUT
        searched, more = (text, []) if is_answer else find_sensitive(value, surface, actions)
        changes = merge_changes(
            plan_changes(text, found.findings, actions, self.registry),
            plan_changes(searched, more, actions, self.registry),
        )
        listed = mark_changed((*found.findings, *more), actions, self.registry)
        if changes is None:
            return found._replace(findings=listed), None
        changed = changes.apply(value)
        again: PipelineResult = yield self._guard_step(surface, make_event(extract_texts(changed)))
        left = [] if is_answer else find_sensitive(changed, surface, actions)[1]
        if self._any_blocks((*again.findings, *left)):
            plain = mark_changed((*found.findings, *more), {}, self.registry)
            return found._replace(findings=plain), None
        return again._replace(findings=listed), changes

    def change_arguments(
        self, values: Any, name: str = ""
    ) -> tuple[TextChanges | None, list[Finding]]:
        """Return the changes to the arguments of a call of a tool, and what they take out.

        The check of a call makes the same changes. This is for hosts that check it earlier than
        they run it.
        """
        actions = self._text_actions(Surface.TOOL_CALL, self._find_tool(name))
        if not actions or values is None:
            return None, []
        text, found = find_sensitive(values, Surface.TOOL_CALL, actions)
        changes = plan_changes(text, found, actions, self.registry)
        if changes is None:
            return None, found
        left = find_sensitive(changes.apply(values), Surface.TOOL_CALL, actions)[1]
        if self._any_blocks(left):
            return None, found
        return changes, mark_changed(found, actions, self.registry)

    def change_history(self, value: Any) -> TextChanges | None:
        """Return the changes to texts of users and tools that earlier requests have checked.

        A host that keeps them itself sends them as they were. Only secrets and personal data are
        looked for, and nothing is decided or recorded again.
        """
        results = self._text_actions(Surface.TOOL_RESULT)
        actions = {**results, **self._text_actions(Surface.INPUT)}
        if not actions:
            return None
        text, found = find_sensitive(value, Surface.INPUT, actions)
        return plan_changes(text, found, actions, self.registry)

    def _text_actions(
        self, surface: Surface, tool: ToolSettings | None = None
    ) -> Mapping[str, FindingAction]:
        """Return the actions for findings in the texts of a surface; none if nothing binds."""
        allows_all = self._allows_all or _is_shadow_tool(tool)
        return _NO_TEXT_ACTIONS if allows_all else self._on_finding.get(surface, {})

    @property
    def _allows_all(self) -> bool:
        return self._is_shadow or (self.gate is not None and self.gate.mode is not Mode.ENFORCE)

    def _guard_step(self, surface: Surface | str, event: Any) -> RunGuards:
        return RunGuards(self.pipeline, surface, event, self.monitor)

    def _decide(
        self,
        surface: Surface,
        request: Mapping[str, Any],
        found: PipelineResult,
        context: CallContext,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        native_refusal: Refusal | None = None,
        changes: TextChanges | None = None,
        earlier: CheckResult | None = None,
        tool: ToolSettings | None = None,
        said: Utterance | None = None,
    ) -> Steps[CheckResult]:
        if said is not None and changes is not None:
            # What was taken out of a text is not recorded either.
            said = said._replace(text=changes.apply(said.text), is_changed=True)
        # Marks of other findings are those of guards, which change nothing.
        own = () if changes is None else found.findings
        before = () if earlier is None or earlier.changes is None else earlier.findings
        taken_out = [one for one in (*own, *before) if CHANGE_EVIDENCE in one.evidence]
        record = None
        gate = self._shadow_gate if _is_shadow_tool(tool) else self.gate
        if gate is not None:
            looked_up_grants = () if self._authority is None else self._authority(request)
            left = (one for one in found.findings if one not in taken_out)
            # INVARIANT: accepted constraints lift no finding of a guard that is still in a text.
            accepted_constraints = () if self._any_blocks(left) else (*self._accepted, *accepted)
            record = yield RunGate(
                gate,
                request,
                found,
                (*grants, *looked_up_grants),
                (*accepted_constraints, *merge_constraints(taken_out)),
                tenant=context.tenant or self._tenant,
                signals=context.signals,
                subjects=context.subjects,
                said=said,
            )
        result = build_result(
            surface,
            found.findings,
            record,
            registry=self.registry,
            locale=self.locale,
            native_refusal=native_refusal,
            taken_out=taken_out,
        )
        kept = changes if result.allowed else None
        result = result._replace(signals=found.signals, models=found.models, changes=kept)
        if record is None:
            result = self._allow_in_shadow(result, tool)
        if surface is Surface.OUTPUT and not result.allowed and not result.could_not_judge:
            blocking = (one.code for one in result.findings if self._any_blocks([one]))
            codes = tuple(blocking) if record is None else record.reason_codes
            result = result._replace(may_reask=may_reask(codes, self._on_finding))
        return result

    def _wait_for_people(self, result: CheckResult) -> Steps[ApprovalAnswer | None]:
        """Return what people say about a refused call; None if nobody is asked."""
        timeout_s, gate, record = self._approval_wait_s, self.gate, result.record
        if timeout_s is None or gate is None or record is None or result.allowed:
            return None
        if not (result.needs_approval and can_people_lift(record, self.registry)):
            return None
        if record.personal is None or record.personal.requester is None:
            return None
        return (yield from wait_steps(gate, record, timeout_s, self._monotonic))

    def _allow_in_shadow(
        self, result: CheckResult, tool: ToolSettings | None = None
    ) -> CheckResult:
        """Return the result of findings alone, which allows in shadow mode."""
        if not self._is_shadow and not _is_shadow_tool(tool):
            return result
        return result._replace(allowed=True, refusal=None, changes=None)

    def _quote(self, result: CheckResult, text: str, source: str) -> Steps[CheckResult]:
        """Return a refused result with its text as quoted data, if planted orders alone hold it."""
        if result.refusal is None:
            return result
        record = result.record
        codes = {result.refusal.code} if record is None else set(record.reason_codes)
        codes -= set() if record is None else set(record.fallback_codes)
        if not codes.issubset(RETURNED_CODES):
            return result
        quoted = quote_as_data(text, result.findings, source)
        if quoted is None:
            return result
        # INVARIANT: a quotation that a guard or a policy may hold is not offered.
        is_passage = result.surface is Surface.RETRIEVAL
        event = RetrievedPassage(quoted) if is_passage else ToolResult(quoted)
        again = yield self._guard_step(result.surface, event)
        is_held = self._needs_decision(result.surface, again)
        return result if is_held else result._replace(quoted=quoted)

    def _build_result_without_gate(
        self, surface: Surface, found: PipelineResult, tool: ToolSettings | None = None
    ) -> CheckResult:
        """Return the result of findings alone, without a decision."""
        result = build_result(
            surface, found.findings, None, registry=self.registry, locale=self.locale
        )
        result = result._replace(signals=found.signals, models=found.models)
        return self._allow_in_shadow(result, tool)

    def _needs_decision(self, surface: Surface, found: PipelineResult) -> bool:
        """Return whether findings block, or a rule reads findings or scores and may block.

        The policy may not know this action, so its default must not decide on mere warnings.
        """
        rules = () if self.gate is None else self.gate.policy.rules
        # What a tool call runs is scored together with it.
        scored = {surface, Surface.CODE_EXECUTION} if surface is Surface.TOOL_CALL else {surface}
        if any(not self._read_scorers.get(one, set()).isdisjoint(found.signals) for one in scored):
            return True
        reads_findings = any(rule.reads_findings for rule in rules)
        return bool(found.findings) and (reads_findings or self._any_blocks(found.findings))

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


def _is_shadow_tool(tool: ToolSettings | None) -> bool:
    return tool is not None and tool.mode == "shadow"
