"""OpenAI's client with guards around the models it asks: `chat.completions` and `responses`.

What is asked is judged before it is sent, and what comes back before it is used, streams
while they come. The tools that a model asks for are judged where they are run, by the adapter
of whatever runs them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from demur.enforce.enforcer import Enforcer, CallContext
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.chat_form import ChatFormat
from demur.integrations.model_client.client import ClientGuard, guard_client
from demur.integrations.model_client.responses_form import StoredItemsFormat, ResponsesFormat
from demur.integrations.model_client.settings import Fallback, OnRefusal, build_settings
from demur.integrations.openai_client.chat_kinds import CHAT_TYPES
from demur.integrations.openai_client.responses_kinds import RESPONSES_TYPES

try:
    from openai import AsyncOpenAI, OpenAI
except ImportError as error:
    raise missing_extra("openai") from error

if TYPE_CHECKING:
    from demur.integrations.model_client.form import ApiFormat

__all__ = ["guard_openai"]

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
    trusts_history: bool = True,
    allow_raw_bytes: bool = False,
) -> _Client:
    """Return a guarded copy of `client`; the client itself is not changed.

    `context` names the user and the run. A refusal raises `Refused`; with
    `on_refusal="answer"`, the copy returns a refusal message instead. If a model's refusal
    advises another model, demur asks the `fallbacks` in order: names of models, or functions
    from a request to a response. With `retry_after_wait`, demur waits up to a minute for a
    model that asks for a later retry. Without `trusts_history`, demur checks the whole
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
        trusts_history=trusts_history,
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
