"""The checks of each surface: prompts, answers, tool calls, tool results and other events.

Inputs are always decided: a prompt before the model is called, a tool call before it runs.
Outputs are decided only if a guard found something.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.detect.detector import detect_refusal
from demur.detect.signal import RefusalKind, to_refusal
from demur.enforce.commands import commands_in
from demur.enforce.described import Describe, describe_call, plain
from demur.enforce.histories import (
    Histories,
    aged,
    begun_anew,
    finished,
    last_open,
    without_refused,
)
from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling, counts, rule
from demur.enforce.session import ACTION_TYPE
from demur.enforce.steps import Decide, Look, Steps
from demur.enforce.texts import texts_in
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.gate.rate_guard import RateAsk
from demur.guards.code_execution.event import Command
from demur.guards.input.guard import InputText
from demur.guards.output.guard import OutputText
from demur.guards.returned.tool_result import ToolResult
from demur.guards.tool_call.arguments import UnreadableError, read_arguments
from demur.guards.tool_call.guard import ToolCall
from demur.guards.tool_loop.history import Call, History
from demur.model.finding import Action, Finding
from demur.model.grant import Grant
from demur.model.refusal import Refusal
from demur.providers.normalize import normalize

__all__ = ["Authority", "Points"]

# Looks up the grants that were given for a request.
Authority = Callable[[Mapping[str, Any]], Iterable[Grant]]


class Points(NamedTuple):
    """The checks of an enforcer, and the settings that they share."""

    gate: Gate | None
    pipeline: Pipeline
    registry: Registry
    histories: Histories
    seconds: Callable[[], float]
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    locale: str | None = None
    describe: Describe = describe_call
    accepted: tuple[str, ...] = ()
    authority: Authority | None = None
    commands: Mapping[str, str] = {}
    detects: bool = True
    surfaces: frozenset[str] = frozenset()

    def prompt(self, text: str, at: Occasion, cost: int) -> Steps[Ruling]:
        """Check a prompt that is about to reach a model."""
        found = yield Look(Surface.INPUT, InputText(texts_in(_text("a prompt", text)), self.locale))
        if Surface.RATE in self.surfaces:
            ask = RateAsk(key=at.counted_as(at.subject or self.subject), cost=cost)
            found = [*found, *(yield Look(Surface.RATE, ask))]
        asked = self._request({"action": {"type": ACTION_TYPE}}, "input", at)
        ruling: Ruling = yield from self._decided(Surface.INPUT, asked, found, at)
        run = self._run(at)
        if ruling.allowed and run is not None:
            # A new prompt starts a new round: repeating a call in it is no loop.
            self.histories.update(run, begun_anew)
        return ruling

    def answer(
        self, text: str, at: Occasion, prompt: str | None, stopped: Finding | None = None
    ) -> Steps[Ruling]:
        """Check the answer of a model; `stopped` is why the stream was ended early."""
        found = yield Look(Surface.OUTPUT, OutputText(texts_in(_text("an answer", text)), prompt))
        if stopped is not None and stopped.code not in {one.code for one in found}:
            found = [*found, stopped]
        asked = self._request({"action": {"type": ACTION_TYPE}}, "output", at)
        return (yield from self._if_found(Surface.OUTPUT, asked, found, at))

    def tool_call(
        self,
        call_of: Callable[[], ToolCall],
        at: Occasion,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
        commands: Iterable[str] = (),
    ) -> Steps[Ruling]:
        """Check a tool call that is about to be made; one that cannot be built is refused too."""
        call, grants = call_of(), tuple(grants)
        arguments = _arguments(call.arguments)
        found = yield Look(Surface.TOOL_CALL, call)
        if arguments is None and not self._stops(found):
            raise InputError("the arguments cannot be read", where="arguments")
        arguments = arguments or {}
        if Surface.CODE_EXECUTION in self.surfaces:
            for text in dict.fromkeys(
                (*commands_in(call.name, arguments, self.commands), *commands)
            ):
                found = [*found, *(yield Look(Surface.CODE_EXECUTION, Command(text=text)))]
        run = self._run(at)
        if run is not None:
            made = Call(name=call.name, arguments=arguments, at_s=self.seconds())
            history = self.histories.update(run, lambda kept: _going_on(kept, made, grants))
            found = [*found, *(yield Look(Surface.TOOL_LOOP, history))]
        asked = self._request((describe or self.describe)(call.name, arguments), "tool_call", at)
        ruling: Ruling = yield from self._decided(
            Surface.TOOL_CALL, asked, found, at, grants=grants, accepted=accepted
        )
        if not ruling.allowed:
            # Record the refused call as failed without a result, so that repeating it counts
            # as a loop.
            self._finish(call.name, arguments, None, at, failed=True)
        return ruling

    def tool_result(
        self,
        name: str,
        result: Any,
        at: Occasion,
        arguments: Mapping[str, Any] | str | None,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
    ) -> Steps[Ruling]:
        """Check the result of a tool: decide on the same request again, with new findings."""
        text = texts_in(result)
        given = self._finish(name, arguments, text, at, failed=False)
        found = yield Look(Surface.TOOL_RESULT, ToolResult(text, name or "tool"))
        if not self._matters(found):
            # The call is decided already: a warning about its result does not change that.
            return self.alone(Surface.TOOL_RESULT, found)
        asked = self._request((describe or self.describe)(name, given), "tool_result", at)
        return (
            yield from self._decided(
                Surface.TOOL_RESULT, asked, found, at, grants=grants, accepted=accepted
            )
        )

    def model(
        self, answer: Any, at: Occasion, text: str | None, prompt: str | None
    ) -> Steps[Ruling]:
        """Read whether a model or its provider refused."""
        said = None if answer is None else normalize(answer, registry=self.registry)
        served = said is not None and said.source is not None and said.source.served_by is not None
        weak = served
        if said is None and text and self.detects:
            signal = detect_refusal(text, prompt)
            weak = signal.kind is RefusalKind.PARTIAL
            said = to_refusal(signal)
        if said is None:
            return Ruling(Surface.MODEL, locale=self.locale)
        found = _found(said, Action.WARN if weak else Action.BLOCK)
        asked = self._request({"action": {"type": ACTION_TYPE}}, "model", at)
        return (yield from self._decided(Surface.MODEL, asked, [found], at, said=said))

    def check(self, surface: Surface, event: Any, at: Occasion, action: str) -> Steps[Ruling]:
        """Check an event of any surface."""
        found = yield Look(surface, event)
        if found and not self._matters(found):
            return self.alone(surface, found)
        asked = self._request({"action": {"type": action}}, str(surface), at)
        return (yield from self._if_found(surface, asked, found, at))

    def failed(self, surface: Surface, found: Finding, at: Occasion, action: str) -> Steps[Ruling]:
        """Record a check that failed, and refuse."""
        asked = self._request({"action": {"type": action}}, str(surface), at)
        return (yield from self._decided(surface, asked, [found], at))

    def alone(self, surface: Surface, findings: Iterable[Finding]) -> Ruling:
        """Return the result of findings alone, without a decision."""
        return rule(surface, findings, None, registry=self.registry, locale=self.locale)

    def _matters(self, found: Collection[Finding]) -> bool:
        """Return whether findings block, or a rule reads findings and may block.

        The policy may not know this action, so its default must not decide on mere warnings.
        """
        reads = self.gate is not None and any(
            rule.reads_findings for rule in self.gate.policy.rules
        )
        return bool(found) and (reads or self._stops(found))

    def _stops(self, found: Iterable[Finding]) -> bool:
        """Return whether one of the findings blocks without a gate."""
        return any(counts(one.code, one.action, self.registry) for one in found)

    def _if_found(
        self, surface: Surface, asked: Mapping[str, Any], found: Iterable[Finding], at: Occasion
    ) -> Steps[Ruling]:
        if not found:
            return Ruling(surface, locale=self.locale)
        return (yield from self._decided(surface, asked, found, at))

    def _decided(
        self,
        surface: Surface,
        asked: Mapping[str, Any],
        found: Iterable[Finding],
        at: Occasion,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        said: Refusal | None = None,
    ) -> Steps[Ruling]:
        record = None
        if self.gate is not None:
            given = () if self.authority is None else self.authority(asked)
            # INVARIANT: accepted constraints lift no finding of a guard.
            seen = self._stops(found)
            record = yield Decide(
                asked,
                found,
                (*grants, *given),
                () if seen else (*self.accepted, *accepted),
                at.tenant or self.tenant,
            )
        return rule(surface, found, record, registry=self.registry, locale=self.locale, said=said)

    def _request(self, described: Mapping[str, Any], stage: str, at: Occasion) -> dict[str, Any]:
        asked = dict(described)
        subject, trace = at.subject or self.subject, at.trace
        if subject is not None:
            asked.setdefault("subject", dict(subject))
        if trace:
            asked["trace"] = {**(asked.get("trace") or {}), **trace}
        asked["extensions"] = {**(asked.get("extensions") or {}), "stage": stage}
        return asked

    def _run(self, at: Occasion) -> str | None:
        """Return the key of the history of a run; None if no history is kept."""
        if not at.run or Surface.TOOL_LOOP not in self.surfaces:
            return None
        # Other tenants and subjects may use the same run name.
        who = (at.subject or self.subject or {}).get("id")
        return "\x1f".join(map(str, (at.framework, at.tenant or self.tenant, who, at.run)))

    def _finish(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        result: str | None,
        at: Occasion,
        *,
        failed: bool,
    ) -> Mapping[str, Any]:
        """Add the result of a call to the history, if one is kept; return the call's arguments."""
        given = None if arguments is None else _arguments(arguments)
        run = self._run(at)
        if run is None:
            return given or {}
        done: list[Call] = []

        def change(kept: History) -> History:
            call = last_open(kept, name, given)
            if call is None:
                return kept
            done.append(call)
            return finished(kept, call, result, failed=failed)

        self.histories.update(run, change)
        return (done[0].arguments if done and given is None else given) or {}


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputTypeError.expected(what, "a text", value)
    return value


def _going_on(kept: History, call: Call, grants: Collection[Grant]) -> History:
    """Return the history of a run with one more call and without old ones."""
    assert call.at_s is not None
    recent = aged(kept, call.at_s)
    return (without_refused(recent, call) if grants else recent).add(call)


def _arguments(given: Mapping[str, Any] | str) -> Mapping[str, Any] | None:
    """Return the arguments as a mapping; None for a text that cannot be parsed."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", plain(given))
    if not isinstance(given, str):
        raise InputTypeError.expected("arguments", "an object, or the text of one", given)
    try:
        return read_arguments(given)
    except UnreadableError:
        return None


def _found(said: Refusal, action: Action) -> Finding:
    """Return the refusal of a model or provider as a finding."""
    evidence = dict(said.evidence)
    if said.source is not None:
        native = {"name": said.source.name, "path": said.source.path, "native": said.source.native}
        evidence["source"] = {name: value for name, value in native.items() if value is not None}
    return Finding(
        code=said.code,
        surface=Surface.MODEL,
        detail=said.detail,
        evidence=evidence,
        action=action,
    )
