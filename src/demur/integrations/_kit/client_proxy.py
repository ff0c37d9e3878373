"""A copy of an SDK's client that checks each model call before sending and after the answer.

The clients of OpenAI and Anthropic send every request through their own `post`. The copy
replaces `post`, so that no helper, parser or beta API bypasses the checks; the original client
is not changed. An `ApiFormat` reads requests and responses and writes refusals. The steps of a
call are one generator, driven synchronously or asynchronously.
"""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from demur.enforce.result import CheckResult, Refused
from demur.errors import DemurError, InputTypeError
from demur.integrations._kit.conversation import NewTurn
from demur.integrations._kit.guarded_response import (
    AsyncLocalResponse,
    CheckedResponse,
    LocalResponse,
    RawStreamResponse,
    UncheckedAnswerError,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    ApiFormat,
    CallTrace,
    Fallback,
    ModelAttempt,
    ModelClientSettings,
    OpenStream,
    OutgoingRequest,
    Steps,
    add_refusal_note,
    adrive,
    attach_trace,
    copy_request_ids,
    drive,
)
from demur.model.next_step import NextStep, RequiredChange

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
        turn = self._format.read_turn(request.body, include_history=self._settings.recheck_history)
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
                "check_tool_result", one.name, one.result, here, arguments=one.arguments
            )
            if not ruling.allowed:
                self._settings.refused_texts.add([one.text])
                return ruling
        if turn.text or ruling is None:
            ruling = yield self._make_check("check_prompt", turn.text, at)
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
                "read_refusal", error, self._settings.context, prompt=turn.text
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
                "read_refusal", said.source, self._settings.context, text=text, prompt=turn.text
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
                    "check_answer", text, self._settings.context, prompt=turn.text
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


_COPY_METHODS = ("copy", "with_options", "with_middleware")
_RAW_HEADER = "x-stainless-raw-response"
_OMITTED_TYPES = {"Omit", "NotGiven"}


class UnguardableError(DemurError):
    """The client is built differently from the versions that demur knows."""


class ClientGuard(NamedTuple):
    """How to guard a client: the API format of each path, and the settings.

    Paths match by their end; `*` matches anything. `probe` returns the method through which a
    client sends guarded requests.
    """

    formats: Mapping[str, ApiFormat]
    settings: ModelClientSettings
    probe: Callable[[Any], Any]
    is_async: bool


def guard_client(client: Any, client_guard: ClientGuard) -> Any:
    """Return a guarded copy of `client`; copies of that copy are guarded, too.

    Raises:
        UnguardableError: The client's requests would bypass the checks.
    """
    double = copy.copy(client)
    state = vars(double)
    for name in [name for name in state if _is_cached(client, name)]:
        # Cached resources of the original client would bypass the checks.
        del state[name]
    post = _make_post(client, double, client_guard)
    state["post"] = post
    for name in _COPY_METHODS:
        if hasattr(client, name):
            state[name] = _guard_copies(_bind_method(name, client, double), client_guard)
    if client_guard.probe(double) is not post:
        raise UnguardableError(
            "demur cannot guard this version of the client",
            help="use a version that demur was tested with",
        )
    return double


def _is_cached(client: Any, name: str) -> bool:
    return isinstance(getattr(type(client), name, None), cached_property)


def _bind_method(name: str, client: Any, double: Any) -> Callable[..., Any]:
    """Return a method bound to the copy, so that it uses the copy's keys and URLs."""
    if name in vars(client):
        # The client is guarded already; keep that guard.
        return cast("Callable[..., Any]", getattr(client, name))
    return cast("Callable[..., Any]", getattr(type(client), name).__get__(double))


def _guard_copies(make: Callable[..., Any], client_guard: ClientGuard) -> Callable[..., Any]:
    def copied(*arguments: Any, **named: Any) -> Any:
        return guard_client(make(*arguments, **named), client_guard)

    return copied


def _make_post(client: Any, double: Any, client_guard: ClientGuard) -> Callable[..., Any]:
    """Return the replacement for the client's `post`."""
    send = _bind_method("post", client, double)
    calls = {
        path: ModelCall(form, client_guard.settings, is_async=client_guard.is_async)
        for path, form in client_guard.formats.items()
    }

    def post(path: str, **named: Any) -> Any:
        call = _find_call(path, calls)
        if call is None:
            return send(path, **named)
        return drive(call.run_steps(_read_request(send, path, named)))

    async def apost(path: str, **named: Any) -> Any:
        call = _find_call(path, calls)
        if call is None:
            return await send(path, **named)
        return await adrive(call.run_steps(_read_request(send, path, named)))

    return apost if client_guard.is_async else post


def _find_call(path: str, calls: Mapping[str, ModelCall]) -> ModelCall | None:
    plain = "/" + path.partition("?")[0].strip("/")
    return next((call for end, call in calls.items() if fnmatchcase(plain, f"*{end}")), None)


def _read_request(send: Callable[..., Any], path: str, named: Mapping[str, Any]) -> OutgoingRequest:
    body, options = named.get("body"), dict(named.get("options") or {})
    if not isinstance(body, Mapping):
        raise InputTypeError.wrong_type("the body of a guarded request", "a mapping", body)
    extra = options.pop("extra_json", None) or {}
    # `extra_body` overrides fields of the body, so check the merged body.
    whole = {name: _materialize_iterator(value) for name, value in {**body, **extra}.items()}
    whole = {name: value for name, value in whole.items() if not _is_left_out(value)}
    headers = {key.lower(): value for key, value in (options.get("headers") or {}).items()}
    streams = bool(named.get("stream"))
    # Parse here, after the check.
    parse = None if streams else options.pop("post_parser", None)
    rest = {name: value for name, value in named.items() if name not in {"body", "options"}}
    return OutgoingRequest(
        send=lambda sent: send(path, body=sent, options=options, **rest),
        body=whole,
        cast_to=named.get("cast_to"),
        parse=parse,
        wants_stream=streams,
        raw=headers.get(_RAW_HEADER) or False,
    )


def _materialize_iterator(value: Any) -> Any:
    """Return a value that can be read more than once; messages may come from a generator."""
    return list(value) if hasattr(value, "__next__") else value


def _is_left_out(value: Any) -> bool:
    return type(value).__name__ in _OMITTED_TYPES
