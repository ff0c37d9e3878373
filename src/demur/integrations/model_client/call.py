"""One call of a model's client: judged before it is sent, after it is answered, and in between.

Knows nothing of any SDK: a form reads requests and responses of one interface and writes
refusals the way its clients expect them. The order of steps is written once, as a generator;
whether a step is waited for or awaited is up to who takes them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, get_args

from demur.errors import InputError, InputTypeError
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Refused, Ruling
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import Attempt, Trail, keep, note, ruling_of, trail_of
from demur.integrations.model_client.turn import Turn
from demur.model.next_step import Change, NextStep

__all__ = [
    "LONGEST_WAIT",
    "Fallback",
    "Form",
    "ModelCall",
    "OnRefusal",
    "Opened",
    "Posted",
    "Said",
    "Settings",
    "ruling_of",
    "settings_of",
    "trail_of",
]

LONGEST_WAIT = 60.0

OnRefusal = Literal["raise", "answer"]
# The name of another model, or a function from a request to a response.
Fallback = str | Callable[[dict[str, Any]], Any]


class Settings(NamedTuple):
    """What holds for all calls of a client. Build one with `settings_of`."""

    enforcer: Enforcer
    at: Occasion
    on_refusal: OnRefusal
    fallbacks: tuple[Fallback, ...]
    waits: bool
    sleep: Callable[[float], Any]
    trusts_history: bool


def settings_of(
    enforcer: Enforcer,
    framework: str,
    *,
    at: Occasion | None,
    on_refusal: OnRefusal,
    fallbacks: Sequence[Fallback],
    waits: bool,
    sleep: Callable[[float], Any],
    trusts_history: bool,
) -> Settings:
    """Return the settings.

    Raises:
        InputError: One of them cannot be used.
    """
    if not isinstance(enforcer, Enforcer):
        raise InputTypeError.expected("enforcer", "an `Enforcer`", enforcer)
    if on_refusal not in get_args(OnRefusal):
        help_text = f"one of {', '.join(get_args(OnRefusal))}"
        raise InputError(f"unknown setting `{on_refusal}`", where="on_refusal", help=help_text)
    if isinstance(fallbacks, str):
        raise InputTypeError.expected("fallbacks", "a list of models", fallbacks)
    where = Occasion() if at is None else at
    named = where if where.framework else where._replace(framework=framework)
    return Settings(enforcer, named, on_refusal, tuple(fallbacks), waits, sleep, trusts_history)


class Posted(NamedTuple):
    """A request on its way to a provider.

    `parse` makes of a response what the caller asked for; `raw` says that the caller wants
    the HTTP response, `streams` that the answer comes in events.
    """

    send: Callable[[dict[str, Any]], Any]
    body: dict[str, Any]
    cast_to: Any = None
    parse: Callable[[Any], Any] | None = None
    streams: bool = False
    raw: bool = False

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.body.get("model", ""))


class Said(NamedTuple):
    """One choice of a response: what to read a typed refusal from, and its text."""

    view: Any
    text: str


class Opened(NamedTuple):
    """A stream that was opened, to be guarded while it is read."""

    stream: Any
    turn: Turn
    trail: Trail


class Form(Protocol):
    """How one interface of a provider asks and answers."""

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return what is new in a request."""

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a response."""

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a response that refuses, where no model was asked."""

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a response whose choices of these numbers refuse."""

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream that refuses, where no model was asked."""

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of what may leave."""


class _Tried(NamedTuple):
    """What a model answered or raised, and the attempt that it was."""

    attempt: Attempt
    response: Any = None
    error: Exception | None = None


class ModelCall:
    """Takes a request to its response, by a form and settings."""

    def __init__(self, form: Form, settings: Settings, *, awaits: bool) -> None:
        self._form = form
        self._settings = settings
        self._prefix = "a" if awaits else ""

    def steps(self, posted: Posted) -> Steps[Any]:
        """Return the response, or the stream, that the caller gets.

        Raises:
            Refused: It is refused, and settings or the kind of call leave no other way to say so.
        """
        turn = self._form.turn(posted.body, whole=not self._settings.trusts_history)
        ruling = yield from self._judged(turn)
        if not ruling.allowed:
            return self._instead(ruling, posted)
        tried, trail = yield from self._served(posted, turn, Trail(prompt=ruling))
        if tried.error is not None:
            raise keep(tried.error, trail)
        if posted.streams:
            # Whoever reads the bytes of a stream gets the bytes.
            opened = Opened(tried.response, turn, trail)
            return tried.response if posted.raw else self._form.guarded_stream(opened, posted)
        return (yield from self._answered(tried.response, posted, turn, trail))

    def _judged(self, turn: Turn) -> Steps[Ruling]:
        """Rule on what is new in a request: what tools returned, and what was said."""
        at = self._settings.at
        ruling = None
        for one in turn.returned:
            here = at._replace(call_id=one.call_id)
            ruling = yield self._point(
                "tool_result", one.name, one.result, here, arguments=one.arguments
            )
            if not ruling.allowed:
                return ruling
        if turn.text or ruling is None:
            ruling = yield self._point("prompt", turn.text, at)
        return ruling

    def _served(self, posted: Posted, turn: Turn, trail: Trail) -> Steps[tuple[_Tried, Trail]]:
        """Ask the model, and others where the way on from its refusal leads to them."""
        targets: list[Fallback | None] = [None, *self._settings.fallbacks]
        while True:
            target = targets.pop(0)
            tried, trail = yield from self._tried(posted, target, turn, trail)
            step = _way_on(tried.attempt)
            if step is not None and self._waits_for(step):
                yield partial(self._settings.sleep, step.wait or 0.0)
                tried, trail = yield from self._tried(posted, target, turn, trail)
                step = _way_on(tried.attempt)
            if step is None or not step.other_model or not targets:
                return tried, trail

    def _tried(
        self, posted: Posted, target: Fallback | None, turn: Turn, trail: Trail
    ) -> Steps[tuple[_Tried, Trail]]:
        name = posted.model if target is None else _name(target)
        try:
            response = yield partial(_send, posted, target)
        except Exception as error:
            ruling = yield self._point("model", error, self._settings.at, prompt=turn.text)
            if not ruling.findings:
                raise
            note(error, ruling)
            tried = _Tried(Attempt(name, (ruling,)), error=error)
        else:
            rulings: tuple[Ruling, ...] = ()
            if not posted.streams:
                rulings = yield from self._declined(response, posted, turn)
            tried = _Tried(Attempt(name, rulings), response)
        return tried, trail._replace(attempts=(*trail.attempts, tried.attempt))

    def _declined(self, response: Any, posted: Posted, turn: Turn) -> Steps[tuple[Ruling, ...]]:
        """Rule on whether the model refused, choice by choice."""
        rulings: list[Ruling] = []
        plain = yield partial(_plain, response, posted)
        for view, text in self._form.said(plain):
            ruling = yield self._point(
                "model", view, self._settings.at, text=text or None, prompt=turn.text
            )
            rulings.append(ruling)
        return tuple(rulings)

    def _answered(self, response: Any, posted: Posted, turn: Turn, trail: Trail) -> Steps[Any]:
        """Rule on what the model said, and return what of it may be used."""
        plain = yield partial(_plain, response, posted)
        refused: dict[int, Ruling] = {}
        first: Ruling | None = None
        for number, (_, text) in enumerate(self._form.said(plain)):
            if text:
                ruling = yield self._point("answer", text, self._settings.at, prompt=turn.text)
                first = ruling if first is None or first.allowed else first
                if not ruling.allowed:
                    refused[number] = ruling
        trail = trail._replace(answer=first)
        if not refused:
            keep(plain, trail)
            return keep(response, trail)
        if self._raises(posted):
            raise keep(Refused(next(iter(refused.values()))), trail)
        return keep(self._form.replaced(plain, refused), trail)

    def _instead(self, ruling: Ruling, posted: Posted) -> Any:
        trail = Trail(prompt=ruling)
        if self._raises(posted):
            raise keep(Refused(ruling), trail)
        if posted.streams:
            return keep(self._form.refusing_stream(ruling, posted), trail)
        response = self._form.refusing(ruling, posted)
        return keep(response if posted.parse is None else posted.parse(response), trail)

    def _raises(self, posted: Posted) -> bool:
        # There is no HTTP response where nothing was sent, and the one there is may not be used.
        return self._settings.on_refusal == "raise" or posted.raw

    def _waits_for(self, step: NextStep) -> bool:
        known = step.wait is not None and step.wait <= LONGEST_WAIT
        return self._settings.waits and step.retry and step.change is Change.NOTHING and known

    def _point(self, name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        return partial(getattr(self._settings.enforcer, self._prefix + name), *arguments, **named)


def _way_on(attempt: Attempt) -> NextStep | None:
    """Return what to do after a model refused; None if it did not, or nothing is to be done."""
    ruling = attempt.ruling
    # INVARIANT: what was refused for good is sent to no other model.
    if ruling is None or not attempt.refused or any(one.is_hard for one in attempt.rulings):
        return None
    return ruling.next_step


def _name(target: Fallback) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)


def _send(posted: Posted, target: Fallback | None) -> Any:
    if target is None:
        return posted.send(posted.body)
    if isinstance(target, str):
        return posted.send({**posted.body, "model": target})
    return target(dict(posted.body))


def _plain(response: Any, posted: Posted) -> Any:
    """Return the response to read, also where the caller wants the HTTP response around it."""
    return response.parse() if posted.raw and hasattr(response, "parse") else response
