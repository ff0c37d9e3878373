"""LiteLLM's functions, or those of a router, with guards around the models they ask.

What is asked is judged before it is sent, and what comes back before it is used, streams
while they come: also where LiteLLM has no hook for a guardrail. The tools that a model asks
for are judged where they are run, by the adapter of whatever runs them.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import litellm
from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from demur.enforce.enforcer import Enforcer, CallContext
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.litellm.client_forms import (
    LiteLLMChatFormat,
    LiteLLMResponsesFormat,
    find_served_model,
)
from demur.integrations.model_client.call import ModelCall
from demur.integrations.model_client.form import OutgoingRequest
from demur.integrations.model_client.owned import is_iterator
from demur.integrations.model_client.settings import (
    Fallback,
    OnRefusal,
    ModelClientSettings,
    build_settings,
)
from demur.integrations.model_client.steps import Steps, adrive, drive

__all__ = ["GuardedLiteLLM", "guard_litellm"]

_FRAMEWORK = "litellm"
_FORMATS: Mapping[str, type[LiteLLMChatFormat | LiteLLMResponsesFormat]] = {
    "completion": LiteLLMChatFormat,
    "acompletion": LiteLLMChatFormat,
    "responses": LiteLLMResponsesFormat,
    "aresponses": LiteLLMResponsesFormat,
}


def guard_litellm(
    enforcer: Enforcer | Gate,
    client: Any = litellm,
    *,
    context: CallContext | None = None,
    on_refusal: OnRefusal = "raise",
    fallbacks: Sequence[Fallback] = (),
    retry_after_wait: bool = False,
    sleep: Callable[[float], Any] | None = None,
    trusts_history: bool = True,
) -> "GuardedLiteLLM":
    """Return the guarded functions of `client`: of LiteLLM itself, or of a `Router`.

    `context` names the user and the run. A refusal raises `Refused`; with
    `on_refusal="answer"`, the functions return a refusal message instead. If a model's refusal
    advises another model, demur asks the `fallbacks` in order: names of models, or functions
    from a request to a response. With `retry_after_wait`, demur waits up to a minute for a
    model that asks for a later retry. Without `trusts_history`, demur checks the whole
    conversation in each request, not only the new messages.

    Raises:
        InputError: An option is invalid.
    """
    if not all(callable(getattr(client, name, None)) for name in _FORMATS):
        raise InputTypeError.wrong_type("client", "the module `litellm` or a `Router`", client)
    settings = build_settings(
        enforcer,
        _FRAMEWORK,
        context=context,
        on_refusal=on_refusal,
        fallbacks=fallbacks,
        retry_after_wait=retry_after_wait,
        sleep=sleep or time.sleep,
        trusts_history=trusts_history,
        allow_raw_bytes=False,
    )
    awaited = settings._replace(sleep=sleep or asyncio.sleep)
    return GuardedLiteLLM(client, settings, awaited)


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
        body = {"model": model, "messages": _materialize_iterator(messages), **more}
        return drive(self._build_steps("completion", body))

    async def acompletion(self, model: str, messages: Iterable[Any] = (), **more: Any) -> Any:
        """Return the checked result of `acompletion`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        body = {"model": model, "messages": _materialize_iterator(messages), **more}
        return await adrive(self._build_steps("acompletion", body, is_async=True))

    def responses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `responses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return drive(
            self._build_steps(
                "responses", {"input": _materialize_iterator(input), "model": model, **more}
            )
        )

    async def aresponses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `aresponses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        body = {"input": _materialize_iterator(input), "model": model, **more}
        return await adrive(self._build_steps("aresponses", body, is_async=True))

    def _build_steps(
        self, name: str, body: dict[str, Any], *, is_async: bool = False
    ) -> Steps[Any]:
        settings = _settings_for_session(self._async_settings if is_async else self._settings, body)
        function = getattr(self._client, name)
        call = ModelCall(_FORMATS[name](settings, awaits=is_async), settings, is_async=is_async)
        return call.run_steps(
            OutgoingRequest(
                send=lambda sent: function(**sent),
                body=body,
                wants_stream=bool(body.get("stream")),
                # The settings of a deployment may override `stream`.
                is_stream=is_iterator,
                find_served_model=partial(find_served_model, body),
            )
        )


def _settings_for_session(
    settings: ModelClientSettings, body: Mapping[str, Any]
) -> ModelClientSettings:
    """Return the settings with the request's LiteLLM session as the run."""
    if settings.context.run is not None:
        return settings
    session = get_session_id_from_request_data(dict(body))
    return (
        settings._replace(context=settings.context._replace(run=session)) if session else settings
    )


def _materialize_iterator(value: Any) -> Any:
    """Return a value that can be read more than once; messages may come from a generator."""
    return list(value) if hasattr(value, "__next__") else value
