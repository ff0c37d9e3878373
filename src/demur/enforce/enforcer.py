"""The enforcer: checks everything an agent asks, calls, reads and says against guards and gate.

Frameworks differ in where they allow a check and in how they want to hear a refusal. What is
checked, decided and recorded is the same everywhere and lives here; an adapter only translates.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Self

from demur.codes.default import default_registry
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.answer_stream import AnswerStream, Takers
from demur.enforce.described import Describe, describe_call, plain
from demur.enforce.histories import Histories, LocalHistories
from demur.enforce.live import live, longest
from demur.enforce.occasion import Occasion
from demur.enforce.points import Authority, Points
from demur.enforce.ruling import Ruling
from demur.enforce.session import ACTION_TYPE
from demur.enforce.steps import Steps, atake, take
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.gate.standard import standard_pipeline
from demur.guards.tool_call.guard import ToolCall
from demur.guards.tool_call.manifest import ToolDefinition
from demur.model.finding import Finding
from demur.model.grant import Grant

__all__ = ["Enforcer", "Occasion"]

_SURFACES = (
    *(Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_LOOP),
    *(Surface.TOOL_RESULT, Surface.RETRIEVAL, Surface.COMPACTION, Surface.CODE_EXECUTION),
)
_ANYWHERE = Occasion()
_log = logging.getLogger("demur")


class Enforcer:
    """Checks prompts, answers, tool calls and results by guards and gate. Thread- and task-safe.

    A check never raises: if guards, policy, store or the text itself fail, the result refuses
    with a runtime code. Without a gate, findings alone decide and nothing is stored. Without a
    pipeline, the built-in and installed guards run.

    `describe` turns a tool call into a request. `accepted` are constraints that the tools honour.
    `authority` looks up grants for a request. `commands` maps further tools that run commands to
    the argument that holds the command. `detect_prose` searches the text of a model for refusals.
    `histories` keeps the tool calls of each run for the guard against loops.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        pipeline: Pipeline | None = None,
        subject: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        locale: str | None = None,
        describe: Describe = describe_call,
        accepted: Collection[str] = (),
        authority: Authority | None = None,
        commands: Mapping[str, str] | None = None,
        detects: bool = True,
        monitor: Monitor | None = None,
        histories: Histories | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        if gate is not None and not isinstance(gate, Gate):
            raise InputTypeError.expected("gate", "a `Gate`", gate)
        self.gate = gate
        self.pipeline = _usual() if pipeline is None else pipeline
        self.monitor = monitor
        self.registry = default_registry() if gate is None else gate.registry
        self.locale = locale
        self._points = Points(
            gate,
            self.pipeline,
            self.registry,
            LocalHistories() if histories is None else histories,
            seconds,
            subject,
            tenant,
            locale,
            describe,
            tuple(accepted),
            authority,
            commands or {},
            detects,
            frozenset(self.pipeline.surfaces),
        )

    @classmethod
    def of(cls, by: "Enforcer | Gate") -> "Enforcer":
        """Return the enforcer itself, or for a gate an enforcer with the standard guards.

        Raises:
            InputTypeError: It is neither.
        """
        if isinstance(by, Enforcer):
            return by
        if not isinstance(by, Gate):
            raise InputTypeError.expected("enforcer", "an `Enforcer` or a `Gate`", by)
        return cls(by)

    def prompt(self, text: str, at: Occasion = _ANYWHERE, *, cost: int = 1) -> Ruling:
        """Check a prompt that is about to reach a model."""
        return self._taken(self._points.prompt(text, at, cost), Surface.INPUT, at)

    async def aprompt(self, text: str, at: Occasion = _ANYWHERE, *, cost: int = 1) -> Ruling:
        """Check a prompt, like `check_prompt`, without blocking the event loop."""
        return await self._ataken(self._points.prompt(text, at, cost), Surface.INPUT, at)

    def answer(self, text: str, at: Occasion = _ANYWHERE, *, prompt: str | None = None) -> Ruling:
        """Check the answer of a model."""
        return self._taken(self._points.answer(text, at, prompt), Surface.OUTPUT, at)

    async def aanswer(
        self, text: str, at: Occasion = _ANYWHERE, *, prompt: str | None = None
    ) -> Ruling:
        """Check the answer of a model, like `check_answer`."""
        return await self._ataken(self._points.answer(text, at, prompt), Surface.OUTPUT, at)

    def stream(self, at: Occasion = _ANYWHERE, *, prompt: str | None = None) -> AnswerStream:
        """Return a stream that guards an answer while it is written."""
        return AnswerStream(
            live(self.pipeline, self.gate, self.registry),
            longest(self.pipeline, self.gate),
            prompt,
            judge=lambda text, stopped: self._points.answer(text, at, prompt, stopped),
            by=Takers(
                lambda steps: self._taken(steps, Surface.OUTPUT, at),
                lambda steps: self._ataken(steps, Surface.OUTPUT, at),
            ),
        )

    def tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        at: Occasion = _ANYWHERE,
        *,
        tool: ToolDefinition | None = None,
        source: str = "",
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
        commands: Iterable[str] = (),
    ) -> Ruling:
        """Check a tool call that is about to be made.

        `arguments` are values or the JSON text that a model wrote. `tool` is the definition that
        its server `source` presents now. `grants`, `accepted` and `describe` hold for this call
        only. `commands` are further texts that the call would run.
        """
        steps = self._points.tool_call(
            lambda: ToolCall(name=name, arguments=plain(arguments), tool=tool, source=source),
            at,
            grants=grants,
            accepted=accepted,
            describe=describe,
            commands=commands,
        )
        return self._taken(steps, Surface.TOOL_CALL, at, name)

    async def atool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        at: Occasion = _ANYWHERE,
        *,
        tool: ToolDefinition | None = None,
        source: str = "",
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
        commands: Iterable[str] = (),
    ) -> Ruling:
        """Check a tool call, like `check_tool_call`."""
        steps = self._points.tool_call(
            lambda: ToolCall(name=name, arguments=plain(arguments), tool=tool, source=source),
            at,
            grants=grants,
            accepted=accepted,
            describe=describe,
            commands=commands,
        )
        return await self._ataken(steps, Surface.TOOL_CALL, at, name)

    def tool_result(
        self,
        name: str,
        result: Any,
        at: Occasion = _ANYWHERE,
        *,
        arguments: Mapping[str, Any] | str | None = None,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
    ) -> Ruling:
        """Check the result of a tool: a text, or a value with a JSON form.

        If a guard finds something, the gate decides on the request of the call again. By default
        `arguments` are those of the last open call in the run.
        """
        steps = self._points.tool_result(
            name, result, at, arguments, grants=grants, accepted=accepted, describe=describe
        )
        return self._taken(steps, Surface.TOOL_RESULT, at, name)

    async def atool_result(
        self,
        name: str,
        result: Any,
        at: Occasion = _ANYWHERE,
        *,
        arguments: Mapping[str, Any] | str | None = None,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        describe: Describe | None = None,
    ) -> Ruling:
        """Check the result of a tool, like `check_tool_result`."""
        steps = self._points.tool_result(
            name, result, at, arguments, grants=grants, accepted=accepted, describe=describe
        )
        return await self._ataken(steps, Surface.TOOL_RESULT, at, name)

    def model(
        self,
        answer: Any,
        at: Occasion = _ANYWHERE,
        *,
        text: str | None = None,
        prompt: str | None = None,
    ) -> Ruling:
        """Read whether a model refused: from the response, the exception or its text.

        `text` is the answer, if there is one; `prompt` helps to classify it.
        """
        return self._taken(self._points.model(answer, at, text, prompt), Surface.MODEL, at)

    async def amodel(
        self,
        answer: Any,
        at: Occasion = _ANYWHERE,
        *,
        text: str | None = None,
        prompt: str | None = None,
    ) -> Ruling:
        """Read whether a model refused, like `read_refusal`."""
        return await self._ataken(self._points.model(answer, at, text, prompt), Surface.MODEL, at)

    def check(
        self, surface: Surface | str, event: Any, at: Occasion = _ANYWHERE, *, action: str
    ) -> Ruling:
        """Check an event of any other surface, as part of `action`.

        Raises:
            ValueError: There is no such surface.
        """
        where = Surface(surface)
        return self._taken(self._points.check(where, event, at, action), where, at, action)

    async def acheck(
        self, surface: Surface | str, event: Any, at: Occasion = _ANYWHERE, *, action: str
    ) -> Ruling:
        """Check an event of any other surface, like `check_event`.

        Raises:
            ValueError: There is no such surface.
        """
        where = Surface(surface)
        return await self._ataken(self._points.check(where, event, at, action), where, at, action)

    def close(self) -> None:
        """Close the gate and its store."""
        if self.gate is not None:
            self.gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Fail closed.

    def _taken(
        self, steps: Steps[Ruling], surface: Surface, at: Occasion, action: str = ACTION_TYPE
    ) -> Ruling:
        # INVARIANT: whatever fails in a check, its result refuses and nothing is raised.
        try:
            return take(steps, self)
        except Exception as error:  # noqa: BLE001 - see above
            found = _failure(error, surface)
        try:
            return take(self._points.failed(surface, found, at, _action(action)), self)
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._points.alone(surface, [found])

    async def _ataken(
        self, steps: Steps[Ruling], surface: Surface, at: Occasion, action: str = ACTION_TYPE
    ) -> Ruling:
        try:
            return await atake(steps, self)
        except Exception as error:  # noqa: BLE001 - as above
            found = _failure(error, surface)
        try:
            return await atake(self._points.failed(surface, found, at, _action(action)), self)
        except Exception:  # noqa: BLE001 - even the failure cannot be recorded
            return self._points.alone(surface, [found])


@cache
def _usual() -> Pipeline:
    return standard_pipeline(*_SURFACES)


def _action(name: Any) -> str:
    """Return a name for the action that can be recorded, whatever the call was named."""
    text = name if isinstance(name, str) else type(name).__name__
    shown = "".join(each if each.isprintable() else "?" for each in text[:100])
    return shown.encode("utf-8", "replace").decode() or "unnamed"


def _failure(error: Exception, surface: Surface) -> Finding:
    """Return the finding for a check that failed; it quotes nothing of the input."""
    if isinstance(error, InputError | InputTypeError):
        code, detail = ReasonCode.REQUEST_INVALID, f"{surface}: it cannot be judged as it is"
        evidence = {"where": str(getattr(error, "where", None) or surface)}
    else:
        code, detail = ReasonCode.INTERNAL_ERROR, f"{surface}: {type(error).__name__}"
        evidence = {"error": type(error).__name__}
        if not isinstance(error, DemurError):
            _log.exception("the check failed on surface %s", surface)
    return Finding(code=code, surface=Surface.RUNTIME, detail=detail, evidence=evidence)
