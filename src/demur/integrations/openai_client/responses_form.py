"""Responses of OpenAI: what is new in a request, and what refuses in a response."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.emit.openai import to_openai_part
from demur.gate.ruling import Ruling
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.call import Opened, Posted, Said, Settings
from demur.integrations.model_client.cutter import Cutter, Piece
from demur.integrations.model_client.stream import (
    AsyncGuardedStream,
    AsyncSaidStream,
    GuardedStream,
    SaidStream,
)
from demur.integrations.model_client.turn import (
    Returned,
    Turn,
    field,
    listed,
    newest,
    result_of,
    text_of,
)

try:
    from openai import AsyncStream, Stream
    from openai.types import responses as types
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["ResponsesForm", "ResponsesStream"]

_OURS = {"system", "developer"}
_OUTPUT = "_output"
_FINAL = {"response.completed", "response.incomplete", "response.failed"}
_EVENTS: Mapping[str, Any] = {
    "response.created": types.ResponseCreatedEvent,
    "response.output_item.added": types.ResponseOutputItemAddedEvent,
    "response.content_part.added": types.ResponseContentPartAddedEvent,
    "response.refusal.delta": types.ResponseRefusalDeltaEvent,
    "response.refusal.done": types.ResponseRefusalDoneEvent,
    "response.content_part.done": types.ResponseContentPartDoneEvent,
    "response.output_item.done": types.ResponseOutputItemDoneEvent,
    "response.completed": types.ResponseCompletedEvent,
}


class ResponsesForm:
    """Reads and writes what `responses` sends and gets."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return what is new in a request."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)
        calls = {field(item, "call_id"): item for item in items if field(item, "name")}
        # What a stored prompt is filled with is said as well.
        variables = field(body.get("prompt"), "variables") or {}
        texts = [text_of(list(variables.values()))]
        returned: list[Returned] = []
        for item in newest(items, _is_answer, whole=whole):
            if _is_output(item):
                call_id = field(item, "call_id")
                call = calls.get(call_id)
                result, name = result_of(field(item, "output")), field(call, "name") or "tool"
                arguments = field(call, "arguments")
                returned.append(Returned(name, result, call_id, arguments))
            elif field(item, "role") not in _OURS and not _is_answer(item):
                texts.append(text_of(field(item, "content")))
        return Turn("\n".join(filter(None, texts)), tuple(returned))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the response as the one choice there is."""
        texts = [text for _, text in _texts(listed(field(response, "output")))]
        return [Said(response, "\n".join(filter(None, texts)))]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a response that refuses."""
        return types.Response.model_validate(_response(ruling, posted, [_item(ruling)]))

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a response that refuses in place of all that it said and asked for."""
        [ruling] = refused.values()
        item = types.ResponseOutputMessage.model_validate(_item(ruling))
        return response.model_copy(update={"output": [item], "status": "completed"})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream of events that refuses."""
        started = _response(ruling, posted, [], status="in_progress")
        item = {**_item(ruling), "content": [], "status": "in_progress"}
        events = [
            _event("response.created", 0, response=started),
            _event("response.output_item.added", 1, output_index=0, item=item),
        ]
        whole = self.refusing(ruling, posted)
        events += _closing(ruling, whole, _Place(item["id"], 0, 0, 2))
        return AsyncSaidStream(events, AsyncStream) if self._awaits else SaidStream(events, Stream)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the events that may leave."""
        form = ResponsesStream(self, posted)
        cutter = Cutter(form, opened, self._settings, awaits=self._awaits)
        kind = AsyncGuardedStream if self._awaits else GuardedStream
        return kind(opened.stream, cutter)


class ResponsesStream:
    """Events of a response. The parts of its answer are content parts, by item and number."""

    def __init__(self, form: ResponsesForm, posted: Posted) -> None:
        self._form = form
        self._posted = posted
        self._started: Any = None
        self._latest: dict[Hashable, Any] = {}
        self._number = 0

    def is_plain(self, event: Any) -> bool:
        """Return whether an event adds text."""
        return bool(event.type == "response.output_text.delta")

    def pieces(self, event: Any) -> Sequence[Piece]:
        """Return the text that an event adds to a content part."""
        self._number = field(event, "sequence_number") or self._number
        if self._started is None:
            self._started = field(event, "response")
        if event.type != "response.output_text.delta":
            return ()
        part = (event.item_id, event.content_index)
        self._latest[part] = event
        return [Piece(part, event.delta)]

    def wholes(self, event: Any) -> Sequence[Piece]:
        """Return the texts that the end of a part, of an item or of all repeats."""
        if event.type == "response.output_text.done":
            return [Piece((event.item_id, event.content_index), event.text)]
        if event.type.startswith("response.content_part."):
            text = field(event.part, "text") if event.part.type == "output_text" else None
            return [Piece((event.item_id, event.content_index), text)] if text else ()
        if event.type.startswith("response.output_item."):
            return _texts([event.item])
        return _texts(listed(event.response.output)) if event.type in _FINAL else ()

    def ended(self, event: Any, running: Collection[Hashable]) -> Sequence[Hashable]:
        """Return the content parts that have come to their end with an event."""
        if event.type in _FINAL:
            return list(running)
        return [part for part, _ in self.wholes(event)]

    def without(self, event: Any, refused: Collection[Hashable]) -> Any | None:  # noqa: ARG002 - part of the form
        """Return an event that adds no text; one that does has nothing else."""
        return None if event.type == "response.output_text.delta" else event

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a content part."""
        # Probabilities of tokens spell the text that is held back.
        return self._latest[part].model_copy(update={"delta": text, "logprobs": []})

    def refusal(self, part: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the events that end a response with a refusal."""
        if part in self._latest:
            event = self._latest[part]
            place = _Place(event.item_id, event.output_index, event.content_index + 1, self._number)
        else:
            place = _Place(_item(ruling)["id"], 0, 0, self._number)
        if self._started is None:
            return _closing(ruling, self._form.refusing(ruling, self._posted), place)
        whole = self._form.replaced(self._started, {0: ruling})
        return _closing(ruling, whole, place)

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the form
        """Return true: a response has one answer."""
        return True


class _Place(NamedTuple):
    """Where in a response a refusal stands, and the number of the event before it."""

    item: str
    output: int
    content: int
    number: int


def _is_output(item: Any) -> bool:
    return str(field(item, "type") or "").endswith(_OUTPUT)


def _is_answer(item: Any) -> bool:
    if field(item, "role") == "assistant":
        return True
    # Calls and reasoning are the model's, too, and have no role.
    return field(item, "type") not in {None, "message"} and not _is_output(item)


def _texts(items: Sequence[Any]) -> list[Piece]:
    """Return the text of each content part of messages."""
    return [
        Piece((field(item, "id"), number), text_of([part]))
        for item in items
        if field(item, "type") == "message"
        for number, part in enumerate(listed(field(item, "content")))
        if field(part, "type") == "output_text"
    ]


def _item(ruling: Ruling, name: str | None = None) -> dict[str, Any]:
    assert ruling.refusal is not None
    part = to_openai_part(ruling.refusal, words=ruling.words)
    return {
        "id": name or f"msg_{_id(ruling)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _id(ruling: Ruling) -> str:
    return "demur" if ruling.record is None else f"demur_{ruling.record.decision_id}"


def _response(
    ruling: Ruling, posted: Posted, output: list[Any], status: str = "completed"
) -> dict[str, Any]:
    return {
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


def _event(kind: str, number: int, **fields: Any) -> Any:
    return _EVENTS[kind].model_validate({"type": kind, "sequence_number": number, **fields})


def _closing(ruling: Ruling, whole: Any, place: _Place) -> list[Any]:
    """Return the events that say a refusal and end its part, its item and the response."""
    item = _item(ruling, place.item)
    [part] = item["content"]
    words = part["refusal"]
    here = {"item_id": place.item, "output_index": place.output, "content_index": place.content}
    message = types.ResponseOutputMessage.model_validate(item)
    ended = whole.model_copy(update={"output": [message], "status": "completed"})
    said: list[tuple[str, dict[str, Any]]] = [
        ("response.content_part.added", {**here, "part": {**part, "refusal": ""}}),
        ("response.refusal.delta", {**here, "delta": words}),
        ("response.refusal.done", {**here, "refusal": words}),
        ("response.content_part.done", {**here, "part": part}),
        ("response.output_item.done", {"output_index": place.output, "item": item}),
        ("response.completed", {"response": ended}),
    ]
    return [
        _event(kind, place.number + after, **fields) for after, (kind, fields) in enumerate(said, 1)
    ]
