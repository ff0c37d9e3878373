"""The events of a response in OpenAI's form, of which only some may leave."""

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from demur.enforce.ruling import CheckResult
from demur.integrations.model_client.form import OutgoingRequest
from demur.integrations.model_client.held import PartText, EventPortion
from demur.integrations.model_client.responses_made import (
    ResponseBuilder,
    RefusalPosition,
    build_refusal_item,
)
from demur.integrations.model_client.turn import get_field, list_entries

__all__ = ["CLIENT_CALLS", "ResponsesStreamFormat", "read_item_texts"]

_DELTA = "response.output_text.delta"
_REFUSAL_DELTA = "response.refusal.delta"
_TEXT_FIELDS = {"output_text": "text", "refusal": "refusal"}
_FINAL_EVENTS = {"response.completed", "response.incomplete", "response.failed"}
# Calls that the client has to make; the provider makes the others.
CLIENT_CALLS = {
    "apply_patch_call",
    "computer_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
}


class ResponsesStreamFormat:
    """Events of a response. Its answer consists of content parts, by item and number."""

    def __init__(self, builder: ResponseBuilder, request: OutgoingRequest) -> None:
        self._builder = builder
        self._request = request
        self._response: Any = None
        self._latest: dict[Hashable, Any] = {}
        self._number = 0
        self._calls: set[int] = set()
        self._refusals: dict[Hashable, str] = {}
        # Items that have begun and not ended, by number.
        self._open_items: dict[int, Any] = {}
        self._contents = 0
        self._next = 0

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether an event adds text."""
        return bool(event.type == _DELTA)

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of an event."""
        if self._response is None:
            self._response = get_field(event, "response")
        output = get_field(event, "output_index")
        if get_field(get_field(event, "item"), "type") in CLIENT_CALLS:
            self._calls.add(output)
        kind = event.type
        if kind == _DELTA:
            part = (event.item_id, event.content_index)
            self._latest[part] = event
            return [EventPortion(event, part=part, text=event.delta)]
        asks, ends = output in self._calls, kind in _FINAL_EVENTS
        wholes = (
            [self._add_refusal_text(event)] if kind == _REFUSAL_DELTA else _read_whole_texts(event)
        )
        return [EventPortion(event, whole_texts=tuple(wholes), has_calls=asks, is_last=ends)]

    def _add_refusal_text(self, event: Any) -> PartText:
        """Return the text of a refusal so far."""
        part = (event.item_id, event.content_index)
        self._refusals[part] = self._refusals.get(part, "") + event.delta
        return PartText(part, self._refusals[part])

    def strip_text(self, event: Any) -> None:
        """Return None: an event that adds text carries nothing else."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a content part."""
        # Token log probabilities would spell the text that is held back.
        return self._latest[part].model_copy(update={"delta": text, "logprobs": []})

    def note_sent(self, event: Any) -> None:
        """Note which items are open, and how many parts the last one has."""
        self._number = get_field(event, "sequence_number") or self._number
        kind = event.type
        if kind == "response.output_item.added":
            self._open_items[event.output_index] = event.item
            self._next, self._contents = event.output_index + 1, 0
        elif kind == "response.content_part.added":
            self._contents = event.content_index + 1
        elif kind == "response.output_item.done":
            self._open_items.pop(event.output_index, None)

    def build_refusal_events(
        self, answer: Hashable, result: CheckResult, words: str
    ) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the events that end a response with a refusal."""
        whole = self._response
        if whole is None:
            whole = self._builder.build_response(result, self._request, [])
        last, item = next(reversed(self._open_items.items()), (self._next, None))
        if get_field(item, "type") == "message":
            others = [one for output, one in self._open_items.items() if output != last]
            place = RefusalPosition(get_field(item, "id"), last, self._contents, self._number)
            return self._builder.closing_events(result, whole, place, others)
        place = RefusalPosition(build_refusal_item(result)["id"], self._next, 0, self._number)
        begin = self._builder.opening_events(result, whole, place)
        later = place._replace(number=place.number + 1)
        return [
            *begin,
            *self._builder.closing_events(result, whole, later, list(self._open_items.values())),
        ]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the form
        """Return true: a response has one answer."""
        return True


def read_item_texts(items: Sequence[Any]) -> list[PartText]:
    """Return the text of each content part of messages, refusals included."""
    return [
        PartText((get_field(item, "id"), number), _part_text(part))
        for item in items
        if get_field(item, "type") == "message"
        for number, part in enumerate(list_entries(get_field(item, "content")))
        if get_field(part, "type") in _TEXT_FIELDS
    ]


def _part_text(part: Any) -> str:
    name = _TEXT_FIELDS.get(get_field(part, "type"))
    return "" if name is None else get_field(part, name) or ""


def _read_whole_texts(event: Any) -> list[PartText]:
    """Return the complete texts that the end of a part, an item or the response repeats."""
    found: list[PartText] = []
    kind = event.type
    if kind == "response.output_text.done":
        found = [PartText((event.item_id, event.content_index), event.text)]
    elif kind == "response.refusal.done":
        found = [PartText((event.item_id, event.content_index), event.refusal)]
    elif kind.startswith("response.content_part."):
        found = [PartText((event.item_id, event.content_index), _part_text(event.part))]
    elif kind.startswith("response.output_item."):
        found = read_item_texts([event.item])
    elif get_field(event, "response") is not None:
        found = read_item_texts(list_entries(get_field(event.response, "output")))
    return [piece for piece in found if piece.text]
