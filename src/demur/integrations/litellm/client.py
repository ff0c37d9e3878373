"""LiteLLM's functions, or those of a router, with checks around each model call.

demur checks each request before it is sent, and each answer before the caller gets it, streams
included, also where LiteLLM has no guardrail hook. Tool calls are checked where they run.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

import litellm
from litellm.exceptions import MidStreamFallbackError
from litellm.integrations.custom_guardrail import get_session_id_from_request_data
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

from demur.enforce.context import Steps, adrive, drive
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit.client_proxy import call_model
from demur.integrations._kit.conversation import NewTurn, get_field, join_texts
from demur.integrations._kit.guarded_response import (
    AsyncSdkStreamProxy,
    SdkStreamProxy,
    is_iterator,
    unchecked_error,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    GuardOptions,
    ModelClientSettings,
    OutgoingRequest,
    build_settings,
    materialize,
)
from demur.integrations._kit.openai_chat import (
    ChatFormat,
    ChatStreamFormat,
    ChatTypes,
    build_refusal_message,
    read_choice,
)
from demur.integrations._kit.openai_responses import (
    ResponseBuilder,
    ResponsesFormat,
    ResponsesTypes,
)
from demur.integrations._kit.stream_filter import EventPortion
from demur.integrations.litellm.reading import as_json, list_substitutes

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
        for one in _iter_layers(self._inner):
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
        for one in _iter_layers(self._inner):
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
    fields = {"provider_specific_fields": {"refusal": result.envelope}}
    return {**build_refusal_message(result), **fields}


_STREAM_PROXIES = (_LiteLLMStream, _LiteLLMAsyncStream)
_CHAT_TYPES = ChatTypes(
    ModelResponse,
    ModelResponseStream,
    StreamingChoices,
    Delta,
    (CustomStreamWrapper, CustomStreamWrapper),
    _STREAM_PROXIES,
    _refusal_message,
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
    number = headers.get(_FALLBACKS_HEADER)
    if not number:
        return None
    others = body.get("fallbacks") or ()
    fallback = others[number - 1] if number <= len(others) else None
    name = fallback if isinstance(fallback, str) else get_field(fallback, "model")
    return headers.get(_GROUP_HEADER) or name


class LiteLLMChatFormat(ChatFormat):
    """Reads and writes requests and responses of `completion`."""

    def __init__(self, settings: ModelClientSettings) -> None:
        super().__init__(_CHAT_TYPES, settings)

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request, from all fields that can hold it."""
        return _read_whole(super().read_turn, body)

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a completion."""
        # Plain values are read in half the time.
        body = as_json(response)
        choices = _require_list(body, "choices", response)
        if not all(isinstance(get_field(one, "message"), dict) for one in choices):
            raise unchecked_error(response)
        return [read_choice({**body, "choices": [choice]}, choice) for choice in choices]

    def event_format(self, request: OutgoingRequest) -> ChatStreamFormat:
        """Return the format of the chunks of one stream."""
        return _LiteLLMChunkFormat(_CHAT_TYPES, int(request.body.get("n") or 1))


class LiteLLMResponsesFormat(ResponsesFormat):
    """Reads and writes requests and responses of `responses`."""

    def __init__(self, settings: ModelClientSettings) -> None:
        super().__init__(_RESPONSES_TYPES, settings)

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request, from all fields that can hold it."""
        return _read_whole(super().read_turn, body)

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the response as its only choice."""
        body = as_json(response)
        _require_list(body, "output", response)
        return super().read_choices(body)


def _read_whole(read: Callable[[Mapping[str, Any]], NewTurn], body: Mapping[str, Any]) -> NewTurn:
    """Return the new part of a request, its substitutes and its prompt variables."""
    turn, variables = read(body), body.get("prompt_variables")
    others = [_read_whole(read, one) for one in list_substitutes(body)]
    if not others and not variables:
        return turn
    filled = join_texts(list(variables.values())) if isinstance(variables, Mapping) else ""
    added = [text for one in others for text in one.texts]
    texts = tuple(filter(None, (filled, *turn.texts, *added)))
    outputs = (output for one in others for output in one.tool_outputs)
    return NewTurn("\n".join(texts), (*turn.tool_outputs, *outputs), texts)


def _require_list(body: Any, name: str, response: Any) -> list[Any]:
    """Return the list in a field of a response."""
    found = body.get(name) if isinstance(body, dict) else None
    if isinstance(found, list):
        return found
    raise unchecked_error(response)


_FORMATS: Mapping[str, type[LiteLLMChatFormat | LiteLLMResponsesFormat]] = {
    "completion": LiteLLMChatFormat,
    "acompletion": LiteLLMChatFormat,
    "responses": LiteLLMResponsesFormat,
    "aresponses": LiteLLMResponsesFormat,
}


def guard_litellm(
    enforcer: Enforcer | Gate, client: Any = litellm, **options: Unpack[GuardOptions]
) -> "GuardedLiteLLM":
    """Return the guarded functions of `client`: of LiteLLM itself, or of a `Router`.

    `options` are those of `GuardOptions`: `context`, `on_refusal`, `fallbacks`,
    `retry_after_wait`, `sleep` and `recheck_history`.

    Raises:
        InputError: An option is invalid.
    """
    if not all(callable(getattr(client, name, None)) for name in _FORMATS):
        raise InputTypeError.wrong_type("client", "the module `litellm` or a `Router`", client)
    settings = build_settings(enforcer, "litellm", is_async=False, **options)
    async_settings = build_settings(enforcer, "litellm", is_async=True, **options)
    return GuardedLiteLLM(client, settings, async_settings)


class GuardedLiteLLM:
    """LiteLLM's functions with checks around them. Create it with `guard_litellm`."""

    def __init__(
        self, client: Any, settings: ModelClientSettings, async_settings: ModelClientSettings
    ) -> None:
        self._client = client
        self._settings = settings
        self._async_settings = async_settings

    def completion(self, model: str, messages: Iterable[Any] = (), **more: Any) -> Any:
        """Return the checked result of `completion`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return drive(self._steps("completion", model=model, messages=messages, **more))

    async def acompletion(self, model: str, messages: Iterable[Any] = (), **more: Any) -> Any:
        """Return the checked result of `acompletion`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return await adrive(self._steps("acompletion", model=model, messages=messages, **more))

    def responses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `responses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return drive(self._steps("responses", input=input, model=model, **more))

    async def aresponses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `aresponses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return await adrive(self._steps("aresponses", input=input, model=model, **more))

    def _steps(self, function_name: str, **arguments: Any) -> Steps[Any]:
        body = {name: materialize(value) for name, value in arguments.items()}
        settings = self._async_settings if function_name.startswith("a") else self._settings
        session = get_session_id_from_request_data(dict(body))
        if session and settings.context.run is None:
            settings = settings._replace(context=settings.context._replace(run=session))
        function = getattr(self._client, function_name)
        request = OutgoingRequest(
            send=lambda sent: function(**sent),
            body=body,
            wants_stream=bool(body.get("stream")),
            # The settings of a deployment may override `stream`.
            is_stream=is_iterator,
            find_served_model=partial(find_served_model, body),
        )
        return call_model(_FORMATS[function_name](settings), settings, request)
