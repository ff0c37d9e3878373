"""One call of a model's client: judged before it is sent, after it is answered, and in between.

Knows nothing of any SDK: a form reads requests and responses of one interface and writes
refusals the way its clients expect them. The order of steps is written once, as a generator;
whether a step is waited for or awaited is up to who takes them.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.enforce.ruling import Refused, CheckResult
from demur.errors import DemurError
from demur.integrations.model_client.form import (
    ApiFormat,
    OpenStream,
    OutgoingRequest,
    AnswerChoice,
)
from demur.integrations.model_client.raw import (
    AsyncLocalResponse,
    CheckedResponse,
    LocalResponse,
    RawStreamResponse,
    UncheckedAnswerError,
)
from demur.integrations.model_client.settings import Fallback, ModelClientSettings
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import (
    ModelAttempt,
    CallTrace,
    attach_trace,
    copy_request_ids,
    add_refusal_note,
)
from demur.integrations.model_client.turn import NewTurn
from demur.model.next_step import RequiredChange, NextStep

__all__ = ["MAX_WAIT", "ModelCall"]

MAX_WAIT = 60.0
# How the SDKs mark a request for an HTTP response whose body is not read yet.
_STREAMED_RAW = "stream"
_log = logging.getLogger("demur")


class _AttemptOutcome(NamedTuple):
    """The response or error of one attempt.

    `choices` are those of an answer; None for a stream, which is not read yet.
    """

    attempt: ModelAttempt
    response: Any = None
    error: Exception | None = None
    choices: Sequence[AnswerChoice] | None = None


class ModelCall:
    """Runs the checks and requests of one model call."""

    def __init__(
        self, api_format: ApiFormat, settings: ModelClientSettings, *, is_async: bool
    ) -> None:
        self._format = api_format
        self._settings = settings
        self._prefix = "a" if is_async else ""

    def run_steps(self, request: OutgoingRequest) -> Steps[Any]:
        """Return the response, or the stream, for the caller.

        Raises:
            Refused: The call is refused, and the settings or the kind of call require raising.
        """
        turn = self._format.read_turn(
            request.body, include_history=not self._settings.trusts_history
        )
        ruling = yield from self._check_turn(turn)
        if not ruling.allowed:
            return self._refuse_prompt(ruling, request)
        tried, trail = yield from self._ask_models(request, turn, CallTrace(prompt=ruling))
        if tried.error is not None:
            raise attach_trace(tried.error, trail)
        if tried.choices is None:
            return self._open_stream(tried.response, request, turn, trail)
        return (yield from self._check_choices(tried.response, tried.choices, request, turn, trail))

    def _check_turn(self, turn: NewTurn) -> Steps[CheckResult]:
        """Check the new part of a request: tool outputs, then texts."""
        at = self._settings.context
        ruling = None
        for one in turn.tool_outputs:
            here = at._replace(call_id=one.call_id)
            ruling = yield self._make_check(
                "tool_result", one.name, one.result, here, arguments=one.arguments
            )
            if not ruling.allowed:
                self._settings.refused_texts.add([one.text])
                return ruling
        if turn.text or ruling is None:
            ruling = yield self._make_check("prompt", turn.text, at)
            if not ruling.allowed:
                self._settings.refused_texts.add(turn.texts)
        return ruling

    def _open_stream(
        self, stream: Any, request: OutgoingRequest, turn: NewTurn, trace: CallTrace
    ) -> Any:
        def guard(inner: Any) -> Any:
            return self._format.filter_stream(OpenStream(inner, turn, trace), request)

        if not request.raw:
            return guard(stream)
        return RawStreamResponse(
            stream, guard, trace, allow_raw_bytes=self._settings.allow_raw_bytes
        )

    def _ask_models(
        self, request: OutgoingRequest, turn: NewTurn, trace: CallTrace
    ) -> Steps[tuple[_AttemptOutcome, CallTrace]]:
        """Ask the model, and the fallbacks if its refusal advises another model.

        A fallback that fails is skipped; the last answer or refusal is returned.
        """
        last: _AttemptOutcome | None = None
        for target in (None, *self._settings.fallbacks):
            tried, trace = yield from self._try_model(request, target, turn, trace)
            step = _next_step_after(tried.attempt)
            if step is not None and self._may_retry(step):
                last = tried
                yield partial(self._settings.sleep, step.wait or 0.0)
                tried, trace = yield from self._try_model(request, target, turn, trace)
                step = _next_step_after(tried.attempt)
            if tried.attempt.failed:
                continue
            last = tried
            if step is None or not step.other_model:
                break
        assert last is not None
        return last, trace

    def _try_model(
        self, request: OutgoingRequest, target: Fallback | None, turn: NewTurn, trace: CallTrace
    ) -> Steps[tuple[_AttemptOutcome, CallTrace]]:
        name = request.model if target is None else _target_name(target)
        try:
            response = yield partial(_send_request, request, target)
        except Exception as error:
            ruling = yield self._make_check(
                "model", error, self._settings.context, prompt=turn.text
            )
            add_refusal_note(error, ruling)
            attempt = (
                ModelAttempt(name, (ruling,))
                if ruling.findings
                else ModelAttempt(name, failed=True)
            )
            if attempt.failed and (target is None or isinstance(error, DemurError)):
                attach_trace(error, _add_attempt(trace, attempt))
                raise
            if attempt.failed:
                _log.warning("fallback `%s` failed: %s", name, type(error).__name__)
            tried = _AttemptOutcome(attempt, error=error)
        else:
            try:
                tried = yield from self._read_answer(response, request, target, turn)
            except UncheckedAnswerError as error:
                attach_trace(error, trace)
                raise
        return tried, _add_attempt(trace, tried.attempt)

    def _read_answer(
        self, response: Any, request: OutgoingRequest, target: Fallback | None, turn: NewTurn
    ) -> Steps[_AttemptOutcome]:
        """Read the answer of a model, or of a function in its place."""
        name = request.model if target is None else _target_name(target)
        if callable(target) and not (request.raw and hasattr(response, "parse")):
            response = self._coerce_answer(response, request)
        elif request.find_served_model is not None:
            name = request.find_served_model(response) or name
        if request.is_streamed(response):
            return _AttemptOutcome(ModelAttempt(name), response)
        plain = yield partial(_unwrap_response, response, request)
        said = self._format.read_choices(plain)
        rulings = yield from self._check_model_refusal(said, turn)
        return _AttemptOutcome(ModelAttempt(name, rulings), response, choices=said)

    def _coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        own = self._format.coerce_answer(answer, request)
        if not request.raw:
            return own
        awaited = self._prefix and request.raw == _STREAMED_RAW
        return AsyncLocalResponse(own) if awaited else LocalResponse(own)

    def _check_model_refusal(
        self, choices: Sequence[AnswerChoice], turn: NewTurn
    ) -> Steps[tuple[CheckResult, ...]]:
        """Check each choice for a refusal by the model."""
        rulings: list[CheckResult] = []
        for said in choices:
            # A choice with tool calls goes on, so its text is no refusal.
            text = None if said.has_calls else said.text or None
            ruling = yield self._make_check(
                "model", said.source, self._settings.context, text=text, prompt=turn.text
            )
            rulings.append(ruling)
        return tuple(rulings)

    def _check_choices(
        self,
        response: Any,
        choices: Sequence[AnswerChoice],
        request: OutgoingRequest,
        turn: NewTurn,
        trace: CallTrace,
    ) -> Steps[Any]:
        """Check the answer, and return the response with refused choices replaced."""
        plain = yield partial(_unwrap_response, response, request)
        refused: dict[int, CheckResult] = {}
        first: CheckResult | None = None
        for number, said in enumerate(choices):
            for text in said.readings:
                ruling = yield self._make_check(
                    "answer", text, self._settings.context, prompt=turn.text
                )
                first = ruling if first is None or first.allowed else first
                if not ruling.allowed:
                    refused[number] = ruling
                    break
        trace = trace._replace(answer=first)
        if not refused:
            return _parse_checked(response, plain, request, trace)
        if self._must_raise(request):
            raise attach_trace(Refused(next(iter(refused.values()))), trace)
        return self._to_caller_type(self._format.replace_choices(plain, refused), request, trace)

    def _refuse_prompt(self, result: CheckResult, request: OutgoingRequest) -> Any:
        trail = CallTrace(prompt=result)
        if self._must_raise(request):
            raise attach_trace(Refused(result), trail)
        if request.wants_stream:
            return attach_trace(self._format.build_refusal_stream(result, request), trail)
        return self._to_caller_type(self._format.build_refusal(result, request), request, trail)

    def _to_caller_type(self, response: Any, request: OutgoingRequest, trace: CallTrace) -> Any:
        made = response if request.parse is None else self._format.to_parsed_type(response, request)
        return attach_trace(copy_request_ids(made, response), trace)

    def _must_raise(self, request: OutgoingRequest) -> bool:
        # A raw call has no HTTP response to return: none was sent, or it may not be used.
        return self._settings.on_refusal == "raise" or bool(request.raw)

    def _may_retry(self, step: NextStep) -> bool:
        known = step.wait is not None and step.wait <= MAX_WAIT
        return (
            self._settings.retry_after_wait
            and step.retry
            and step.change is RequiredChange.NOTHING
            and known
        )

    def _make_check(self, check_name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        return partial(
            getattr(self._settings.enforcer, self._prefix + check_name), *arguments, **named
        )


def _add_attempt(trace: CallTrace, attempt: ModelAttempt) -> CallTrace:
    return trace._replace(attempts=(*trace.attempts, attempt))


def _next_step_after(attempt: ModelAttempt) -> NextStep | None:
    """Return the advice of a model's refusal; None if there is none or nothing can be done."""
    ruling = attempt.result
    # INVARIANT: a prompt that drew a hard refusal is sent to no other model.
    if ruling is None or not attempt.is_refused or any(one.is_hard for one in attempt.results):
        return None
    return ruling.next_step


def _target_name(target: Fallback) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)


def _send_request(request: OutgoingRequest, target: Fallback | None) -> Any:
    if target is None:
        return request.send(request.body)
    if isinstance(target, str):
        return request.send({**request.body, "model": target})
    return target(dict(request.body))


def _unwrap_response(response: Any, request: OutgoingRequest) -> Any:
    """Return the parsed response, also if the caller asked for the raw HTTP response."""
    return response.parse() if request.raw and hasattr(response, "parse") else response


def _parse_checked(response: Any, plain: Any, request: OutgoingRequest, trace: CallTrace) -> Any:
    """Return the response in the type that the caller asked for; parse only checked content."""
    attach_trace(plain, trace)
    if request.parse is None:
        return response if response is plain else attach_trace(response, trace)
    try:
        parsed = request.parse(plain)
    except Exception as error:
        # A model that declines in prose does not produce the format to parse.
        if trace.result is not None:
            add_refusal_note(error, trace.result)
        attach_trace(error, trace)
        raise
    attach_trace(copy_request_ids(parsed, plain), trace)
    return CheckedResponse(response, parsed) if request.raw else parsed
