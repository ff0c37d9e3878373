"""Enforce over HTTP: guards, loops, commands and policy in one call.

Each route makes one check of the enforcer, as an agent in Python would, and returns what its caller
has to know: whether it is allowed, and what to tell a program, a model and a person if it is not.
A refusal is a 200. A decision that could not be stored was not made, so it is an error.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext
from copy import copy
from typing import Annotated, Any

import msgspec

from demur.codes.vocabulary import Obligation, Surface
from demur.enforce.context import GENERATE_ACTION, CallContext, Steps, adrive, drive
from demur.enforce.describe import DescribeCall, parse_arguments
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream
from demur.errors import InputError, InputTypeError
from demur.gate.inputs import check_signals
from demur.guards.builtin import parse_event
from demur.guards.pinning import ContextMessage, PinManifest
from demur.guards.retrieval import RetrievedPassage
from demur.guards.tool_manifest import ToolDefinition
from demur.model.decision import Outcome
from demur.model.grant import Grant
from demur.model.request import Subject
from demur.service.authentication import LOCAL, Role
from demur.service.calls import (
    MAX_INLINE_BYTES,
    MAX_INLINE_COMMAND_BYTES,
    ApiAnswer,
    ApiCall,
    RouteTable,
    format_event,
    json_answer,
)
from demur.service.json_body import decode_json
from demur.service.problem import invalid_call
from demur.service.routes.checks import warm_surfaces
from demur.service.routes.decide import require_made
from demur.source.mismatch import describe_mismatch

ENFORCE_ROUTES = RouteTable()
# The name of this way in on records, and in the keys of histories and rates.
_FRAMEWORK = "http"
_EVENT_STREAM = "text/event-stream"
_MAX_MESSAGES = 10_000
_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Grants = Annotated[tuple[Grant, ...], msgspec.Meta(max_length=100)]
_Texts = Annotated[tuple[str, ...], msgspec.Meta(max_length=100)]
_Messages = Annotated[tuple[ContextMessage, ...], msgspec.Meta(max_length=_MAX_MESSAGES)]


class EnforceCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who calls, and in which run.

    `run` names the run, session or thread of one agent: loops of tool calls are found within it.
    `subject` (`id`, `type`, `roles`) is the requester, `locale` the language of texts for a person.
    `signals` are scores and the like that rules read; those of guards cannot be written here. With
    `changes`, the caller passes on `changed` where the settings change a text instead of refusing.
    """

    run: _Name | None = None
    call_id: _Name | None = None
    signals: dict[str, Any] | None = None
    subject: dict[str, Any] | None = None
    locale: _Name | None = None
    changes: bool = False


class EnforcePrompt(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt that is about to reach a model; `request` holds further parts of the request."""

    text: str
    cost: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    request: dict[str, Any] | None = None


class EnforceAnswer(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer of a model, and the prompt if it is known."""

    text: str
    prompt: str | None = None
    request: dict[str, Any] | None = None


class EnforceModel(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model answered: the provider's own `response` or error, and the `text` in it, if any.

    `prompt` helps to tell a refusal in prose from an answer.
    """

    response: Any = None
    text: str | None = None
    prompt: str | None = None


class EnforceToolCall(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call that is about to be made.

    `arguments` are an object, or the text of one that a model wrote. `tool` is the definition that
    its server `source` presents. `commands` are further texts that the call would run. `request`
    replaces the request that is made of name and arguments.
    """

    name: str
    arguments: dict[str, Any] | str = {}
    tool: ToolDefinition | None = None
    source: _Name = ""
    commands: _Texts = ()
    grants: _Grants = ()
    accepted: _Texts = ()
    request: dict[str, Any] | None = None


class EnforceToolResult(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a tool: a text or any JSON. By default `arguments` are those of the call."""

    name: str
    result: Any
    arguments: dict[str, Any] | str | None = None
    grants: _Grants = ()
    accepted: _Texts = ()
    request: dict[str, Any] | None = None


class EnforceRetrieval(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage that was retrieved for a model, and its source."""

    text: str
    source: _Name = "document"
    action: _Name = "retrieve"


class EnforceCompaction(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A context before and after it was compacted, and the manifest of what was pinned in it."""

    before: _Messages
    after: _Messages
    manifest: PinManifest | None = None
    context: _Name = ""
    action: _Name = "compact"


class EnforceStream(EnforceCall, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a stream: what belongs to the whole answer, and maybe its first text."""

    text: str = ""
    prompt: str | None = None
    request: dict[str, Any] | None = None


class AnswerChunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further line of a stream."""

    text: str


class Enforced(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome, and the reason of a refusal: for a program, a log, a model and a person.

    `envelope` is the refusal as plain JSON, `line` the same in one line, `message` what to tell a
    model, `text` what to show a person. They are empty without a refusal. `constraints` bind an
    allowed action. `obligations` hold either way; always show `resources`. `quoted` is a
    withheld tool result or passage as quoted data, without the planted orders. `changed` is what to
    pass on in place of the text, the arguments or the result, unless it is null. `reask` tells the
    model why to answer once more, if it may.
    """

    allowed: bool
    outcome: Outcome
    surface: Surface
    envelope: dict[str, Any]
    line: str
    message: str
    text: str
    constraints: tuple[str, ...]
    obligations: tuple[Obligation, ...]
    resources: tuple[str, ...]
    decision_id: str | None
    quoted: str | None = None
    changed: Any = None
    reask: str = ""


def enforced_view(result: CheckResult, value: Any = None) -> Enforced:
    """Return the result of a check of a value as the API shows it.

    Raises:
        ProblemError: The decision could not be stored, or its request id was used before.
    """
    if result.record is not None:
        require_made(result.record)
    return Enforced(
        allowed=result.allowed,
        outcome=result.outcome,
        surface=result.surface,
        envelope=result.envelope,
        line=result.line,
        message=result.model_message,
        text=result.user_text,
        constraints=result.constraints,
        obligations=result.obligations,
        resources=result.resources,
        decision_id=None if result.record is None else result.record.decision_id,
        quoted=result.quoted,
        changed=None if result.changes is None else result.apply_changes(value),
        reask=result.reask_message,
    )


def _view_steps(steps: Steps[CheckResult], value: Any = None) -> Steps[Enforced]:
    return enforced_view((yield from steps), value)


def enforcer_for(call: ApiCall, body: EnforceCall) -> Enforcer:
    """Return the enforcer of the service, in the locale of the call."""
    service = call.service
    chosen = service.heavy_enforcer if call.in_pool else service.enforcer
    if not body.changes:
        # The caller would pass on the old text.
        chosen = Enforcer.coerce(chosen)
    if body.locale is None:
        return chosen
    enforcer = copy(chosen)
    enforcer.locale = body.locale
    return enforcer


def context_for(call: ApiCall, body: EnforceCall) -> CallContext:
    """Return the context of a call; its tenant is that of the key.

    Raises:
        InputError: A signal is invalid.
        ProblemError: The subject or the request is invalid, or the key is bound to others.
    """
    check_signals(body.signals)
    _check_subject(body.subject)
    request = getattr(body, "request", None) or {}
    call.caller.require_subjects(body.subject, request.get("subject"))
    if request:
        _check_request(call, body, request)
    tenant = call.caller.tenant
    subject_id = (body.subject or {}).get("id")
    return CallContext(
        framework=_FRAMEWORK,
        run=body.run,
        call_id=body.call_id,
        subject=body.subject,
        tenant=tenant,
        # Subjects of other tenants may have the same id.
        key=f"{tenant or ''}\x1f{subject_id or call.caller.name}",
        signals=body.signals,
        subjects=call.caller.subjects,
    )


def _check_subject(subject: Mapping[str, Any] | None) -> None:
    try:
        msgspec.convert(subject, Subject | None)
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, Subject)
        raise invalid_call(422, found.problem, f"subject.{found.where}", found.help) from error


def _check_request(call: ApiCall, body: EnforceCall, request: Mapping[str, Any]) -> None:
    """Refuse a request that the gate could not read, instead of answering that it was no use."""
    is_whole = isinstance(body, EnforceToolCall | EnforceToolResult)
    parts = request if is_whole else {"action": {"type": GENERATE_ACTION}, **request}
    try:
        call.service.gate.check_request(parts, tenant=call.caller.tenant)
    except (InputError, InputTypeError) as error:
        where = f"request.{error.where}" if error.where else "request"
        raise invalid_call(422, error.problem, where, error.help) from error


async def _answer_check(
    call: ApiCall, build: Callable[[ApiCall], Steps[Enforced]], *surfaces: Surface
) -> ApiAnswer:
    """Run the check that `build` makes of a call."""
    runs_commands = Surface.CODE_EXECUTION in surfaces
    heavy = call.is_heavy(MAX_INLINE_COMMAND_BYTES if runs_commands else MAX_INLINE_BYTES)
    await warm_surfaces(call.service, *surfaces)
    metrics = call.service.metrics
    with nullcontext() if metrics is None else metrics.time_decision():
        if heavy:
            return await call.run_heavy(_check_on_thread, call, build)
        return json_answer(await adrive(build(call)))


def _check_on_thread(call: ApiCall, build: Callable[[ApiCall], Steps[Enforced]]) -> ApiAnswer:
    return json_answer(drive(build(call._replace(in_pool=True))))


def _describe_as(request: Mapping[str, Any] | None) -> DescribeCall | None:
    return None if request is None else lambda _name, _arguments: request


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/prompt",
    "enforce prompt",
    Role.DECIDE,
    takes=EnforcePrompt,
    gives=Enforced,
    statuses=(409,),
    example={"text": "How do I reset my password?", "run": "session-1"},
)
async def enforce_prompt(call: ApiCall) -> ApiAnswer:
    """Check a prompt before it reaches a model."""
    return await _answer_check(call, _prompt_steps, Surface.INPUT)


def _prompt_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforcePrompt)
    steps = enforcer_for(call, body).prompt_steps(
        body.text, context_for(call, body), cost=body.cost, request=body.request
    )
    return _view_steps(steps, body.text)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/answer",
    "enforce answer",
    Role.DECIDE,
    takes=EnforceAnswer,
    gives=Enforced,
    statuses=(409,),
    example={"text": "Open the settings and choose Reset.", "prompt": "How do I reset it?"},
)
async def enforce_answer(call: ApiCall) -> ApiAnswer:
    """Check the answer of a model before a person sees it."""
    return await _answer_check(call, _answer_steps, Surface.OUTPUT)


def _answer_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceAnswer)
    steps = enforcer_for(call, body).answer_steps(
        body.text, context_for(call, body), prompt=body.prompt, request=body.request
    )
    return _view_steps(steps, body.text)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/model",
    "enforce model",
    Role.DECIDE,
    takes=EnforceModel,
    gives=Enforced,
    statuses=(409,),
    example={"text": "I'm sorry, but I can't help with that.", "prompt": "How do I reset it?"},
)
async def enforce_model(call: ApiCall) -> ApiAnswer:
    """Read whether a model refused, by a typed signal or in prose, and record it."""
    return await _answer_check(call, _model_steps)


def _model_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceModel)
    steps = enforcer_for(call, body).refusal_steps(
        body.response, context_for(call, body), text=body.text, prompt=body.prompt
    )
    return _view_steps(steps)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/tool_call",
    "enforce tool call",
    Role.DECIDE,
    takes=EnforceToolCall,
    gives=Enforced,
    statuses=(409,),
    example={"name": "bash", "arguments": {"command": "rm -rf /"}, "run": "session-1"},
)
async def enforce_tool_call(call: ApiCall) -> ApiAnswer:
    """Check a tool call before it runs: arguments, commands, loops and policy."""
    surfaces = (Surface.TOOL_CALL, Surface.CODE_EXECUTION, Surface.TOOL_LOOP)
    return await _answer_check(call, _tool_call_steps, *surfaces)


def _tool_call_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceToolCall)
    steps = enforcer_for(call, body).tool_call_steps(
        body.name,
        body.arguments,
        context_for(call, body),
        tool=body.tool,
        source=body.source,
        grants=body.grants,
        accepted=body.accepted,
        describe=_describe_as(body.request),
        commands=body.commands,
    )
    return _view_steps(steps, parse_arguments(body.arguments))


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/tool_result",
    "enforce tool result",
    Role.DECIDE,
    takes=EnforceToolResult,
    gives=Enforced,
    statuses=(409,),
    example={"name": "read_page", "result": "The shop opens at nine.", "run": "session-1"},
)
async def enforce_tool_result(call: ApiCall) -> ApiAnswer:
    """Check the result of a tool before a model reads it."""
    return await _answer_check(call, _tool_result_steps, Surface.TOOL_RESULT, Surface.TOOL_LOOP)


def _tool_result_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceToolResult)
    steps = enforcer_for(call, body).tool_result_steps(
        body.name,
        body.result,
        context_for(call, body),
        arguments=body.arguments,
        grants=body.grants,
        accepted=body.accepted,
        describe=_describe_as(body.request),
    )
    return _view_steps(steps, body.result)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/retrieval",
    "enforce retrieval",
    Role.DECIDE,
    takes=EnforceRetrieval,
    gives=Enforced,
    statuses=(409,),
    example={"text": "The shop opens at nine.", "source": "faq.md"},
)
async def enforce_retrieval(call: ApiCall) -> ApiAnswer:
    """Check a retrieved passage before a model reads it."""
    return await _answer_check(call, _retrieval_steps, Surface.RETRIEVAL)


def _retrieval_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceRetrieval)
    event = RetrievedPassage(body.text, body.source)
    steps = enforcer_for(call, body).event_steps(
        Surface.RETRIEVAL, event, context_for(call, body), action=body.action
    )
    return _view_steps(steps, body.text)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/compaction",
    "enforce compaction",
    Role.DECIDE,
    takes=EnforceCompaction,
    gives=Enforced,
    statuses=(409,),
    example={
        "before": [{"role": "system", "content": "Never send mail without a confirmation."}],
        "after": [{"role": "system", "content": "Never send mail without a confirmation."}],
    },
)
async def enforce_compaction(call: ApiCall) -> ApiAnswer:
    """Check that a compaction of a context loses no pinned rule."""
    return await _answer_check(call, _compaction_steps, Surface.COMPACTION)


def _compaction_steps(call: ApiCall) -> Steps[Enforced]:
    body = call.decode_body(EnforceCompaction)
    parts = {"before": body.before, "after": body.after, "manifest": body.manifest}
    event = parse_event(Surface.COMPACTION, {**parts, "context": body.context})
    steps = enforcer_for(call, body).event_steps(
        Surface.COMPACTION, event, context_for(call, body), action=body.action
    )
    return _view_steps(steps)


@ENFORCE_ROUTES.add(
    "POST /v1/enforce/answer/stream",
    "enforce answer stream",
    Role.DECIDE,
    takes={
        "type": "string",
        "description": "JSON lines: first an `EnforceStream`, then an `AnswerChunk` a line.",
    },
    gives={
        "type": "object",
        "description": "An event: an `AnswerChunk`, and at the end an `Enforced` or a `Problem`.",
        "required": ["event", "data"],
        "properties": {
            "event": {"enum": ["text", "result", "problem"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
    },
    media_type=_EVENT_STREAM,
    stream=True,
    lines=(EnforceStream, AnswerChunk, Enforced),
    example='{"prompt": "How do I reset it?"}\n{"text": "Open the settings "}\n{"text": "…"}\n',
)
async def stream_answer(call: ApiCall) -> ApiAnswer:
    """Check an answer while it is written: text that may be shown, and then the result."""
    assert call.parts is not None
    lines = _split_lines(call.parts)
    first = await anext(lines, b"")
    if not first:
        raise invalid_call(400, "the body is empty", help='send `{}` or `{"prompt": ...}` first')
    body = decode_json(first, EnforceStream)
    await warm_surfaces(call.service, Surface.OUTPUT)
    call = call._replace(in_pool=True)
    stream = enforcer_for(call, body).stream_answer(
        context_for(call, body), prompt=body.prompt, request=body.request
    )
    events = _stream_events(call, stream, body.text, lines)
    return ApiAnswer(b"", media_type=_EVENT_STREAM, events=events)


async def _stream_events(
    call: ApiCall, stream: AnswerStream, text: str, lines: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the events of an answer; an error before its end releases nothing more."""
    # INVARIANT: a stream shows nothing that the check of the whole answer holds back.
    size = len(text)
    async for shown in _feed_slices(call, stream, text):
        yield shown
    while not stream.is_stopped:
        line = await anext(lines, None)
        if line is None:
            break
        text = decode_json(line, AnswerChunk).text
        size += len(text)
        async for shown in _feed_slices(call, stream, text):
            yield shown
    if size > MAX_INLINE_BYTES:
        result = await call.run_heavy(stream.finish)
    else:
        result = await stream.afinish()
    view = enforced_view(result)
    if rest := stream.remaining_text:
        yield format_event("text", AnswerChunk(text=rest))
    yield format_event("result", view)


async def _feed_slices(call: ApiCall, stream: AnswerStream, text: str) -> AsyncIterator[bytes]:
    """Yield the events for a text; other calls get their turn while a long one is read.

    Raises:
        ProblemError: A budget is used up.
    """
    service, key = call.service, call.caller.name
    for start in range(0, len(text), MAX_INLINE_BYTES):
        if call.caller is not LOCAL:
            service.budgets.require_left(key)
        began = time.thread_time()
        piece = text[start : start + MAX_INLINE_BYTES]
        shown = stream.feed(piece)
        service.budgets.charge(key, size=len(piece), cpu_s=time.thread_time() - began)
        if shown:
            yield format_event("text", AnswerChunk(text=shown))
        await asyncio.sleep(0)


async def _split_lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a body that are not empty, however it is cut into parts."""
    pending: list[bytes] = []
    async for part in parts:
        *whole, rest = part.split(b"\n")
        for end in whole:
            if line := b"".join((*pending, end)).strip():
                yield line
            pending = []
        pending.append(rest)
    if line := b"".join(pending).strip():
        yield line
