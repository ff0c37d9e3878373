"""Guard OpenAI's client: `guard_openai(client, enforcer)`.

demur checks each request of `chat.completions` and `responses` before it is sent, and each
answer before the caller gets it, streams included. Tool calls are checked where they run, by
the adapter of the framework that runs them.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import missing_extra
from demur.integrations._kit.client_proxy import ClientGuard, guard_client
from demur.integrations._kit.model_api import Fallback, OnRefusal, build_settings
from demur.integrations._kit.openai_chat import ChatFormat, ChatTypes, ChunkTypes
from demur.integrations._kit.openai_responses import (
    ResponseBuilder,
    ResponsesFormat,
    ResponsesTypes,
    StoredItemsFormat,
)

if TYPE_CHECKING:
    from demur.integrations._kit.model_api import ApiFormat

__all__ = ["guard_openai"]


try:
    from openai import AsyncStream, Stream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
except ImportError as error:
    raise missing_extra("openai") from error


CHAT_TYPES = ChatTypes(
    completion=ChatCompletion,
    chunk=ChatCompletionChunk,
    chunk_types=ChunkTypes(Choice, ChoiceDelta),
    stream_types=(Stream, AsyncStream),
)


try:
    from openai import AsyncStream, Stream
    from openai.types import beta
    from openai.types import responses as types
except ImportError as error:
    raise missing_extra("openai") from error


_BETA_PREFIX = "Beta"
_TYPE_NAMES: Mapping[str, str] = {
    "message": "ResponseOutputMessage",
    "response.created": "ResponseCreatedEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.refusal.delta": "ResponseRefusalDeltaEvent",
    "response.refusal.done": "ResponseRefusalDoneEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.completed": "ResponseCompletedEvent",
}


def _resolve_type(response: Any, name: str) -> Any:
    known = _TYPE_NAMES[name]
    if type(response).__name__.startswith(_BETA_PREFIX):
        return getattr(beta, f"{_BETA_PREFIX}{known}")
    return getattr(types, known)


RESPONSES_TYPES = ResponsesTypes(
    ResponseBuilder(types.Response, _resolve_type), (Stream, AsyncStream)
)


try:
    from openai import AsyncOpenAI, OpenAI
except ImportError as error:
    raise missing_extra("openai") from error


_FRAMEWORK = "openai"
# Paths that store items for a model to read later.
_STORED_ITEM_PATHS = ("/responses/compact", "/conversations", "/conversations/*/items")
_Client = TypeVar("_Client", bound=OpenAI | AsyncOpenAI)


def guard_openai(
    client: _Client,
    enforcer: Enforcer | Gate,
    *,
    context: CallContext | None = None,
    on_refusal: OnRefusal = "raise",
    fallbacks: Sequence[Fallback] = (),
    retry_after_wait: bool = False,
    sleep: Callable[[float], Any] | None = None,
    recheck_history: bool = False,
    allow_raw_bytes: bool = False,
) -> _Client:
    """Return a guarded copy of `client`; the client itself is not changed.

    `context` names the user and the run. A refusal raises `Refused`; with
    `on_refusal="answer"`, the copy returns a refusal message instead. If a model's refusal
    advises another model, demur asks the `fallbacks` in order: names of models, or functions
    from a request to a response. With `retry_after_wait`, demur waits up to a minute for a
    model that asks for a later retry. With `recheck_history`, demur checks the whole
    conversation in each request, not only the new messages. With `allow_raw_bytes`, callers may
    read unchecked bytes of raw streams; otherwise only their events.

    Raises:
        InputError: An option is invalid.
        UnguardableError: demur does not support this version of the client.
    """
    if not isinstance(client, OpenAI | AsyncOpenAI):
        raise InputTypeError.wrong_type("client", "an `OpenAI` or `AsyncOpenAI`", client)
    awaits = isinstance(client, AsyncOpenAI)
    settings = build_settings(
        enforcer,
        _FRAMEWORK,
        context=context,
        on_refusal=on_refusal,
        fallbacks=fallbacks,
        retry_after_wait=retry_after_wait,
        sleep=sleep or (asyncio.sleep if awaits else time.sleep),
        recheck_history=recheck_history,
        allow_raw_bytes=allow_raw_bytes,
    )
    forms: dict[str, ApiFormat] = {
        "/chat/completions": ChatFormat(CHAT_TYPES, settings, is_async=awaits),
        "/responses": ResponsesFormat(RESPONSES_TYPES, settings, is_async=awaits),
        **dict.fromkeys(
            _STORED_ITEM_PATHS, StoredItemsFormat(RESPONSES_TYPES, settings, is_async=awaits)
        ),
    }
    return cast("_Client", guard_client(client, ClientGuard(forms, settings, _probe_post, awaits)))


def _probe_post(client: Any) -> Any:
    return client.chat.completions._post  # noqa: SLF001 - the method that sends requests
