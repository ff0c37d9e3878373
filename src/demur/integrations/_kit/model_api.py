"""Types that all guarded model clients share: requests, choices, settings and call traces.

`read_trace` and `read_check_result` tell how a response, stream or error came about.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding, TextChanges
from demur.enforce.context import CallContext
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.enforce.result import CheckResult
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit.conversation import NewTurn, RefusedTexts, refused_texts_for
from demur.integrations._kit.options import AdapterOptions, adapt_enforcer

RefusalMode = Literal["raise", "answer"]
# The name of another model, or a function from a request to a response.
Fallback = str | Callable[[dict[str, Any]], Any]
_TRACE_ATTRIBUTE = "_demur_trace"
# Where the stream helpers of the SDKs keep the stream that they read.
_INNER_STREAM = "_raw_stream"
# The SDKs set these on each response, and read them without a default.
_ID_ATTRIBUTES = ("_request_id", "_workspace_id")
_Object = TypeVar("_Object")
_CARRIED = frozenset({Surface.INPUT, Surface.OUTPUT, Surface.TOOL_RESULT})


class GuardOptions(AdapterOptions, total=False):
    """The options of a guarded client, besides those of all adapters.

    `context` names the user and the run. A refusal raises `Refused`; with
    `on_refusal="answer"`, the client returns a refusal in the provider's own format. If a
    model's refusal advises another model, demur asks the `fallbacks` in order: names of models,
    or functions from a request to a response. With `retry_after_wait`, demur waits up to a
    minute (by `sleep`) for a model that asks for a later retry. With `recheck_history`, demur
    checks the whole conversation in each request, not only the new messages. With
    `allow_raw_bytes`, callers may read unchecked bytes of raw streams; otherwise only events.
    `on_finding` changes requests and answers; a stream is held to its end then, and neither a
    stream nor a raw HTTP response is asked for again.
    """

    context: CallContext | None
    on_refusal: RefusalMode
    fallbacks: Sequence[Fallback]
    retry_after_wait: bool
    sleep: Callable[[float], Any] | None
    recheck_history: bool
    allow_raw_bytes: bool


class ModelClientSettings(NamedTuple):
    """The settings of a guarded client. Build them with `build_settings`."""

    enforcer: Enforcer
    context: CallContext
    refused_texts: RefusedTexts
    is_async: bool
    on_refusal: RefusalMode = "raise"
    fallbacks: Sequence[Fallback] = ()
    retry_after_wait: bool = False
    sleep: Callable[[float], Any] | None = None
    recheck_history: bool = False
    allow_raw_bytes: bool = False


def build_settings(
    enforcer: Enforcer | Gate,
    framework: str,
    *,
    is_async: bool,
    context: CallContext | None = None,
    on_finding: OnFinding | None = None,
    mode: EnforceMode | None = None,
    tools: Tools | None = None,
    **options: Any,
) -> ModelClientSettings:
    """Return validated settings; a gate gets an enforcer with default options.

    Raises:
        InputError: A setting is invalid.
    """
    checked = adapt_enforcer(
        enforcer, carried=_CARRIED, on_finding=on_finding, mode=mode, tools=tools
    )
    texts = refused_texts_for(enforcer)
    call_context = CallContext() if context is None else context
    if not call_context.framework:
        call_context = call_context._replace(framework=framework)
    settings = ModelClientSettings(checked, call_context, texts, is_async, **options)
    if settings.on_refusal not in get_args(RefusalMode):
        problem = f"unknown setting `{settings.on_refusal}`"
        help_text = f"one of {', '.join(get_args(RefusalMode))}"
        raise InputError(problem, where="on_refusal", help=help_text)
    if isinstance(settings.fallbacks, str):
        raise InputTypeError.wrong_type("fallbacks", "a list of models", settings.fallbacks)
    sleep = settings.sleep or (asyncio.sleep if is_async else time.sleep)
    return settings._replace(fallbacks=tuple(settings.fallbacks), sleep=sleep)


def _describe_result(result: CheckResult | None) -> str:
    """Return the code of a result that refuses, or else its outcome."""
    if result is None:
        return "unchecked"
    return str(result.outcome if result.refusal is None else result.refusal.code)


class ModelAttempt(NamedTuple):
    """One model that was asked, with a check result for each choice.

    A model that `failed` neither answered nor refused.
    """

    model: str
    results: tuple[CheckResult, ...] = ()
    failed: bool = False

    def __repr__(self) -> str:
        described = "failed" if self.failed else _describe_result(self.result)
        return f"<ModelAttempt {self.model}: {described}>"

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

    def __repr__(self) -> str:
        # Check results contain whole records.
        prompt, answer = _describe_result(self.prompt), _describe_result(self.answer)
        return f"<CallTrace prompt={prompt} attempts={list(self.attempts)} answer={answer}>"

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
    trace = getattr(response, _TRACE_ATTRIBUTE, None)
    if trace is None:
        trace = getattr(getattr(response, _INNER_STREAM, None), _TRACE_ATTRIBUTE, None)
    return trace if isinstance(trace, CallTrace) else None


def read_check_result(response: Any) -> CheckResult | None:
    """Return the check result that decided a response, stream or error of a guarded client."""
    trace = read_trace(response)
    return None if trace is None else trace.result


def add_refusal_note(error: Exception, result: CheckResult | None) -> None:
    """Add the refusal line to an error's notes, so that tracebacks show it."""
    if result is not None and not result.allowed:
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


# Token log probabilities would spell the old text.
_SPELLING_FIELD = "logprobs"


def change_model(model: Any, changes: TextChanges) -> Any:
    """Return a model of an SDK with changed texts; the same one if nothing changes."""
    fields = model.model_dump(exclude_unset=True)
    changed = changes.apply(fields)
    if changed is fields:
        return model
    return copy_request_ids(type(model).model_validate(_drop_spelling(changed)), model)


def _drop_spelling(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_drop_spelling, value))
    if not isinstance(value, Mapping):
        return value
    kept = {key: _drop_spelling(item) for key, item in value.items()}
    if _SPELLING_FIELD in kept:
        kept[_SPELLING_FIELD] = [] if isinstance(kept[_SPELLING_FIELD], list) else None
    return kept


def materialize(value: Any) -> Any:
    """Return a value that can be read more than once; messages may come from a generator."""
    return list(value) if hasattr(value, "__next__") else value


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

    def response_type(self, default: Any) -> Any:
        """Return the type that the caller asked for if it can be built, or else the default."""
        return self.cast_to if hasattr(self.cast_to, "model_validate") else default


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
        return list_readings((*self.texts, self.refusal_text))


def list_readings(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the readings of a text in parts: joined, and with the parts on separate lines."""
    texts = [*filter(None, parts)]
    return tuple(dict.fromkeys(filter(None, ("".join(texts), "\n".join(texts)))))


class OpenStream(NamedTuple):
    """An open stream, to be filtered while it is read."""

    stream: Any
    turn: NewTurn
    trace: CallTrace
