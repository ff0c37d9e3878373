"""The enforcer: holds an agent to the gate's word, at every point where something may happen.

Frameworks differ in where they let one look and how they want to hear a no; what is looked
at, decided and recorded is the same everywhere, and stands here. An adapter only translates.
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
    """Rules at each point by guards and gate, and records. Safe to share between threads and tasks.

    Whatever guards, policy, store or the text itself do, the answer is a ruling: what could
    not be judged is refused by a runtime code. Without a gate, findings alone decide and
    nothing is stored. Without a pipeline, the built-in and installed guards look.

    `describe` makes a request of a tool call, `accepted` are constraints that the tools
    honour, `authority` looks up grants for a request, `commands` names further tools that run
    what stands in one of their arguments, and which one. `detects` says that prose of a model
    is searched for refusals, `histories` keep what the guard of tool loops looks back on.
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
        """Return who decides: an enforcer as it is, a gate with the usual guards around it.

        Raises:
            InputTypeError: It is neither.
        """
        if isinstance(by, Enforcer):
            return by
        if not isinstance(by, Gate):
            raise InputTypeError.expected("enforcer", "an `Enforcer` or a `Gate`", by)
        return cls(by)

    def prompt(self, text: str, at: Occasion = _ANYWHERE, *, cost: int = 1) -> Ruling:
        """Return the ruling on a prompt that is about to reach a model."""
        return self._taken(self._points.prompt(text, at, cost), Surface.INPUT, at)

    async def aprompt(self, text: str, at: Occasion = _ANYWHERE, *, cost: int = 1) -> Ruling:
        """Return the ruling on a prompt, like `prompt`; the event loop runs on meanwhile."""
        return await self._ataken(self._points.prompt(text, at, cost), Surface.INPUT, at)

    def answer(self, text: str, at: Occasion = _ANYWHERE, *, prompt: str | None = None) -> Ruling:
        """Return the ruling on what a model said."""
        return self._taken(self._points.answer(text, at, prompt), Surface.OUTPUT, at)

    async def aanswer(
        self, text: str, at: Occasion = _ANYWHERE, *, prompt: str | None = None
    ) -> Ruling:
        """Return the ruling on what a model said, like `answer`."""
        return await self._ataken(self._points.answer(text, at, prompt), Surface.OUTPUT, at)

    def stream(self, at: Occasion = _ANYWHERE, *, prompt: str | None = None) -> AnswerStream:
        """Return what guards an answer while it is written."""
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
        """Return the ruling on a tool call that is about to be made.

        `arguments` are values or the JSON text that a model wrote; `tool` is the definition as
        its server `source` presents it now. `grants`, `accepted` and `describe` speak for this
        call alone; `commands` are texts that it would run, beside those that can be known.
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
        """Return the ruling on a tool call, like `tool_call`."""
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
        """Return the ruling on what a tool returned: a text, or what has a JSON form.

        What the call was made with stands beside it: it is decided on the same request again,
        once something was found. Without `arguments`, those of the last open call in the run.
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
        """Return the ruling on what a tool returned, like `tool_result`."""
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
        """Return whether a model refused, by its provider's response or exception, or its words.

        `text` is what it said, if it said something; the prompt helps to judge that.
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
        """Return whether a model refused, like `model`."""
        return await self._ataken(self._points.model(answer, at, text, prompt), Surface.MODEL, at)

    def check(
        self, surface: Surface | str, event: Any, at: Occasion = _ANYWHERE, *, action: str
    ) -> Ruling:
        """Return the ruling on an event of any other surface, met while doing `action`.

        Raises:
            ValueError: There is no such surface.
        """
        where = Surface(surface)
        return self._taken(self._points.check(where, event, at, action), where, at, action)

    async def acheck(
        self, surface: Surface | str, event: Any, at: Occasion = _ANYWHERE, *, action: str
    ) -> Ruling:
        """Return the ruling on an event of any other surface, like `check`.

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

    # Where anything goes wrong, nothing goes ahead.

    def _taken(
        self, steps: Steps[Ruling], surface: Surface, at: Occasion, action: str = ACTION_TYPE
    ) -> Ruling:
        # INVARIANT: whatever goes wrong at a point, the ruling refuses and nothing is raised.
        try:
            return take(steps, self)
        except Exception as error:  # noqa: BLE001 - see above
            found = _failure(error, surface)
        try:
            return take(self._points.failed(surface, found, at, _action(action)), self)
        except Exception:  # noqa: BLE001 - even that cannot be put on record
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
        except Exception:  # noqa: BLE001 - even that cannot be put on record
            return self._points.alone(surface, [found])


@cache
def _usual() -> Pipeline:
    return standard_pipeline(*_SURFACES)


def _action(name: Any) -> str:
    """Return an action's name that can go on record, whatever the call was named."""
    text = name if isinstance(name, str) else type(name).__name__
    shown = "".join(each if each.isprintable() else "?" for each in text[:100])
    return shown.encode("utf-8", "replace").decode() or "unnamed"


def _failure(error: Exception, surface: Surface) -> Finding:
    """Return that a point could not be passed, and why as far as it quotes nobody."""
    if isinstance(error, InputError | InputTypeError):
        code, detail = ReasonCode.REQUEST_INVALID, f"{surface}: it cannot be judged as it is"
        evidence = {"where": str(getattr(error, "where", None) or surface)}
    else:
        code, detail = ReasonCode.INTERNAL_ERROR, f"{surface}: {type(error).__name__}"
        evidence = {"error": type(error).__name__}
        if not isinstance(error, DemurError):
            _log.exception("a point could not be passed: %s", surface)
    return Finding(code=code, surface=Surface.RUNTIME, detail=detail, evidence=evidence)
