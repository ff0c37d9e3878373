"""Anthropic's client with guards around the models it asks: `messages`, also those in beta.

What is asked is judged before it is sent, and what comes back before it is used, streams
while they come. The tools that a model asks for are judged where they are run, by the adapter
of whatever runs them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from demur.enforce.enforcer import Enforcer, CallContext
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.anthropic_client.form import MessagesFormat
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.client import ClientGuard, guard_client
from demur.integrations.model_client.settings import Fallback, OnRefusal, build_settings

try:
    from anthropic import Anthropic, AsyncAnthropic
except ImportError as error:
    raise missing_extra("anthropic") from error

__all__ = ["guard_anthropic"]

_FRAMEWORK = "anthropic"
_Client = TypeVar("_Client", bound=Anthropic | AsyncAnthropic)


def guard_anthropic(
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
    `on_refusal="answer"`, the copy returns a message with `stop_reason="refusal"`. If a model's
    refusal advises another model, demur asks the `fallbacks` in order: names of models, or
    functions from a request to a response. With `retry_after_wait`, demur waits up to a minute
    for a model that asks for a later retry. Without `trusts_history`, demur checks the whole
    conversation in each request, not only the new messages. With `allow_raw_bytes`, callers may
    read unchecked bytes of raw streams; otherwise only their events.

    Raises:
        InputError: An option is invalid.
        UnguardableError: demur does not support this version of the client.
    """
    if not isinstance(client, Anthropic | AsyncAnthropic):
        raise InputTypeError.wrong_type("client", "an `Anthropic` or `AsyncAnthropic`", client)
    awaits = isinstance(client, AsyncAnthropic)
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
    forms = {"/v1/messages": MessagesFormat(settings, is_async=awaits)}
    return cast("_Client", guard_client(client, ClientGuard(forms, settings, _probe_post, awaits)))


def _probe_post(client: Any) -> Any:
    return client.messages._post  # noqa: SLF001 - the method that sends requests
