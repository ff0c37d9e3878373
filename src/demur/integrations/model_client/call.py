"""One call of a model's client: judged before it is sent, after it is answered, and in between.

Knows nothing of any SDK: a form reads requests and responses of one interface and writes
refusals the way its clients expect them. The order of steps is written once, as a generator;
whether a step is waited for or awaited is up to who takes them.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.enforce.ruling import Refused, Ruling
from demur.errors import DemurError
from demur.integrations.model_client.form import Form, Opened, Posted, Said
from demur.integrations.model_client.raw import (
    AsyncMadeResponse,
    JudgedResponse,
    MadeResponse,
    RawStream,
    UnjudgedError,
)
from demur.integrations.model_client.settings import Fallback, Settings
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import (
    Attempt,
    Trail,
    keep,
    keep_ids,
    note,
)
from demur.integrations.model_client.turn import Turn
from demur.model.next_step import Change, NextStep

__all__ = ["LONGEST_WAIT", "ModelCall"]

LONGEST_WAIT = 60.0
# How the SDKs mark a request for an HTTP response whose body is not read yet.
_STREAMED = "stream"
_log = logging.getLogger("demur")


class _Tried(NamedTuple):
    """The response or error of one attempt.

    `choices` are those of an answer; None for a stream, which is not read yet.
    """

    attempt: Attempt
    response: Any = None
    error: Exception | None = None
    said: Sequence[Said] | None = None


class ModelCall:
    """Runs the checks and requests of one model call."""

    def __init__(self, form: Form, settings: Settings, *, awaits: bool) -> None:
        self._form = form
        self._settings = settings
        self._prefix = "a" if awaits else ""

    def steps(self, posted: Posted) -> Steps[Any]:
        """Return the response, or the stream, for the caller.

        Raises:
            Refused: The call is refused, and the settings or the kind of call require raising.
        """
        turn = self._form.turn(posted.body, whole=not self._settings.trusts_history)
        ruling = yield from self._judged(turn)
        if not ruling.allowed:
            return self._instead(ruling, posted)
        tried, trail = yield from self._served(posted, turn, Trail(prompt=ruling))
        if tried.error is not None:
            raise keep(tried.error, trail)
        if tried.said is None:
            return self._opened(tried.response, posted, turn, trail)
        return (yield from self._answered(tried.response, tried.said, posted, turn, trail))

    def _judged(self, turn: Turn) -> Steps[Ruling]:
        """Check the new part of a request: tool outputs, then texts."""
        at = self._settings.at
        ruling = None
        for one in turn.returned:
            here = at._replace(call_id=one.call_id)
            ruling = yield self._point(
                "tool_result", one.name, one.result, here, arguments=one.arguments
            )
            if not ruling.allowed:
                self._settings.refused.add([one.text])
                return ruling
        if turn.text or ruling is None:
            ruling = yield self._point("prompt", turn.text, at)
            if not ruling.allowed:
                self._settings.refused.add(turn.said)
        return ruling

    def _opened(self, stream: Any, posted: Posted, turn: Turn, trail: Trail) -> Any:
        def guard(inner: Any) -> Any:
            return self._form.guarded_stream(Opened(inner, turn, trail), posted)

        if not posted.raw:
            return guard(stream)
        return RawStream(stream, guard, trail, trusts_bytes=self._settings.trusts_bytes)

    def _served(self, posted: Posted, turn: Turn, trail: Trail) -> Steps[tuple[_Tried, Trail]]:
        """Ask the model, and the fallbacks if its refusal advises another model.

        A fallback that fails is skipped; the last answer or refusal is returned.
        """
        last: _Tried | None = None
        for target in (None, *self._settings.fallbacks):
            tried, trail = yield from self._tried(posted, target, turn, trail)
            step = _way_on(tried.attempt)
            if step is not None and self._waits_for(step):
                last = tried
                yield partial(self._settings.sleep, step.wait or 0.0)
                tried, trail = yield from self._tried(posted, target, turn, trail)
                step = _way_on(tried.attempt)
            if tried.attempt.failed:
                continue
            last = tried
            if step is None or not step.other_model:
                break
        assert last is not None
        return last, trail

    def _tried(
        self, posted: Posted, target: Fallback | None, turn: Turn, trail: Trail
    ) -> Steps[tuple[_Tried, Trail]]:
        name = posted.model if target is None else _name(target)
        try:
            response = yield partial(_send, posted, target)
        except Exception as error:
            ruling = yield self._point("model", error, self._settings.at, prompt=turn.text)
            note(error, ruling)
            attempt = Attempt(name, (ruling,)) if ruling.findings else Attempt(name, failed=True)
            if attempt.failed and (target is None or isinstance(error, DemurError)):
                keep(error, _with(trail, attempt))
                raise
            if attempt.failed:
                _log.warning("fallback `%s` failed: %s", name, type(error).__name__)
            tried = _Tried(attempt, error=error)
        else:
            try:
                tried = yield from self._heard(response, posted, target, turn)
            except UnjudgedError as error:
                keep(error, trail)
                raise
        return tried, _with(trail, tried.attempt)

    def _heard(
        self, response: Any, posted: Posted, target: Fallback | None, turn: Turn
    ) -> Steps[_Tried]:
        """Read the answer of a model, or of a function in its place."""
        name = posted.model if target is None else _name(target)
        if callable(target) and not (posted.raw and hasattr(response, "parse")):
            response = self._owned(response, posted)
        elif posted.served is not None:
            name = posted.served(response) or name
        if posted.gave_stream(response):
            return _Tried(Attempt(name), response)
        plain = yield partial(_plain, response, posted)
        said = self._form.said(plain)
        rulings = yield from self._declined(said, turn)
        return _Tried(Attempt(name, rulings), response, said=said)

    def _owned(self, answer: Any, posted: Posted) -> Any:
        own = self._form.own(answer, posted)
        if not posted.raw:
            return own
        awaited = self._prefix and posted.raw == _STREAMED
        return AsyncMadeResponse(own) if awaited else MadeResponse(own)

    def _declined(self, choices: Sequence[Said], turn: Turn) -> Steps[tuple[Ruling, ...]]:
        """Check each choice for a refusal by the model."""
        rulings: list[Ruling] = []
        for said in choices:
            # A choice with tool calls goes on, so its text is no refusal.
            text = None if said.asks else said.text or None
            ruling = yield self._point(
                "model", said.view, self._settings.at, text=text, prompt=turn.text
            )
            rulings.append(ruling)
        return tuple(rulings)

    def _answered(
        self, response: Any, choices: Sequence[Said], posted: Posted, turn: Turn, trail: Trail
    ) -> Steps[Any]:
        """Check the answer, and return the response with refused choices replaced."""
        plain = yield partial(_plain, response, posted)
        refused: dict[int, Ruling] = {}
        first: Ruling | None = None
        for number, said in enumerate(choices):
            for text in said.readings:
                ruling = yield self._point("answer", text, self._settings.at, prompt=turn.text)
                first = ruling if first is None or first.allowed else first
                if not ruling.allowed:
                    refused[number] = ruling
                    break
        trail = trail._replace(answer=first)
        if not refused:
            return _parsed(response, plain, posted, trail)
        if self._raises(posted):
            raise keep(Refused(next(iter(refused.values()))), trail)
        return self._unparsed(self._form.replaced(plain, refused), posted, trail)

    def _instead(self, ruling: Ruling, posted: Posted) -> Any:
        trail = Trail(prompt=ruling)
        if self._raises(posted):
            raise keep(Refused(ruling), trail)
        if posted.streams:
            return keep(self._form.refusing_stream(ruling, posted), trail)
        return self._unparsed(self._form.refusing(ruling, posted), posted, trail)

    def _unparsed(self, response: Any, posted: Posted, trail: Trail) -> Any:
        made = response if posted.parse is None else self._form.unparsed(response, posted)
        return keep(keep_ids(made, response), trail)

    def _raises(self, posted: Posted) -> bool:
        # A raw call has no HTTP response to return: none was sent, or it may not be used.
        return self._settings.on_refusal == "raise" or bool(posted.raw)

    def _waits_for(self, step: NextStep) -> bool:
        known = step.wait is not None and step.wait <= LONGEST_WAIT
        return self._settings.waits and step.retry and step.change is Change.NOTHING and known

    def _point(self, name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        return partial(getattr(self._settings.enforcer, self._prefix + name), *arguments, **named)


def _with(trail: Trail, attempt: Attempt) -> Trail:
    return trail._replace(attempts=(*trail.attempts, attempt))


def _way_on(attempt: Attempt) -> NextStep | None:
    """Return the advice of a model's refusal; None if there is none or nothing can be done."""
    ruling = attempt.ruling
    # INVARIANT: a prompt that drew a hard refusal is sent to no other model.
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
    """Return the parsed response, also if the caller asked for the raw HTTP response."""
    return response.parse() if posted.raw and hasattr(response, "parse") else response


def _parsed(response: Any, plain: Any, posted: Posted, trail: Trail) -> Any:
    """Return the response in the type that the caller asked for; parse only checked content."""
    keep(plain, trail)
    if posted.parse is None:
        return response if response is plain else keep(response, trail)
    try:
        parsed = posted.parse(plain)
    except Exception as error:
        # A model that declines in prose does not produce the format to parse.
        if trail.ruling is not None:
            note(error, trail.ruling)
        keep(error, trail)
        raise
    keep(keep_ids(parsed, plain), trail)
    return JudgedResponse(response, parsed) if posted.raw else parsed
