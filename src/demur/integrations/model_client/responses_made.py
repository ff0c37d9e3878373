"""Responses in OpenAI's form that refuse, and events of them, in the types of an SDK."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.emit.openai import to_openai_part
from demur.enforce.ruling import CheckResult
from demur.integrations.model_client.form import OutgoingRequest

__all__ = ["TypeResolver", "ResponseBuilder", "RefusalPosition", "build_refusal_item"]

# Maps a response and the `type` of an event or item to the SDK's type for it.
TypeResolver = Callable[[Any, str], Any]


class RefusalPosition(NamedTuple):
    """The position of a refusal in a response, and the number of the event before it."""

    item: str
    output: int
    content: int
    number: int


def build_refusal_item(result: CheckResult, name: str | None = None) -> dict[str, Any]:
    """Return a refusing item."""
    assert result.refusal is not None
    part = to_openai_part(result.refusal, words=result.user_text)
    return {
        "id": name or f"msg_{_refusal_id(result)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


class ResponseBuilder:
    """Builds refusing responses and events in the types of an SDK."""

    def __init__(self, response_type: Any, resolve_type: TypeResolver) -> None:
        self.response_type = response_type
        self._resolve_type = resolve_type

    def build_message(self, item: Mapping[str, Any], like: Any) -> Any:
        """Return an item in the type that matches the response `like`."""
        return self._resolve_type(like, "message").model_validate(item)

    def build_response(
        self,
        result: CheckResult,
        request: OutgoingRequest,
        output: list[Any],
        status: str = "completed",
    ) -> Any:
        """Return a response that demur wrote in place of a model."""
        made = {
            "id": f"resp_{_refusal_id(result)}",
            "object": "response",
            "created_at": 0,
            "model": request.model,
            "status": status,
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
        }
        kind = request.cast_to if hasattr(request.cast_to, "model_validate") else self.response_type
        return kind.model_validate(made)

    def created_event(self, response: Any) -> Any:
        """Return the event that begins a response."""
        return self._make_event("response.created", 0, response, response=response)

    def opening_events(
        self, result: CheckResult, response: Any, position: RefusalPosition
    ) -> list[Any]:
        """Return the event that begins the item of a refusal."""
        item = {**build_refusal_item(result, position.item), "content": [], "status": "in_progress"}
        said = {"output_index": position.output, "item": item}
        return [
            self._make_event("response.output_item.added", position.number + 1, response, **said)
        ]

    def closing_events(
        self,
        result: CheckResult,
        response: Any,
        position: RefusalPosition,
        unfinished: Sequence[Any] = (),
    ) -> list[Any]:
        """Return the events that write a refusal and end its part, its item and the response."""
        item = build_refusal_item(result, position.item)
        [part] = item["content"]
        words = part["refusal"]
        here = {
            "item_id": position.item,
            "output_index": position.output,
            "content_index": position.content,
        }
        output = [*unfinished, self.build_message(item, response)]
        ended = response.model_copy(update={"output": output, "status": "completed"})
        said: list[tuple[str, dict[str, Any]]] = [
            ("response.content_part.added", {**here, "part": {**part, "refusal": ""}}),
            ("response.refusal.delta", {**here, "delta": words}),
            ("response.refusal.done", {**here, "refusal": words}),
            ("response.content_part.done", {**here, "part": part}),
            ("response.output_item.done", {"output_index": position.output, "item": item}),
            ("response.completed", {"response": ended}),
        ]
        return [
            self._make_event(kind, position.number + after, response, **fields)
            for after, (kind, fields) in enumerate(said, 1)
        ]

    def _make_event(self, kind: str, number: int, like: Any, **fields: Any) -> Any:
        made = {"type": kind, "sequence_number": number, **fields}
        return self._resolve_type(like, kind).model_validate(made)


def _refusal_id(result: CheckResult) -> str:
    return "demur" if result.record is None else f"demur_{result.record.decision_id}"
