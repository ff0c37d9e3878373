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

from demur.enforce.enforcer import Enforcer, Occasion
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.litellm.client_forms import (
    LiteLLMChatForm,
    LiteLLMResponsesForm,
    served_by,
)
from demur.integrations.model_client.call import ModelCall
from demur.integrations.model_client.form import Posted
from demur.integrations.model_client.owned import is_iterator
from demur.integrations.model_client.settings import Fallback, OnRefusal, Settings, settings_of
from demur.integrations.model_client.steps import Steps, atake, take

__all__ = ["GuardedLiteLLM", "guard_litellm"]

_FRAMEWORK = "litellm"
_FORMS: Mapping[str, type[LiteLLMChatForm | LiteLLMResponsesForm]] = {
    "completion": LiteLLMChatForm,
    "acompletion": LiteLLMChatForm,
    "responses": LiteLLMResponsesForm,
    "aresponses": LiteLLMResponsesForm,
}


def guard_litellm(
    enforcer: Enforcer | Gate,
    client: Any = litellm,
    *,
    at: Occasion | None = None,
    on_refusal: OnRefusal = "raise",
    fallbacks: Sequence[Fallback] = (),
    waits: bool = False,
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
    if not all(callable(getattr(client, name, None)) for name in _FORMS):
        raise InputTypeError.expected("client", "the module `litellm` or a `Router`", client)
    settings = settings_of(
        enforcer,
        _FRAMEWORK,
        at=at,
        on_refusal=on_refusal,
        fallbacks=fallbacks,
        waits=waits,
        sleep=sleep or time.sleep,
        trusts_history=trusts_history,
        trusts_bytes=False,
    )
    awaited = settings._replace(sleep=sleep or asyncio.sleep)
    return GuardedLiteLLM(client, settings, awaited)


class GuardedLiteLLM:
    """LiteLLM's functions with checks around them. Create it with `guard_litellm`."""

    def __init__(self, client: Any, settings: Settings, awaited: Settings) -> None:
        self._client = client
        self._settings = settings
        self._awaited = awaited

    def completion(self, model: str, messages: Iterable[Any] = (), **more: Any) -> Any:
        """Return the checked result of `completion`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        body = {"model": model, "messages": _whole(messages), **more}
        return take(self._steps("completion", body))

    async def acompletion(self, model: str, messages: Iterable[Any] = (), **more: Any) -> Any:
        """Return the checked result of `acompletion`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        body = {"model": model, "messages": _whole(messages), **more}
        return await atake(self._steps("acompletion", body, awaits=True))

    def responses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `responses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        return take(self._steps("responses", {"input": _whole(input), "model": model, **more}))

    async def aresponses(self, input: Any, model: str, **more: Any) -> Any:  # noqa: A002 - LiteLLM's name
        """Return the checked result of `aresponses`, or a filtered stream.

        Raises:
            Refused: The request or the answer is refused.
        """
        body = {"input": _whole(input), "model": model, **more}
        return await atake(self._steps("aresponses", body, awaits=True))

    def _steps(self, name: str, body: dict[str, Any], *, awaits: bool = False) -> Steps[Any]:
        settings = _of_session(self._awaited if awaits else self._settings, body)
        function = getattr(self._client, name)
        call = ModelCall(_FORMS[name](settings, awaits=awaits), settings, awaits=awaits)
        return call.steps(
            Posted(
                send=lambda sent: function(**sent),
                body=body,
                streams=bool(body.get("stream")),
                # The settings of a deployment may override `stream`.
                is_stream=is_iterator,
                served=partial(served_by, body),
            )
        )


def _of_session(settings: Settings, body: Mapping[str, Any]) -> Settings:
    """Return the settings with the request's LiteLLM session as the run."""
    if settings.at.run is not None:
        return settings
    session = get_session_id_from_request_data(dict(body))
    return settings._replace(at=settings.at._replace(run=session)) if session else settings


def _whole(value: Any) -> Any:
    """Return a value that can be read more than once; messages may come from a generator."""
    return list(value) if hasattr(value, "__next__") else value
