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

from demur.enforce.ruling import Ruling
from demur.integrations.litellm.reading import as_json, beside_in
from demur.integrations.model_client.chat_form import (
    ChatForm,
    ChatKinds,
    refusing_message,
    said_by,
)
from demur.integrations.model_client.chat_stream import ChatStream, ChunkKinds
from demur.integrations.model_client.form import Posted, Said
from demur.integrations.model_client.held import Portion
from demur.integrations.model_client.owned import unjudged
from demur.integrations.model_client.responses_form import ResponsesForm, ResponsesKinds
from demur.integrations.model_client.responses_made import Made
from demur.integrations.model_client.settings import Settings
from demur.integrations.model_client.stream import AsyncGuardedStream, GuardedStream
from demur.integrations.model_client.turn import Turn, field, text_of

__all__ = ["LiteLLMChatForm", "LiteLLMResponsesForm", "served_by"]

# An error that breaks a stream carries the generated text, also text that was held back.
_UNJUDGED = ""
# Attributes in which LiteLLM's streams keep their source.
_BEHIND = ("completion_stream", "litellm_custom_stream_wrapper", "response")
_ASKED_OTHERS = "x-litellm-attempted-fallbacks"
_GROUP = "x-litellm-model-group"
_KINDS: Mapping[str, Any] = {
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


class _Stream(GuardedStream):
    """A filtered stream of LiteLLM, which cannot always be closed itself."""

    def _release(self) -> None:
        for one in _layers(self._stream):
            if hasattr(one, "close"):
                # Some streams cannot be closed while they are read; their text is dropped anyway.
                with suppress(Exception):
                    one.close()
                return

    def _next(self, source: Iterator[Any]) -> Any:
        try:
            return super()._next(source)
        except MidStreamFallbackError as error:
            error.generated_content = _UNJUDGED
            raise


class _AsyncStream(AsyncGuardedStream):
    """The async variant of `_LiteLLMStream`."""

    async def _release(self) -> None:
        for one in _layers(self._stream):
            if hasattr(one, "aclose"):
                with suppress(Exception):
                    await one.aclose()
                return

    async def _next(self, source: AsyncIterator[Any]) -> Any:
        try:
            return await super()._next(source)
        except MidStreamFallbackError as error:
            error.generated_content = _UNJUDGED
            raise


def _layers(stream: Any) -> Iterator[Any]:
    """Yield a stream and the streams inside it."""
    while stream is not None:
        yield stream
        behind = (getattr(stream, name, None) for name in _BEHIND)
        stream = next((one for one in behind if one is not None), None)


def _message(ruling: Ruling) -> dict[str, Any]:
    beside = {"provider_specific_fields": {"refusal": ruling.envelope}}
    return {**refusing_message(ruling), **beside}


_GUARDED = (_Stream, _AsyncStream)
_CHAT = ChatKinds(
    completion=ModelResponse,
    chunk=ModelResponseStream,
    chunks=ChunkKinds(StreamingChoices, Delta),
    streams=(CustomStreamWrapper, CustomStreamWrapper),
    guarded=_GUARDED,
    message=_message,
)
_RESPONSES = ResponsesKinds(
    Made(ResponsesAPIResponse, lambda _like, name: _KINDS[name]),
    (SyncResponsesAPIStreamingIterator, ResponsesAPIStreamingIterator),
    _GUARDED,
)


class _Chunks(ChatStream):
    """Chunks of LiteLLM."""

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return the content of a chunk, choice by choice."""
        # LiteLLM sorts chunks by this time when it joins them; held chunks would be misplaced.
        event._hidden_params.pop("created_at", None)  # noqa: SLF001 - no public access
        return super().portions(event)


def served_by(body: Mapping[str, Any], answer: Any) -> str | None:
    """Return the model that answered if LiteLLM or a router used a fallback; None otherwise."""
    headers = field(getattr(answer, "_hidden_params", None), "additional_headers") or {}
    asked = headers.get(_ASKED_OTHERS)
    if not asked:
        return None
    others = body.get("fallbacks") or ()
    known = others[asked - 1] if asked <= len(others) else None
    return headers.get(_GROUP) or (known if isinstance(known, str) else field(known, "model"))


class LiteLLMChatForm(ChatForm):
    """Reads and writes requests and responses of `completion`."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        super().__init__(_CHAT, settings, awaits=awaits)

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request, from all fields that can hold it."""
        return _turn(partial(super().turn, whole=whole), body)

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a completion."""
        # Plain values are read in half the time.
        body = as_json(response)
        choices = _checked(body, "choices", response)
        if not all(isinstance(field(one, "message"), dict) for one in choices):
            raise unjudged(response)
        return [said_by({**body, "choices": [choice]}, choice) for choice in choices]

    def _stream(self, posted: Posted) -> ChatStream:
        return _Chunks(_CHAT.chunks, _CHAT.message, int(posted.body.get("n") or 1))


class LiteLLMResponsesForm(ResponsesForm):
    """Reads and writes requests and responses of `responses`."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        super().__init__(_RESPONSES, settings, awaits=awaits)

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request, from all fields that can hold it."""
        return _turn(partial(super().turn, whole=whole), body)

    def said(self, response: Any) -> Sequence[Said]:
        """Return the response as its only choice."""
        body = as_json(response)
        _checked(body, "output", response)
        return super().said(body)


def _turn(read: Callable[[Mapping[str, Any]], Turn], body: Mapping[str, Any]) -> Turn:
    """Return the new part of a request, its substitutes and its prompt variables."""
    turn, given = read(body), body.get("prompt_variables")
    others = [_turn(read, one) for one in beside_in(body)]
    if not others and not given:
        return turn
    filled = text_of(list(given.values())) if isinstance(given, Mapping) else ""
    added = [text for one in others for text in one.said]
    said = tuple(filter(None, (filled, *turn.said, *added)))
    results = (result for one in others for result in one.returned)
    return Turn("\n".join(said), (*turn.returned, *results), said)


def _checked(body: Any, name: str, response: Any) -> list[Any]:
    """Return the list in a field of a response."""
    found = body.get(name) if isinstance(body, dict) else None
    if isinstance(found, list):
        return found
    raise unjudged(response)
