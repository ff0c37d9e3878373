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
from functools import cached_property
from typing import Any, NamedTuple, cast

from demur.codes.vocabulary import Surface
from demur.enforce.changes import TextChanges, merge_changes
from demur.enforce.context import Call, Steps, adrive, drive
from demur.enforce.result import CheckResult, Refused
from demur.errors import DemurError, InputTypeError
from demur.integrations._kit.conversation import NewTurn
from demur.integrations._kit.guarded_response import (
    ApiFormat,
    AsyncLocalResponse,
    CheckedResponse,
    LocalResponse,
    RawStreamResponse,
    UncheckedAnswerError,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    CallTrace,
    Fallback,
    ModelAttempt,
    ModelClientSettings,
    OpenStream,
    OutgoingRequest,
    add_refusal_note,
    attach_trace,
    copy_request_ids,
    materialize,
)
from demur.model.next_steps import NextStep, RequiredChange

MAX_WAIT = 60.0
_COPY_METHODS = ("copy", "with_options", "with_middleware")
_RAW_HEADER = "x-stainless-raw-response"
# How the SDKs mark a request for an HTTP response whose body is not read yet.
_STREAMED_RAW = "stream"
_OMITTED_TYPES = {"Omit", "NotGiven"}
_log = logging.getLogger("demur")


class UnguardableError(DemurError):
    """The client is built differently from the versions that demur knows."""


def _list_texts(turn: NewTurn) -> list[str]:
    return [*turn.texts, *(output.text for output in turn.tool_outputs)]


class _AttemptOutcome(NamedTuple):
    """The response or error of one attempt.

    `choices` are those of an answer; None for a stream, which is not read yet.
    """

    attempt: ModelAttempt
    response: Any = None
    error: Exception | None = None
    choices: Sequence[AnswerChoice] | None = None


def call_model(
    api_format: ApiFormat, settings: ModelClientSettings, request: OutgoingRequest
) -> Steps[Any]:
    """Return the response, or the stream, for the caller.

    Raises:
        Refused: The call is refused, and the settings or the kind of call require raising.
    """
    call = _ModelCall(api_format, settings, request)
    result = yield from call.check_turn()
    if not result.allowed:
        return call.refuse_prompt(result)
    outcome, trace = yield from call.ask_models(CallTrace(prompt=result))
    if outcome.error is not None:
        raise attach_trace(outcome.error, trace)
    if outcome.choices is None:
        return call.open_stream(outcome.response, trace)
    return (yield from call.check_choices(outcome.response, outcome.choices, trace))


class _ModelCall:
    """The checks and requests of one model call."""

    def __init__(
        self, api_format: ApiFormat, settings: ModelClientSettings, request: OutgoingRequest
    ) -> None:
        self._format = api_format
        self._settings = settings
        self._enforcer = settings.enforcer
        self._context = settings.context
        self._request = request
        self._turn = api_format.read_turn(request.body)
        # The body of a raw HTTP response cannot be changed.
        self._answer_enforcer = self._enforcer.refuse_changes() if request.raw else self._enforcer
        # A raw call has no HTTP response to return: none was sent, or it may not be used.
        self._raises = settings.on_refusal == "raise" or bool(request.raw)

    def check_turn(self) -> Steps[CheckResult]:
        """Check the new part of a request: tool outputs, then texts."""
        turn, result, changes = self._turn, None, None
        for output in turn.tool_outputs:
            context = self._context._replace(call_id=output.call_id)
            result = yield from self._enforcer.tool_result_steps(
                output.name, output.result, context, arguments=output.arguments
            )
            if not result.allowed:
                self._settings.refused_texts.add([output.text])
                return result
            changes = merge_changes(changes, result.changes)
        if turn.text or result is None:
            result = yield from self._enforcer.prompt_steps(turn.text, self._context)
            if not result.allowed:
                self._settings.refused_texts.add(turn.texts)
                return result
            changes = merge_changes(changes, result.changes)
        if self._enforcer.may_change(Surface.INPUT, Surface.TOOL_RESULT):
            whole = self._format.read_conversation(self._request.body)
            # INVARIANT: what was taken out of a message stays out of later requests with it.
            changes = merge_changes(changes, self._enforcer.change_history(_list_texts(whole)))
            if changes is not None and not self._change_request(changes):
                self._enforcer, self._turn = self._enforcer.refuse_changes(), whole
                return (yield from self.check_turn())
        return result

    def _change_request(self, changes: TextChanges) -> bool:
        """Change the texts of the request; return whether nothing is left to change."""
        body = changes.apply(self._request.body)
        turn, whole = self._format.read_turn(body), self._format.read_conversation(body)
        texts = [turn.text, whole.text, *_list_texts(turn), *_list_texts(whole)]
        if changes.apply(texts) is not texts:
            return False
        self._request, self._turn = self._request._replace(body=body), turn
        return True

    def refuse_prompt(self, result: CheckResult) -> Any:
        """Return a refusal without asking a model."""
        request, trace = self._request, CallTrace(prompt=result)
        if self._raises:
            raise attach_trace(Refused(result), trace)
        if request.wants_stream:
            return attach_trace(self._format.build_refusal_stream(result, request), trace)
        return self._to_caller_type(self._format.build_refusal(result, request), trace)

    def open_stream(self, stream: Any, trace: CallTrace) -> Any:
        """Return the stream with a filter around it."""

        def guard_stream(inner: Any) -> Any:
            opened = OpenStream(inner, self._turn, trace)
            return self._format.filter_stream(opened, self._request)

        if not self._request.raw:
            return guard_stream(stream)
        allow_raw_bytes = self._settings.allow_raw_bytes
        return RawStreamResponse(stream, guard_stream, trace, allow_raw_bytes=allow_raw_bytes)

    def ask_models(self, trace: CallTrace) -> Steps[tuple[_AttemptOutcome, CallTrace]]:
        """Ask the model, and the fallbacks if its refusal advises another model.

        A fallback that fails is skipped; the last answer or refusal is returned.
        """
        last: _AttemptOutcome | None = None
        for target in (None, *self._settings.fallbacks):
            outcome, trace = yield from self._try_model(target, trace)
            step = _next_step_after(outcome.attempt)
            if step is not None and self._may_retry(step):
                last = outcome
                assert self._settings.sleep is not None
                yield Call(self._settings.sleep, (step.wait or 0.0,))
                outcome, trace = yield from self._try_model(target, trace)
                step = _next_step_after(outcome.attempt)
            if outcome.attempt.failed:
                continue
            last = outcome
            if step is None or not step.other_model:
                break
        assert last is not None
        return last, trace

    def check_choices(
        self,
        response: Any,
        choices: Sequence[AnswerChoice],
        trace: CallTrace,
        *,
        is_first: bool = True,
    ) -> Steps[Any]:
        """Check the answer, and return the response with refused choices replaced."""
        plain = yield Call(self._unwrap, (response,))
        first, refused, changes = yield from self._check_answers(choices)
        trace = trace._replace(answer=first)
        if changes is not None and not refused:
            changed = self._format.change_texts(plain, changes)
            left = [one.readings for one in self._format.read_choices(changed)]
            if changes.apply(left) is left:
                return self._parse_checked(changed, changed, trace)
            self._answer_enforcer = self._enforcer.refuse_changes()
            return (yield from self.check_choices(response, choices, trace))
        if not refused:
            return self._parse_checked(response, plain, trace)
        if is_first and not self._request.raw and all(one.may_reask for one in refused.values()):
            return (yield from self._ask_again(next(iter(refused.values())), trace))
        if self._raises:
            raise attach_trace(Refused(next(iter(refused.values()))), trace)
        return self._to_caller_type(self._format.replace_choices(plain, refused), trace)

    def _check_answers(
        self, choices: Sequence[AnswerChoice]
    ) -> Steps[tuple[CheckResult | None, dict[int, CheckResult], TextChanges | None]]:
        """Return the first result that refuses or else the first, refused choices, and changes."""
        refused: dict[int, CheckResult] = {}
        first: CheckResult | None = None
        changes: TextChanges | None = None
        for number, choice in enumerate(choices):
            for text in choice.readings:
                result = yield from self._answer_enforcer.answer_steps(
                    text, self._context, prompt=self._turn.text
                )
                first = result if first is None or first.allowed else first
                changes = merge_changes(changes, result.changes)
                if not result.allowed:
                    refused[number] = result
                    break
        return first, refused, changes

    def _ask_again(self, result: CheckResult, trace: CallTrace) -> Steps[Any]:
        """Ask the model once more, with the reason why its answer was refused."""
        body = self._format.add_message(self._request.body, result.reask_message)
        self._request = self._request._replace(body=body)
        outcome, trace = yield from self.ask_models(trace)
        if outcome.error is not None:
            raise attach_trace(outcome.error, trace)
        if outcome.choices is None:
            return self.open_stream(outcome.response, trace)
        return (
            yield from self.check_choices(outcome.response, outcome.choices, trace, is_first=False)
        )

    def _try_model(
        self, target: Fallback | None, trace: CallTrace
    ) -> Steps[tuple[_AttemptOutcome, CallTrace]]:
        name = self._request.model if target is None else target
        if not isinstance(name, str):
            name = str(getattr(name, "__name__", type(name).__name__))
        try:
            response = yield Call(self._send, (target,))
        except Exception as error:
            result = yield from self._enforcer.refusal_steps(
                error, self._context, prompt=self._turn.text
            )
            add_refusal_note(error, result)
            failed = not result.findings
            attempt = ModelAttempt(name, () if failed else (result,), failed)
            if failed and (target is None or isinstance(error, DemurError | Refused)):
                attach_trace(error, _add_attempt(trace, attempt))
                raise
            if failed:
                _log.warning("fallback `%s` failed: %s", name, type(error).__name__)
            outcome = _AttemptOutcome(attempt, error=error)
        else:
            try:
                outcome = yield from self._answer(response, target, name)
            except UncheckedAnswerError as error:
                attach_trace(error, trace)
                raise
        return outcome, _add_attempt(trace, outcome.attempt)

    def _answer(self, response: Any, target: Fallback | None, name: str) -> Steps[_AttemptOutcome]:
        """Read the answer of a model, or of a function in its place."""
        request = self._request
        if callable(target) and not (request.raw and hasattr(response, "parse")):
            response = self._format.coerce_answer(response, request)
            if request.raw:
                is_async = self._settings.is_async and request.raw == _STREAMED_RAW
                response = (AsyncLocalResponse if is_async else LocalResponse)(response)
        elif request.find_served_model is not None:
            name = request.find_served_model(response) or name
        if request.is_streamed(response):
            return _AttemptOutcome(ModelAttempt(name), response)
        plain = yield Call(self._unwrap, (response,))
        choices = self._format.read_choices(plain)
        results: list[CheckResult] = []
        for choice in choices:
            # A choice with tool calls goes on, so its text is no refusal.
            text = None if choice.has_calls else choice.text or None
            result = yield from self._enforcer.refusal_steps(
                choice.source, self._context, text=text, prompt=self._turn.text
            )
            results.append(result)
        return _AttemptOutcome(ModelAttempt(name, tuple(results)), response, choices=choices)

    def _send(self, target: Fallback | None) -> Any:
        request = self._request
        if target is None:
            return request.send(request.body)
        if isinstance(target, str):
            return request.send({**request.body, "model": target})
        return target(dict(request.body))

    def _unwrap(self, response: Any) -> Any:
        """Return the parsed response, also if the caller asked for the raw HTTP response."""
        return response.parse() if self._request.raw and hasattr(response, "parse") else response

    def _to_caller_type(self, response: Any, trace: CallTrace) -> Any:
        converted = response
        if self._request.parse is not None:
            converted = self._format.to_parsed_type(response, self._request)
        return attach_trace(copy_request_ids(converted, response), trace)

    def _parse_checked(self, response: Any, plain: Any, trace: CallTrace) -> Any:
        """Return the response in the type that the caller asked for; parse only checked content."""
        attach_trace(plain, trace)
        if self._request.parse is None:
            return response if response is plain else attach_trace(response, trace)
        try:
            parsed = self._request.parse(plain)
        except Exception as error:
            # A model that declines in prose does not produce the format to parse.
            add_refusal_note(error, trace.result)
            attach_trace(error, trace)
            raise
        attach_trace(copy_request_ids(parsed, plain), trace)
        return CheckedResponse(response, parsed) if self._request.raw else parsed

    def _may_retry(self, step: NextStep) -> bool:
        is_short = step.wait is not None and step.wait <= MAX_WAIT
        unchanged = step.change is RequiredChange.NOTHING
        return self._settings.retry_after_wait and step.retry and unchanged and is_short


def _add_attempt(trace: CallTrace, attempt: ModelAttempt) -> CallTrace:
    return trace._replace(attempts=(*trace.attempts, attempt))


def _next_step_after(attempt: ModelAttempt) -> NextStep | None:
    """Return the advice of a model's refusal; None if there is none or nothing can be done."""
    result = attempt.result
    # INVARIANT: a prompt that drew a hard refusal is sent to no other model.
    if result is None or not attempt.is_refused or any(one.is_hard for one in attempt.results):
        return None
    return result.next_step


def guard_client(
    client: Any,
    formats: Mapping[str, ApiFormat],
    settings: ModelClientSettings,
    probe: Callable[[Any], Any],
) -> Any:
    """Return a guarded copy of `client`; copies of that copy are guarded, too.

    `formats` are the API formats by path. Paths match by their end; `*` matches anything.
    `probe` returns the method through which a client sends guarded requests.

    Raises:
        UnguardableError: The client's requests would bypass the checks.
    """
    double = copy.copy(client)
    state = vars(double)
    for name, value in list(state.items()):
        is_cached = isinstance(getattr(type(client), name, None), cached_property)
        if is_cached and not isinstance(value, str | None):
            # Cached resources of the original client would bypass the checks.
            del state[name]

    def guard_copies(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: guard_client(make(*args, **kwargs), formats, settings, probe)

    post = state["post"] = _make_post(_bind_method("post", client, double), formats, settings)
    for name in _COPY_METHODS:
        if hasattr(client, name):
            state[name] = guard_copies(_bind_copy_method(name, client, double))
    for name, value in state.items():
        if getattr(value, "_client", None) is client:
            # So would resources that a client builds at once, as those for Bedrock and Vertex do.
            state[name] = type(value)(double)
    if probe(double) is not post:
        raise UnguardableError(
            "demur cannot guard this version of the client",
            help="use a version that demur's tests cover",
        )
    return double


def _bind_method(name: str, client: Any, double: Any) -> Callable[..., Any]:
    """Return a method bound to the copy, so that it uses the copy's keys and URLs."""
    if name in vars(client):
        # The client is guarded already; keep that guard.
        return cast("Callable[..., Any]", getattr(client, name))
    return cast("Callable[..., Any]", getattr(type(client), name).__get__(double))


def _bind_copy_method(name: str, client: Any, double: Any) -> Callable[..., Any]:
    """Return a method that copies a client, for its result to be guarded once."""

    def make_copy(*args: Any, **kwargs: Any) -> Any:
        bare = copy.copy(double)
        for method in _COPY_METHODS:
            # One copy method may call another, which would guard the result as well.
            vars(bare).pop(method, None)
        return _bind_method(name, client, bare)(*args, **kwargs)

    return make_copy


def _make_post(
    send: Callable[..., Any], formats: Mapping[str, ApiFormat], settings: ModelClientSettings
) -> Callable[..., Any]:
    """Return the replacement for the client's `post`."""

    def find_steps(path: str, options: Mapping[str, Any]) -> Steps[Any] | None:
        plain = "/" + path.partition("?")[0].strip("/")
        matches = (form for end, form in formats.items() if fnmatchcase(plain, f"*{end}"))
        form = next(matches, None)
        if form is None:
            return None
        return call_model(form, settings, _read_request(send, path, options))

    def post(path: str, **options: Any) -> Any:
        steps = find_steps(path, options)
        return send(path, **options) if steps is None else drive(steps)

    async def apost(path: str, **options: Any) -> Any:
        steps = find_steps(path, options)
        return await send(path, **options) if steps is None else await adrive(steps)

    return apost if settings.is_async else post


def _read_request(
    send: Callable[..., Any], path: str, arguments: Mapping[str, Any]
) -> OutgoingRequest:
    body, options = arguments.get("body"), dict(arguments.get("options") or {})
    if not isinstance(body, Mapping):
        raise InputTypeError.wrong_type("the body of a guarded request", "a mapping", body)
    # `extra_body` overrides fields of the body, so check the merged body.
    merged = {**body, **(options.pop("extra_json", None) or {})}
    headers = {key.lower(): value for key, value in (options.get("headers") or {}).items()}
    wants_stream = bool(arguments.get("stream"))
    # Parse here, after the check.
    parse = None if wants_stream else options.pop("post_parser", None)
    rest = {name: value for name, value in arguments.items() if name not in {"body", "options"}}
    return OutgoingRequest(
        send=lambda sent: send(path, body=sent, options=options, **rest),
        body={
            name: materialize(value)
            for name, value in merged.items()
            if type(value).__name__ not in _OMITTED_TYPES
        },
        cast_to=arguments.get("cast_to"),
        parse=parse,
        wants_stream=wants_stream,
        raw=headers.get(_RAW_HEADER) or False,
    )
