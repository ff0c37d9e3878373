"""The events of a response in OpenAI's form, of which only some may leave."""

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from demur.enforce.ruling import Ruling
from demur.integrations.model_client.form import Posted
from demur.integrations.model_client.held import Piece, Portion
from demur.integrations.model_client.responses_made import Made, Place, item_of
from demur.integrations.model_client.turn import field, listed

__all__ = ["CALLS", "ResponsesStream", "texts_of"]

_DELTA = "response.output_text.delta"
_REFUSING = "response.refusal.delta"
_SHOWN = {"output_text": "text", "refusal": "refusal"}
_FINAL = {"response.completed", "response.incomplete", "response.failed"}
# Calls that the client has to make; the provider makes the others.
CALLS = {
    "apply_patch_call",
    "computer_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
}


class ResponsesStream:
    """Events of a response. Its answer consists of content parts, by item and number."""

    def __init__(self, made: Made, posted: Posted) -> None:
        self._made = made
        self._posted = posted
        self._started: Any = None
        self._latest: dict[Hashable, Any] = {}
        self._number = 0
        self._calls: set[int] = set()
        self._refusals: dict[Hashable, str] = {}
        # Items that have begun and not ended, by number.
        self._open: dict[int, Any] = {}
        self._contents = 0
        self._next = 0

    def is_plain(self, event: Any) -> bool:
        """Return whether an event adds text."""
        return bool(event.type == _DELTA)

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return the content of an event."""
        if self._started is None:
            self._started = field(event, "response")
        output = field(event, "output_index")
        if field(field(event, "item"), "type") in CALLS:
            self._calls.add(output)
        kind = event.type
        if kind == _DELTA:
            part = (event.item_id, event.content_index)
            self._latest[part] = event
            return [Portion(event, part=part, text=event.delta)]
        asks, ends = output in self._calls, kind in _FINAL
        wholes = [self._refused(event)] if kind == _REFUSING else _wholes(event)
        return [Portion(event, wholes=tuple(wholes), asks=asks, ends=ends)]

    def _refused(self, event: Any) -> Piece:
        """Return the text of a refusal so far."""
        part = (event.item_id, event.content_index)
        self._refusals[part] = self._refusals.get(part, "") + event.delta
        return Piece(part, self._refusals[part])

    def without(self, event: Any) -> None:
        """Return None: an event that adds text carries nothing else."""

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a content part."""
        # Token log probabilities would spell the text that is held back.
        return self._latest[part].model_copy(update={"delta": text, "logprobs": []})

    def left(self, event: Any) -> None:
        """Note which items are open, and how many parts the last one has."""
        self._number = field(event, "sequence_number") or self._number
        kind = event.type
        if kind == "response.output_item.added":
            self._open[event.output_index] = event.item
            self._next, self._contents = event.output_index + 1, 0
        elif kind == "response.content_part.added":
            self._contents = event.content_index + 1
        elif kind == "response.output_item.done":
            self._open.pop(event.output_index, None)

    def refusal(self, answer: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the events that end a response with a refusal."""
        whole = self._started
        if whole is None:
            whole = self._made.response(ruling, self._posted, [])
        last, item = next(reversed(self._open.items()), (self._next, None))
        if field(item, "type") == "message":
            others = [one for output, one in self._open.items() if output != last]
            place = Place(field(item, "id"), last, self._contents, self._number)
            return self._made.closing(ruling, whole, place, others)
        place = Place(item_of(ruling)["id"], self._next, 0, self._number)
        begin = self._made.beginning(ruling, whole, place)
        later = place._replace(number=place.number + 1)
        return [*begin, *self._made.closing(ruling, whole, later, list(self._open.values()))]

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the form
        """Return true: a response has one answer."""
        return True


def texts_of(items: Sequence[Any]) -> list[Piece]:
    """Return the text of each content part of messages, refusals included."""
    return [
        Piece((field(item, "id"), number), _shown(part))
        for item in items
        if field(item, "type") == "message"
        for number, part in enumerate(listed(field(item, "content")))
        if field(part, "type") in _SHOWN
    ]


def _shown(part: Any) -> str:
    name = _SHOWN.get(field(part, "type"))
    return "" if name is None else field(part, name) or ""


def _wholes(event: Any) -> list[Piece]:
    """Return the complete texts that the end of a part, an item or the response repeats."""
    found: list[Piece] = []
    kind = event.type
    if kind == "response.output_text.done":
        found = [Piece((event.item_id, event.content_index), event.text)]
    elif kind == "response.refusal.done":
        found = [Piece((event.item_id, event.content_index), event.refusal)]
    elif kind.startswith("response.content_part."):
        found = [Piece((event.item_id, event.content_index), _shown(event.part))]
    elif kind.startswith("response.output_item."):
        found = texts_of([event.item])
    elif field(event, "response") is not None:
        found = texts_of(listed(field(event.response, "output")))
    return [piece for piece in found if piece.text]
