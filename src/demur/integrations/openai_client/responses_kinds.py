"""The types of OpenAI's client for responses; beta types for beta responses."""

from collections.abc import Mapping
from typing import Any

from demur.integrations.extras import missing_extra
from demur.integrations.model_client.responses_form import ResponsesTypes
from demur.integrations.model_client.responses_made import ResponseBuilder

try:
    from openai import AsyncStream, Stream
    from openai.types import beta
    from openai.types import responses as types
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["RESPONSES_TYPES"]

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
