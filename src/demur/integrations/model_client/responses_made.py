"""Responses in OpenAI's form that refuse, and events of them, in the types of an SDK."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.emit.openai import to_openai_part
from demur.enforce.ruling import Ruling
from demur.integrations.model_client.form import Posted

__all__ = ["Kinds", "Made", "Place", "item_of"]

# Maps a response and the `type` of an event or item to the SDK's type for it.
Kinds = Callable[[Any, str], Any]


class Place(NamedTuple):
    """The position of a refusal in a response, and the number of the event before it."""

    item: str
    output: int
    content: int
    number: int


def item_of(ruling: Ruling, name: str | None = None) -> dict[str, Any]:
    """Return a refusing item."""
    assert ruling.refusal is not None
    part = to_openai_part(ruling.refusal, words=ruling.words)
    return {
        "id": name or f"msg_{_id(ruling)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


class Made:
    """Builds refusing responses and events in the types of an SDK."""

    def __init__(self, response: Any, kinds: Kinds) -> None:
        self.kind = response
        self._kinds = kinds

    def message(self, item: Mapping[str, Any], like: Any) -> Any:
        """Return an item in the type that matches the response `like`."""
        return self._kinds(like, "message").model_validate(item)

    def response(
        self, ruling: Ruling, posted: Posted, output: list[Any], status: str = "completed"
    ) -> Any:
        """Return a response that demur wrote in place of a model."""
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
        kind = posted.cast_to if hasattr(posted.cast_to, "model_validate") else self.kind
        return kind.model_validate(made)

    def created(self, response: Any) -> Any:
        """Return the event that begins a response."""
        return self._event("response.created", 0, response, response=response)

    def beginning(self, ruling: Ruling, response: Any, place: Place) -> list[Any]:
        """Return the event that begins the item of a refusal."""
        item = {**item_of(ruling, place.item), "content": [], "status": "in_progress"}
        said = {"output_index": place.output, "item": item}
        return [self._event("response.output_item.added", place.number + 1, response, **said)]

    def closing(
        self, ruling: Ruling, response: Any, place: Place, unfinished: Sequence[Any] = ()
    ) -> list[Any]:
        """Return the events that write a refusal and end its part, its item and the response."""
        item = item_of(ruling, place.item)
        [part] = item["content"]
        words = part["refusal"]
        here = {"item_id": place.item, "output_index": place.output, "content_index": place.content}
        output = [*unfinished, self.message(item, response)]
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
            self._event(kind, place.number + after, response, **fields)
            for after, (kind, fields) in enumerate(said, 1)
        ]

    def _event(self, kind: str, number: int, like: Any, **fields: Any) -> Any:
        made = {"type": kind, "sequence_number": number, **fields}
        return self._kinds(like, kind).model_validate(made)


def _id(ruling: Ruling) -> str:
    return "demur" if ruling.record is None else f"demur_{ruling.record.decision_id}"
