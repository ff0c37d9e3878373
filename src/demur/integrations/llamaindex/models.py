"""Guarded models: a class derived from the model's own checks each call, streams too.

LlamaIndex has no hook that can refuse: its instrumentation swallows every error. All its parts
call a model by the eight methods that are overridden here.
"""

import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from types import new_class
from typing import Any, Protocol, TypeAlias

from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse

from demur.enforce.context import Steps, adrive, drive
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream
from demur.integrations._kit.conversation import get_field, list_entries

GUARD_ATTRIBUTE = "_demur_guard"
Response: TypeAlias = ChatResponse | CompletionResponse
# The messages of a chat, or the text of a completion.
ModelInput: TypeAlias = Sequence[ChatMessage] | str
# What a model may read, and the refusal in its place, if any.
CheckedInput: TypeAlias = tuple[ModelInput, Response | None]
# Calls the model itself.
ModelCall = Callable[[ModelInput], Any]
# Many models answer one method by another one: only the outermost call is checked.
_IS_NESTED: ContextVar[bool] = ContextVar("demur_llamaindex_nested", default=False)
_END = object()
_as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


class ModelChecks(Protocol):
    """The checks of a model's calls."""

    def model_steps(self, call: ModelCall, given: ModelInput) -> Steps[Response]:
        """Check a prompt, call the model, and return its answer or a refusal."""

    def prompt_steps(self, given: ModelInput) -> Steps[CheckedInput]:
        """Check what the model reads for the first time."""

    def error_steps(self, error: Exception, given: ModelInput) -> Steps[Response | None]:
        """Return the refusal that a provider's error stands for, or None."""

    def open_stream(self, given: ModelInput) -> "ResponseFilter":
        """Return the filter of a stream."""


def derive_class(base: Any, members: dict[str, Any]) -> Any:
    """Return a subclass of a framework's class with these members."""
    return new_class(base.__name__, (base,), exec_body=lambda space: space.update(members))


def guard_object(target: Any, derive: Callable[[Any], Any], guard: Any) -> None:
    """Make an object one of the derived class; a guard that it already has is replaced."""
    base = type(target)
    if GUARD_ATTRIBUTE not in vars(target):
        object.__setattr__(target, "__class__", derive(base))
    object.__setattr__(target, GUARD_ATTRIBUTE, guard)


@cache
def derive_model(base: Any) -> Any:
    """Return the class of a guarded model."""
    forms = {"": _call, "a": _acall, "stream_": _stream, "astream_": _astream}
    members = {}
    for prefix, form in forms.items():
        for name in (f"{prefix}chat", f"{prefix}complete"):
            members[name] = _override(form, getattr(base, name), name)
    return derive_class(base, members)


def _override(form: Callable[..., Any], original: Callable[..., Any], name: str) -> Any:
    def run(self: Any, given: ModelInput, settings: dict[str, Any]) -> Any:
        call = partial(original, self, **settings)
        if _IS_NESTED.get():
            return call(given)
        return form(getattr(self, GUARD_ATTRIBUTE), call, given)

    def complete(self: Any, prompt: str, formatted: bool = False, **settings: Any) -> Any:  # noqa: FBT001, FBT002 - as the framework has it
        return run(self, prompt, {"formatted": formatted, **settings})

    def chat(self: Any, messages: Sequence[ChatMessage], **settings: Any) -> Any:
        return run(self, messages, settings)

    method = complete if name.endswith("complete") else chat
    method.__name__ = name
    # The model's own method opens the span of the call.
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


@contextmanager
def _mark_nested() -> Iterator[None]:
    token = _IS_NESTED.set(True)
    try:
        yield
    finally:
        _IS_NESTED.reset(token)


def _call(guard: ModelChecks, run: ModelCall, given: ModelInput) -> Any:
    with _mark_nested():
        return drive(guard.model_steps(run, given))


async def _acall(guard: ModelChecks, run: ModelCall, given: ModelInput) -> Any:
    with _mark_nested():
        return await adrive(guard.model_steps(run, given))


def _stream(guard: ModelChecks, run: ModelCall, given: ModelInput) -> Any:
    given, refused = drive(guard.prompt_steps(given))
    return _iter_chunks(guard, run, given) if refused is None else iter([refused])


async def _astream(guard: ModelChecks, run: ModelCall, given: ModelInput) -> Any:
    given, refused = await adrive(guard.prompt_steps(given))
    return _aiter_chunks(guard, run, given) if refused is None else _aiter([refused])


async def _aiter(chunks: Sequence[Response]) -> AsyncGenerator[Any, None]:
    for chunk in chunks:
        yield chunk


def _iter_chunks(
    guard: ModelChecks, run: ModelCall, given: ModelInput, *, is_first: bool = True
) -> Generator[Any, None, None]:
    chunks = guard.open_stream(given)
    try:
        with _mark_nested():
            source = run(given)
        while not chunks.stream.is_stopped:
            with _mark_nested():
                chunk = next(source, _END)
            if chunk is _END:
                break
            yield from chunks.feed(chunk)
    except Exception as error:
        refused = drive(guard.error_steps(error, given))
        if refused is None:
            raise
        yield refused
        return
    if chunks.stream.is_stopped:
        source.close()
    rest: Any = drive(chunks.finish_steps())
    if chunks.reask_message and is_first:
        again = add_message(given, chunks.reask_message)
        rest = _iter_chunks(guard, run, again, is_first=False)
    yield from rest


async def _aiter_chunks(
    guard: ModelChecks, run: ModelCall, given: ModelInput, *, is_first: bool = True
) -> AsyncGenerator[Any, None]:
    chunks = guard.open_stream(given)
    try:
        with _mark_nested():
            source = await run(given)
        while not chunks.stream.is_stopped:
            with _mark_nested():
                chunk = await anext(source, _END)
            if chunk is _END:
                break
            for shown in chunks.feed(chunk):
                yield shown
    except Exception as error:
        refused = await adrive(guard.error_steps(error, given))
        if refused is None:
            raise
        yield refused
        return
    if chunks.stream.is_stopped:
        await source.aclose()
    rest = _aiter(await adrive(chunks.finish_steps()))
    if chunks.reask_message and is_first:
        again = add_message(given, chunks.reask_message)
        rest = _aiter_chunks(guard, run, again, is_first=False)
    async for shown in rest:
        yield shown


@dataclass
class ResponseFilter:
    """Filters the chunks of one stream; tool calls leave with the last chunk only.

    `reask_message` is what to ask the model for, if it may answer once more.
    """

    stream: AnswerStream
    check_response: Callable[[Response], Steps[CheckResult]]
    mark_declined: Callable[[Response, str], Steps[Response]]
    refuse: Callable[[CheckResult], Response]
    last: Any = None
    shown: str = ""
    reask_message: str = ""

    def feed(self, chunk: Any) -> Iterator[Any]:
        """Yield the text of a chunk that may be shown now."""
        self.last = chunk
        cleared = self.stream.feed(chunk.delta or "")
        self.shown += cleared
        if cleared:
            yield _replace_text(chunk, self.shown, cleared, only_text=True)

    def finish_steps(self) -> Steps[list[Any]]:
        """Return the last chunk: with the rest of the text, or with the refusal."""
        if self.last is None:
            return []
        if not self.stream.text:
            # Some models give the whole text, and no deltas.
            self.shown += self.stream.feed(response_text(self.last))
        result = yield from self.check_response(self.last)
        rest = "\n\n" * bool(self.shown) + result.user_text
        if result.allowed:
            result = yield from self.stream.finish_steps()
            rest = self.stream.remaining_text
        if result.may_reask and not self.shown:
            self.reask_message = result.reask_message
        if not result.allowed:
            return [self.refuse(result).model_copy(update={"delta": rest})]
        text = self.shown + rest
        whole = _replace_text(self.last, text, rest, keeps_raw=result.changes is None)
        return [(yield from self.mark_declined(whole, text))]


def response_text(response: Response) -> str:
    """Return the text of a response."""
    if isinstance(response, CompletionResponse):
        return response.text
    return message_text(response.message)


def message_text(message: ChatMessage) -> str:
    """Return the text of a message."""
    return message.content or ""


def call_arguments(response: Response) -> str:
    """Return the arguments of the tool calls in a response, as JSON."""
    if isinstance(response, CompletionResponse):
        return ""
    message = response.message
    found = [one.tool_kwargs for one in message.blocks if isinstance(one, ToolCallBlock)]
    # Where some models keep their calls instead.
    listed = list_entries(message.additional_kwargs.get("tool_calls"))
    found += [get_field(get_field(one, "function"), "arguments") for one in listed]
    return "\n".join(one if isinstance(one, str) else _as_json(one) for one in found if one)


def last_prompt(given: ModelInput) -> str | None:
    """Return the text of the last message of a user."""
    if isinstance(given, str):
        return given
    messages: Any = given
    said = (message_text(one) for one in reversed(messages) if one.role == "user")
    return next(said, None)


def add_message(given: ModelInput, text: str) -> ModelInput:
    """Return the input of a model with another message of the user."""
    if isinstance(given, str):
        return f"{given}\n\n{text}"
    return [*given, ChatMessage(text, role="user")]


def change_input(given: ModelInput, result: CheckResult) -> ModelInput:
    """Return the input of a model with the texts of the user as they may go on."""
    if isinstance(given, str):
        return str(result.apply_changes(given))
    messages: Any = given
    return [_change_message(one, result) if one.role == "user" else one for one in messages]


def _change_message(message: ChatMessage, result: CheckResult) -> ChatMessage:
    blocks = [
        TextBlock(text=result.apply_changes(one.text)) if isinstance(one, TextBlock) else one
        for one in message.blocks
    ]
    return message.model_copy(update={"blocks": blocks})


def replace_text(response: Response, text: str, *, keeps_raw: bool) -> Response:
    """Return a response with another text; `raw` is what the provider said."""
    return _replace_text(response, text, response.delta, keeps_raw=keeps_raw)


def _replace_text(
    response: Response,
    text: str,
    delta: str | None,
    *,
    only_text: bool = False,
    keeps_raw: bool = False,
) -> Response:
    # What the provider said is passed on with the last chunk.
    update: dict[str, Any] = {"delta": delta, **({} if keeps_raw else {"raw": None})}
    if isinstance(response, CompletionResponse):
        return response.model_copy(update={**update, "text": text})
    message = response.message
    blocks = [one for one in message.blocks if not isinstance(one, TextBlock) and not only_text]
    more: dict[str, Any] = {"additional_kwargs": {}} if only_text else {}
    shown = [TextBlock(text=text)] if text else []
    message = message.model_copy(update={"blocks": [*shown, *blocks], **more})
    return response.model_copy(update={**update, "message": message})


def build_refusal_answer(refusal: dict[str, Any], given: ModelInput) -> Response:
    """Return a refusal as an answer: its `text`, `line` and `envelope`.

    Programs find the envelope in `raw["refusal"]`.
    """
    text, raw = refusal["text"], {"refusal": refusal["envelope"]}
    if isinstance(given, str):
        return CompletionResponse(text=text, delta=text, raw=raw)
    message = ChatMessage(text, role="assistant", additional_kwargs={"refusal": refusal["line"]})
    return ChatResponse(message=message, delta=text, raw=raw)
