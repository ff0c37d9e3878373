"""How chat models of LangChain represent requests, answers, streams and refusals."""

import json
from collections.abc import (
    AsyncIterator,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from demur.enforce.changes import TextChanges
from demur.enforce.result import CheckResult
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    NewTurn,
    ToolOutput,
    list_texts,
    simplify_tool_output,
)
from demur.integrations._kit.guarded_response import (
    AnswerType,
    ApiFormat,
    AsyncSdkStreamProxy,
    SdkStreamProxy,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    ModelClientSettings,
    OpenStream,
    OutgoingRequest,
    read_trace,
)
from demur.integrations._kit.stream_filter import EventPortion, EventStreamFilter, PartText
from demur.integrations.langchain.messages import (
    build_refusal_answer,
    content_text,
    is_refused,
    mark_declined,
)
from demur.integrations.langchain.streaming import chunk_text
from demur.model.refusal import Refusal
from demur.providers.normalization import StreamReader, normalize

_OPERATOR_ROLES = {"system", "developer"}
# Token log probabilities would spell the text that is held back.
_LOGPROBS = "logprobs"


class LangChainFormat(ApiFormat):
    """Reads and writes the messages and results of chat models."""

    def __init__(self, settings: ModelClientSettings, *, is_structured: bool = False) -> None:
        proxies = (_ChunkStream, _AsyncChunkStream)
        super().__init__(settings, (Iterator, AsyncIterator), proxies)
        self.settings = settings
        self._is_structured = is_structured

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request."""
        entries = body["messages"]
        messages = (one["message"] for one in entries)
        calls = {call["id"]: call for one in messages for call in getattr(one, "tool_calls", ())}
        reader = MessageReader(_is_answer, _is_operator, partial(_read_message, calls))
        return self.read_new_turn(entries, reader)

    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more message of the user."""
        return {**body, "messages": [*body["messages"], *list_entries([HumanMessage(text)])]}

    def change_texts(self, response: Any, changes: TextChanges) -> Any:
        """Return a result with changed texts."""
        generations = []
        for one in response.generations:
            fields = {"content": changes.apply(one.message.content)}
            if self._is_structured:
                fields["tool_calls"] = changes.apply(one.message.tool_calls)
            message = one.message.model_copy(update=fields)
            metadata = message.response_metadata
            message.response_metadata = {k: v for k, v in metadata.items() if k != _LOGPROBS}
            generations.append(ChatGeneration(message=message))
        return response.model_copy(update={"generations": generations})

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a result."""
        return [self._read_choice(one.message) for one in response.generations]

    def _read_choice(self, message: Any) -> AnswerChoice:
        calls = getattr(message, "tool_calls", ())
        texts = list_texts(message.content)
        if self._is_structured:
            # The structured answer may be the arguments of a call.
            texts += tuple(json.dumps(one["args"], ensure_ascii=False) for one in calls)
        return AnswerChoice(message, texts, bool(calls), _read_refusal_text(message))

    def answer_type(self, request: OutgoingRequest) -> AnswerType:  # noqa: ARG002 - part of the protocol
        """Return the type of results."""
        return AnswerType(ChatResult, "generations")

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the protocol
        """Return a result that refuses."""
        return ChatResult(generations=[ChatGeneration(message=build_refusal_answer(result))])

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a result with these choices replaced by refusals."""
        generations = list(response.generations)
        for number, result in refused.items():
            answer = build_refusal_answer(result, generations[number].message)
            generations[number] = ChatGeneration(message=answer)
        return response.model_copy(update={"generations": generations})

    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Iterable[Any]:
        """Return the chunk of a refusing stream."""
        return self.event_format(request).build_refusal_events(0, result, result.user_text)

    def event_format(self, request: OutgoingRequest) -> "_ChunkFormat":  # noqa: ARG002 - part of the protocol
        """Return the format of the chunks of one stream."""
        return _ChunkFormat()

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared chunks."""
        event_filter = _ChunkStreamFilter(self.event_format(request), opened, self.settings)
        return self._stream_proxy(opened.stream, event_filter)


def list_entries(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Return the messages of a request, each beside its content, which may be changed."""
    return [{"content": one.content, "message": one} for one in messages]


def read_messages(body: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the messages of a request with their changed contents."""
    return [
        message if content is message.content else message.model_copy(update={"content": content})
        for content, message in ((one["content"], one["message"]) for one in body["messages"])
    ]


def _is_answer(entry: Any) -> bool:
    message = entry["message"]
    # demur's own refusal does not answer the messages before it.
    return isinstance(message, AIMessage) and not is_refused(message)


def _is_operator(entry: Any) -> bool:
    message = entry["message"]
    if isinstance(message, ChatMessage):
        return message.role in _OPERATOR_ROLES
    return isinstance(message, SystemMessage)


def _read_message(calls: Mapping[Any, Any], entry: Any) -> MessageContent:
    content, message = entry["content"], entry["message"]
    if not isinstance(message, ToolMessage | FunctionMessage):
        return MessageContent((content_text(content),))
    call_id = getattr(message, "tool_call_id", None)
    call = calls.get(call_id, {})
    name = call.get("name") or message.name or "tool"
    result = simplify_tool_output(content)
    return MessageContent(tool_outputs=(ToolOutput(name, result, call_id, call.get("args")),))


def _read_refusal_text(message: Any) -> str:
    words = message.additional_kwargs.get("refusal")
    return words if isinstance(words, str) else ""


class _ChunkFormat:
    """Chunks of a model: one answer, of one part for each content block."""

    def __init__(self) -> None:
        self._last = AIMessageChunk(content="")
        self._blocks: dict[Hashable, dict[str, Any]] = {}

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether a chunk only adds text."""
        message = event.message
        extra = message.additional_kwargs or message.response_metadata or event.generation_info
        return isinstance(message.content, str) and not extra and not _list_calls(message)

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of a chunk."""
        message = self._last = event.message
        part = self._read_part(message.content)
        words = _read_refusal_text(message)
        return [
            EventPortion(
                event,
                part=part,
                text=chunk_text(message.content),
                whole_texts=(PartText("refusal", words),) if words else (),
                has_calls=bool(_list_calls(message)),
                is_last=getattr(message, "chunk_position", None) == "last",
            )
        ]

    def _read_part(self, content: Any) -> Hashable:
        """Return the part that a content adds to, and keep what its text blocks look like."""
        blocks = [] if isinstance(content, str) else content
        for block in blocks:
            if isinstance(block, dict) and chunk_text([block]):
                part = block.get("index", 0)
                kept = {key: block[key] for key in ("type", "index", "id") if key in block}
                self._blocks[part] = {"type": "text", **kept}
                return cast("Hashable", part)
        return None

    def strip_text(self, event: Any) -> Any | None:
        """Return a chunk without its text; None if nothing else is in it."""
        message, content = event.message, event.message.content
        left = "" if isinstance(content, str) else [b for b in content if not chunk_text([b])]
        metadata, info = (
            {key: value for key, value in (fields or {}).items() if key != _LOGPROBS}
            for fields in (message.response_metadata, event.generation_info)
        )
        others = (left, metadata, info, message.additional_kwargs, _list_calls(message))
        if not any((*others, message.usage_metadata, message.chunk_position)):
            return None
        bare = message.model_copy(update={"content": left, "response_metadata": metadata})
        return ChatGenerationChunk(message=bare, generation_info=info or None)

    def note_sent(self, event: Any) -> None:
        """Do nothing: chunks open nothing that would have to be closed."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a part."""
        block = self._blocks.get(part)
        content: Any = text if block is None else [{**block, "text": text}]
        return ChatGenerationChunk(message=AIMessageChunk(content=content, id=self._last.id))

    def build_refusal_events(
        self,
        answer: Hashable,  # noqa: ARG002 - part of the protocol
        result: CheckResult,
        words: str,
    ) -> Sequence[Any]:
        """Return the chunk that ends an answer with a refusal."""
        refusal = build_refusal_answer(result)
        content: Any = words if isinstance(self._last.content, str) else _text_blocks(words)
        message = AIMessageChunk(
            content=content,
            id=self._last.id,
            response_metadata=refusal.response_metadata,
            additional_kwargs=refusal.additional_kwargs,
            chunk_position="last",
        )
        return [ChatGenerationChunk(message=message)]

    def is_complete(
        self,
        refused: Collection[Hashable],  # noqa: ARG002 - part of the protocol
        ended: Collection[Hashable],  # noqa: ARG002 - part of the protocol
    ) -> bool:
        """Return True: a stream has one answer."""
        return True


def _list_calls(message: Any) -> list[Any]:
    chunks = getattr(message, "tool_call_chunks", None)
    return list(chunks or getattr(message, "tool_calls", None) or ())


def _text_blocks(text: str) -> list[Any]:
    return [{"type": "text", "text": text}]


class _ChunkReader(StreamReader):
    """Finds a refusal in chunks; their metadata say how the answer ended."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[AIMessageChunk] = []

    def feed(self, event: Any) -> "StreamReader":
        """Feed one chunk and return the reader."""
        message = event.message
        if isinstance(message, AIMessageChunk):
            info = {**(event.generation_info or {}), **message.response_metadata}
            self._chunks.append(message.model_copy(update={"response_metadata": info}))
        return self

    @property
    def refusal(self) -> Refusal | None:
        """The refusal in the chunks so far, or None."""
        return normalize(add_ai_message_chunks(*self._chunks)) if self._chunks else None


class _ChunkStreamFilter(EventStreamFilter):
    """Takes the chunks of one stream and returns those that are cleared."""

    def __init__(
        self, event_format: _ChunkFormat, opened: OpenStream, settings: ModelClientSettings
    ) -> None:
        super().__init__(event_format, opened, settings)
        self._reader = _ChunkReader()


class _ChunkStream(SdkStreamProxy):
    """A filtered stream; iterators other than generators cannot be closed."""

    def _close_source(self) -> None:
        if hasattr(self._inner, "close"):
            self._inner.close()


class _AsyncChunkStream(AsyncSdkStreamProxy):
    """The async variant of `_ChunkStream`."""

    async def _close_source(self) -> None:
        if hasattr(self._inner, "aclose"):
            await self._inner.aclose()


def mark_declined_answers(result: ChatResult) -> ChatResult:
    """Return the result; answers in which the model or its provider refused get metadata."""
    trace = read_trace(result)
    results = trace.attempts[-1].results if trace is not None and trace.attempts else ()
    for generation, checked in zip(result.generations, results, strict=False):
        message = generation.message
        if isinstance(message, AIMessage) and not checked.allowed and not is_refused(message):
            generation.message = mark_declined(message, checked)
    return result


def list_marks(stream: Any) -> list[ChatGenerationChunk]:
    """Return the chunk that says that the model refused, if it did and demur did not."""
    trace = read_trace(stream)
    if trace is None or not trace.attempts or (trace.answer and not trace.answer.allowed):
        return []
    result = trace.attempts[-1].result
    if result is None or result.allowed:
        return []
    metadata = {"refusal": result.envelope}
    return [ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata=metadata))]
