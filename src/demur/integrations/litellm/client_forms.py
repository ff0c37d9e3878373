"""LiteLLM's chats and responses for a guarded client: OpenAI's forms in types of LiteLLM."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from litellm.exceptions import MidStreamFallbackError
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.responses.streaming_iterator import (
    ResponsesAPIStreamingIterator,
    SyncResponsesAPIStreamingIterator,
)
from litellm.types.llms.openai import (
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponsesAPIResponse,
)
from litellm.types.utils import Delta, ModelResponse, ModelResponseStream, StreamingChoices
from openai.types.responses import ResponseOutputMessage

from demur.enforce.ruling import CheckResult
from demur.integrations.litellm.reading import as_json, list_substitutes
from demur.integrations.model_client.chat_form import (
    ChatFormat,
    ChatTypes,
    build_refusal_message,
    read_choice,
)
from demur.integrations.model_client.chat_stream import ChatStreamFormat, ChunkTypes
from demur.integrations.model_client.form import OutgoingRequest, AnswerChoice
from demur.integrations.model_client.held import EventPortion
from demur.integrations.model_client.owned import unchecked_error
from demur.integrations.model_client.responses_form import ResponsesFormat, ResponsesTypes
from demur.integrations.model_client.responses_made import ResponseBuilder
from demur.integrations.model_client.settings import ModelClientSettings
from demur.integrations.model_client.stream import AsyncSdkStreamProxy, SdkStreamProxy
from demur.integrations.model_client.turn import NewTurn, get_field, join_texts

__all__ = ["LiteLLMChatFormat", "LiteLLMResponsesFormat", "find_served_model"]

# An error that breaks a stream carries the generated text, also text that was held back.
_UNCHECKED_TEXT = ""
# Attributes in which LiteLLM's streams keep their source.
_INNER_STREAMS = ("completion_stream", "litellm_custom_stream_wrapper", "response")
_FALLBACKS_HEADER = "x-litellm-attempted-fallbacks"
_GROUP_HEADER = "x-litellm-model-group"
_EVENT_TYPES: Mapping[str, Any] = {
    "message": ResponseOutputMessage,
    "response.created": ResponseCreatedEvent,
    "response.output_item.added": OutputItemAddedEvent,
    "response.content_part.added": ContentPartAddedEvent,
    "response.refusal.delta": RefusalDeltaEvent,
    "response.refusal.done": RefusalDoneEvent,
    "response.content_part.done": ContentPartDoneEvent,
    "response.output_item.done": OutputItemDoneEvent,
    "response.completed": ResponseCompletedEvent,
}


class _LiteLLMStream(SdkStreamProxy):
    """A filtered stream of LiteLLM, which cannot always be closed itself."""

    def _close_source(self) -> None:
        for one in _iter_layers(self._stream):
            if hasattr(one, "close"):
                # Some streams cannot be closed while they are read; their text is dropped anyway.
                with suppress(Exception):
                    one.close()
                return

    def _next_event(self, source: Iterator[Any]) -> Any:
        try:
            return super()._next_event(source)
        except MidStreamFallbackError as error:
            error.generated_content = _UNCHECKED_TEXT
            raise


class _LiteLLMAsyncStream(AsyncSdkStreamProxy):
    """The async variant of `_LiteLLMStream`."""

    async def _close_source(self) -> None:
        for one in _iter_layers(self._stream):
            if hasattr(one, "aclose"):
                with suppress(Exception):
                    await one.aclose()
                return

    async def _next_event(self, source: AsyncIterator[Any]) -> Any:
        try:
            return await super()._next_event(source)
        except MidStreamFallbackError as error:
            error.generated_content = _UNCHECKED_TEXT
            raise


def _iter_layers(stream: Any) -> Iterator[Any]:
    """Yield a stream and the streams inside it."""
    while stream is not None:
        yield stream
        behind = (getattr(stream, name, None) for name in _INNER_STREAMS)
        stream = next((one for one in behind if one is not None), None)


def _refusal_message(result: CheckResult) -> dict[str, Any]:
    beside = {"provider_specific_fields": {"refusal": result.envelope}}
    return {**build_refusal_message(result), **beside}


_STREAM_PROXIES = (_LiteLLMStream, _LiteLLMAsyncStream)
_CHAT_TYPES = ChatTypes(
    completion=ModelResponse,
    chunk=ModelResponseStream,
    chunk_types=ChunkTypes(StreamingChoices, Delta),
    stream_types=(CustomStreamWrapper, CustomStreamWrapper),
    stream_proxies=_STREAM_PROXIES,
    make_message=_refusal_message,
)
_RESPONSES_TYPES = ResponsesTypes(
    ResponseBuilder(ResponsesAPIResponse, lambda _like, name: _EVENT_TYPES[name]),
    (SyncResponsesAPIStreamingIterator, ResponsesAPIStreamingIterator),
    _STREAM_PROXIES,
)


class _LiteLLMChunkFormat(ChatStreamFormat):
    """Chunks of LiteLLM."""

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of a chunk, choice by choice."""
        # LiteLLM sorts chunks by this time when it joins them; held chunks would be misplaced.
        event._hidden_params.pop("created_at", None)  # noqa: SLF001 - no public access
        return super().split_event(event)


def find_served_model(body: Mapping[str, Any], answer: Any) -> str | None:
    """Return the model that answered if LiteLLM or a router used a fallback; None otherwise."""
    headers = get_field(getattr(answer, "_hidden_params", None), "additional_headers") or {}
    asked = headers.get(_FALLBACKS_HEADER)
    if not asked:
        return None
    others = body.get("fallbacks") or ()
    known = others[asked - 1] if asked <= len(others) else None
    return headers.get(_GROUP_HEADER) or (
        known if isinstance(known, str) else get_field(known, "model")
    )


class LiteLLMChatFormat(ChatFormat):
    """Reads and writes requests and responses of `completion`."""

    def __init__(self, settings: ModelClientSettings, *, is_async: bool) -> None:
        super().__init__(_CHAT_TYPES, settings, is_async=is_async)

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request, from all fields that can hold it."""
        return _read_whole_turn(partial(super().read_turn, include_history=include_history), body)

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a completion."""
        # Plain values are read in half the time.
        body = as_json(response)
        choices = _require_list(body, "choices", response)
        if not all(isinstance(get_field(one, "message"), dict) for one in choices):
            raise unchecked_error(response)
        return [read_choice({**body, "choices": [choice]}, choice) for choice in choices]

    def _stream_format(self, request: OutgoingRequest) -> ChatStreamFormat:
        return _LiteLLMChunkFormat(
            _CHAT_TYPES.chunk_types, _CHAT_TYPES.make_message, int(request.body.get("n") or 1)
        )


class LiteLLMResponsesFormat(ResponsesFormat):
    """Reads and writes requests and responses of `responses`."""

    def __init__(self, settings: ModelClientSettings, *, is_async: bool) -> None:
        super().__init__(_RESPONSES_TYPES, settings, is_async=is_async)

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request, from all fields that can hold it."""
        return _read_whole_turn(partial(super().read_turn, include_history=include_history), body)

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the response as its only choice."""
        body = as_json(response)
        _require_list(body, "output", response)
        return super().read_choices(body)


def _read_whole_turn(
    read: Callable[[Mapping[str, Any]], NewTurn], body: Mapping[str, Any]
) -> NewTurn:
    """Return the new part of a request, its substitutes and its prompt variables."""
    turn, given = read(body), body.get("prompt_variables")
    others = [_read_whole_turn(read, one) for one in list_substitutes(body)]
    if not others and not given:
        return turn
    filled = join_texts(list(given.values())) if isinstance(given, Mapping) else ""
    added = [text for one in others for text in one.texts]
    said = tuple(filter(None, (filled, *turn.texts, *added)))
    results = (result for one in others for result in one.tool_outputs)
    return NewTurn("\n".join(said), (*turn.tool_outputs, *results), said)


def _require_list(body: Any, name: str, response: Any) -> list[Any]:
    """Return the list in a field of a response."""
    found = body.get(name) if isinstance(body, dict) else None
    if isinstance(found, list):
        return found
    raise unchecked_error(response)
