"""The types of OpenAI's client for responses; beta types for beta responses."""

from collections.abc import Mapping
from typing import Any

from demur.integrations.extras import missing_extra
from demur.integrations.model_client.responses_form import ResponsesKinds
from demur.integrations.model_client.responses_made import Made

try:
    from openai import AsyncStream, Stream
    from openai.types import beta
    from openai.types import responses as types
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["RESPONSES"]

_BETA = "Beta"
_NAMES: Mapping[str, str] = {
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


def _kind(like: Any, name: str) -> Any:
    known = _NAMES[name]
    if type(like).__name__.startswith(_BETA):
        return getattr(beta, f"{_BETA}{known}")
    return getattr(types, known)


RESPONSES = ResponsesKinds(Made(types.Response, _kind), (Stream, AsyncStream))
