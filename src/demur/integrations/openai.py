"""Guard OpenAI's client: `guard_openai(client, enforcer)`.

demur checks each request of `chat.completions` and `responses` before it is sent, and each
answer before the caller gets it, streams included. Tool calls are checked where they run, by
the adapter of the framework that runs them.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack, cast

from demur.enforce.enforcer import Enforcer
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import missing_extra
from demur.integrations._kit.client_proxy import UnguardableError, guard_client
from demur.integrations._kit.model_api import (
    CallTrace,
    GuardOptions,
    build_settings,
    read_check_result,
    read_trace,
)
from demur.integrations._kit.openai_chat import ChatFormat, ChatTypes
from demur.integrations._kit.openai_responses import (
    ResponseBuilder,
    ResponsesFormat,
    ResponsesTypes,
    StoredItemsFormat,
)

try:
    from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream
    from openai.types import beta
    from openai.types import responses as types
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = [
    "CallTrace",
    "GuardOptions",
    "UnguardableError",
    "guard_openai",
    "read_check_result",
    "read_trace",
]

CHAT_TYPES = ChatTypes(
    ChatCompletion, ChatCompletionChunk, Choice, ChoiceDelta, (Stream, AsyncStream)
)
# Paths that store items for a model to read later.
_STORED_ITEM_PATHS = ("/responses/compact", "/conversations", "/conversations/*/items")
_Client = TypeVar("_Client", bound=OpenAI | AsyncOpenAI)
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


def guard_openai(
    client: _Client, enforcer: Enforcer | Gate, **options: Unpack[GuardOptions]
) -> _Client:
    """Return a guarded copy of `client`; the client itself stays as it is.

    `options` are those of `GuardOptions`: `context`, `on_refusal`, `fallbacks`,
    `retry_after_wait`, `sleep`, `recheck_history` and `allow_raw_bytes`.

    Raises:
        InputError: An option is invalid.
        UnguardableError: demur does not support this version of the client.
    """
    if not isinstance(client, OpenAI | AsyncOpenAI):
        raise InputTypeError.wrong_type("client", "an `OpenAI` or `AsyncOpenAI`", client)
    is_async = isinstance(client, AsyncOpenAI)
    settings = build_settings(enforcer, "openai", is_async=is_async, **options)
    formats = {
        "/chat/completions": ChatFormat(CHAT_TYPES, settings),
        "/responses": ResponsesFormat(RESPONSES_TYPES, settings),
        **dict.fromkeys(_STORED_ITEM_PATHS, StoredItemsFormat(RESPONSES_TYPES, settings)),
    }
    return cast("_Client", guard_client(client, formats, settings, _probe_post))


def _probe_post(client: Any) -> Any:
    return client.chat.completions._post  # noqa: SLF001 - the method that sends requests
