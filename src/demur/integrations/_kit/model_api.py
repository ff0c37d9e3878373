"""Types that all guarded model clients share: API formats, settings and call traces.

`read_trace` and `read_check_result` tell how a response, stream or error came about.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit.conversation import NewTurn, RefusedTexts, refused_texts_for

OnRefusal = Literal["raise", "answer"]
# The name of another model, or a function from a request to a response.
Fallback = str | Callable[[dict[str, Any]], Any]


class ModelClientSettings(NamedTuple):
    """The settings of a guarded client. Build them with `build_settings`."""

    enforcer: Enforcer
    context: CallContext
    on_refusal: OnRefusal
    fallbacks: tuple[Fallback, ...]
    retry_after_wait: bool
    sleep: Callable[[float], Any]
    recheck_history: bool
    allow_raw_bytes: bool
    refused_texts: RefusedTexts


def build_settings(
    enforcer_or_gate: Enforcer | Gate,
    framework: str,
    *,
    context: CallContext | None,
    on_refusal: OnRefusal,
    fallbacks: Sequence[Fallback],
    retry_after_wait: bool,
    sleep: Callable[[float], Any],
    recheck_history: bool,
    allow_raw_bytes: bool,
) -> ModelClientSettings:
    """Return validated settings; a gate gets an enforcer with default options.

    Raises:
        InputError: A setting is invalid.
    """
    enforcer = Enforcer.from_gate(enforcer_or_gate)
    if on_refusal not in get_args(OnRefusal):
        help_text = f"one of {', '.join(get_args(OnRefusal))}"
        raise InputError(f"unknown setting `{on_refusal}`", where="on_refusal", help=help_text)
    if isinstance(fallbacks, str):
        raise InputTypeError.wrong_type("fallbacks", "a list of models", fallbacks)
    where = CallContext() if context is None else context
    named = where if where.framework else where._replace(framework=framework)
    return ModelClientSettings(
        enforcer=enforcer,
        context=named,
        on_refusal=on_refusal,
        fallbacks=tuple(fallbacks),
        retry_after_wait=retry_after_wait,
        sleep=sleep,
        recheck_history=recheck_history,
        allow_raw_bytes=allow_raw_bytes,
        refused_texts=refused_texts_for(enforcer_or_gate),
    )


_Result = TypeVar("_Result")
# Each step is a function to call; its value or exception goes back into the generator.
Steps = Generator[Callable[[], Any], Any, _Result]


def drive(steps: Steps[_Result]) -> _Result:
    """Run the steps and return their result."""
    result: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            return done.value
        result = error = None
        try:
            result = step()
        except Exception as raised:  # noqa: BLE001 - it is raised inside the generator
            error = raised


async def adrive(steps: Steps[_Result]) -> _Result:
    """Run the steps, awaiting where necessary, and return their result."""
    result: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            return done.value
        result = error = None
        try:
            result = step()
            if inspect.isawaitable(result):
                result = await result
        except Exception as raised:  # noqa: BLE001 - it is raised inside the generator
            error = raised


_TRACE_ATTRIBUTE = "_demur_trail"
# Where the stream helpers of the SDKs keep the stream that they read.
_INNER_STREAM = "_raw_stream"
# The SDKs set these on each response, and read them without a default.
_ID_ATTRIBUTES = ("_request_id", "_workspace_id")
_Object = TypeVar("_Object")


class ModelAttempt(NamedTuple):
    """One model that was asked, with a check result for each choice.

    A model that `failed` neither answered nor refused.
    """

    model: str
    results: tuple[CheckResult, ...] = ()
    failed: bool = False

    @property
    def result(self) -> CheckResult | None:
        """The first result that refuses, or else the first."""
        refusing = (one for one in self.results if not one.allowed)
        return next(refusing, self.results[0] if self.results else None)

    @property
    def is_refused(self) -> bool:
        """Whether every choice is a refusal."""
        return bool(self.results) and not any(one.allowed for one in self.results)


class CallTrace(NamedTuple):
    """The check results of one call: for the prompt, for each model, and for the answer."""

    prompt: CheckResult | None = None
    attempts: tuple[ModelAttempt, ...] = ()
    answer: CheckResult | None = None

    @property
    def result(self) -> CheckResult | None:
        """The result that decided the call."""
        if self.answer is not None and not self.answer.allowed:
            return self.answer
        if not self.attempts:
            return self.prompt
        last = self._last_answered
        return None if last is None else last.result

    @property
    def served_by(self) -> str | None:
        """The model that answered; None if none was asked or none answered."""
        last = self._last_answered
        return None if last is None else last.model

    @property
    def _last_answered(self) -> ModelAttempt | None:
        """The last attempt that answered or refused."""
        return next((one for one in reversed(self.attempts) if not one.failed), None)


def read_trace(response: Any) -> CallTrace | None:
    """Return the trace of a response, stream or error of a guarded client; None for others."""
    kept = getattr(response, _TRACE_ATTRIBUTE, None)
    if kept is None:
        kept = getattr(getattr(response, _INNER_STREAM, None), _TRACE_ATTRIBUTE, None)
    return kept if isinstance(kept, CallTrace) else None


def read_check_result(response: Any) -> CheckResult | None:
    """Return the check result that decided a response, stream or error of a guarded client."""
    trail = read_trace(response)
    return None if trail is None else trail.result


def add_refusal_note(error: Exception, result: CheckResult) -> None:
    """Add the refusal line to an error's notes, so that tracebacks show it."""
    if not result.allowed:
        error.add_note(result.line)


def attach_trace(response: _Object, trace: CallTrace) -> _Object:
    """Return `response` with its trace as an attribute that the SDK's models do not serialise."""
    with suppress(AttributeError, TypeError):
        object.__setattr__(response, _TRACE_ATTRIBUTE, trace)
    return response


def copy_request_ids(response: _Object, source: Any) -> _Object:
    """Return `response` with the request ids of `source`, or None where it has none."""
    with suppress(AttributeError, TypeError):
        for name in _ID_ATTRIBUTES:
            object.__setattr__(response, name, getattr(source, name, None))
    return response


class OutgoingRequest(NamedTuple):
    """A request on its way to a provider.

    `parse` converts a response to the type that the caller asked for. `raw` means that the
    caller wants the HTTP response, `wants_stream` that it wants events. `is_stream` tells from
    an answer whether it is a stream, for hosts that may ignore the request's wish.
    `find_served_model` reads from an answer which model gave it.
    """

    send: Callable[[dict[str, Any]], Any]
    body: dict[str, Any]
    cast_to: Any = None
    parse: Callable[[Any], Any] | None = None
    wants_stream: bool = False
    raw: bool | str = False
    is_stream: Callable[[Any], bool] | None = None
    find_served_model: Callable[[Any], str | None] | None = None

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    def is_streamed(self, answer: Any) -> bool:
        """Return whether an answer is a stream."""
        return self.wants_stream if self.is_stream is None else self.is_stream(answer)


class AnswerChoice(NamedTuple):
    """One choice of a response: its texts, and the `source` to read a typed refusal from.

    With `has_calls`, the choice asks for tool calls, so its text is no refusal.
    `refusal_text` is the text of a typed refusal, which callers show as well.
    """

    source: Any
    texts: tuple[str, ...] = ()
    has_calls: bool = False
    refusal_text: str = ""

    @property
    def text(self) -> str:
        """The answer as clients join it."""
        return "".join(self.texts)

    @property
    def readings(self) -> tuple[str, ...]:
        """The joined text, and also its parts on separate lines if there are several."""
        parts = [*filter(None, (*self.texts, self.refusal_text))]
        return tuple(dict.fromkeys(filter(None, ("".join(parts), "\n".join(parts)))))


class OpenStream(NamedTuple):
    """An open stream, to be filtered while it is read."""

    stream: Any
    turn: NewTurn
    trace: CallTrace


class ApiFormat(Protocol):
    """How one API of a provider represents requests, responses and refusals."""

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request."""

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        """Return the value of a fallback function in the client's own type.

        Raises:
            UncheckedAnswerError: It is no answer of this API.
        """

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a response.

        Raises:
            UncheckedAnswerError: The response has no readable choices.
        """

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing response for a request that was not sent."""

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a response with these choices replaced by refusals."""

    def build_refusal_stream(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing stream for a request that was not sent."""

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared events."""

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:
        """Return a refusing response in the type that the caller parses to."""
