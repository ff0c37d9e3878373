"""Responses of OpenAI that refuse, and events of them, in the types that a caller asked for."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from demur.emit.openai import to_openai_part
from demur.enforce.ruling import Ruling
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.form import Posted

try:
    from openai.types import beta
    from openai.types import responses as types
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["Place", "beginning", "closing", "created", "item_of", "message_of", "response_of"]

_BETA = "Beta"
_EVENTS: Mapping[str, str] = {
    "response.created": "ResponseCreatedEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.refusal.delta": "ResponseRefusalDeltaEvent",
    "response.refusal.done": "ResponseRefusalDoneEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.completed": "ResponseCompletedEvent",
}


class Place(NamedTuple):
    """Where in a response a refusal stands, and the number of the event before it."""

    item: str
    output: int
    content: int
    number: int


def item_of(ruling: Ruling, name: str | None = None) -> dict[str, Any]:
    """Return an item that refuses."""
    assert ruling.refusal is not None
    part = to_openai_part(ruling.refusal, words=ruling.words)
    return {
        "id": name or f"msg_{_id(ruling)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def message_of(item: Mapping[str, Any], like: Any) -> Any:
    """Return an item in the type that it has in a response like this."""
    return _kind("ResponseOutputMessage", like).model_validate(item)


def response_of(
    ruling: Ruling, posted: Posted, output: list[Any], status: str = "completed"
) -> Any:
    """Return a response that is not a model's."""
    made = {
        "id": f"resp_{_id(ruling)}",
        "object": "response",
        "created_at": 0,
        "model": posted.model,
        "status": status,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
    }
    kind = posted.cast_to if hasattr(posted.cast_to, "model_validate") else types.Response
    return kind.model_validate(made)


def beginning(ruling: Ruling, response: Any, place: Place) -> list[Any]:
    """Return the event that begins the item in which a refusal is said."""
    item = {**item_of(ruling, place.item), "content": [], "status": "in_progress"}
    said = {"output_index": place.output, "item": item}
    return [_event("response.output_item.added", place.number + 1, response, **said)]


def closing(
    ruling: Ruling, response: Any, place: Place, unfinished: Sequence[Any] = ()
) -> list[Any]:
    """Return the events that say a refusal and end its part, its item and the response."""
    item = item_of(ruling, place.item)
    [part] = item["content"]
    words = part["refusal"]
    here = {"item_id": place.item, "output_index": place.output, "content_index": place.content}
    output = [*unfinished, message_of(item, response)]
    ended = response.model_copy(update={"output": output, "status": "completed"})
    said: list[tuple[str, dict[str, Any]]] = [
        ("response.content_part.added", {**here, "part": {**part, "refusal": ""}}),
        ("response.refusal.delta", {**here, "delta": words}),
        ("response.refusal.done", {**here, "refusal": words}),
        ("response.content_part.done", {**here, "part": part}),
        ("response.output_item.done", {"output_index": place.output, "item": item}),
        ("response.completed", {"response": ended}),
    ]
    return [
        _event(kind, place.number + after, response, **fields)
        for after, (kind, fields) in enumerate(said, 1)
    ]


def created(response: Any) -> Any:
    """Return the event that begins a response."""
    return _event("response.created", 0, response, response=response)


def _id(ruling: Ruling) -> str:
    return "demur" if ruling.record is None else f"demur_{ruling.record.decision_id}"


def _event(kind: str, number: int, like: Any, **fields: Any) -> Any:
    made = {"type": kind, "sequence_number": number, **fields}
    return _kind(_EVENTS[kind], like).model_validate(made)


def _kind(name: str, like: Any) -> Any:
    """Return a type by its name, in beta where the response is."""
    if type(like).__name__.startswith(_BETA):
        return getattr(beta, f"{_BETA}{name}")
    return getattr(types, name)
