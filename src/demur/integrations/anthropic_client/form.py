"""Messages of Anthropic: what is new in a request, and what refuses in a response."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.enforce.ruling import Ruling
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.cutter import Cutter
from demur.integrations.model_client.form import Opened, Posted, Said
from demur.integrations.model_client.held import Piece, Portion
from demur.integrations.model_client.owned import Kind, entries, owned
from demur.integrations.model_client.settings import Settings
from demur.integrations.model_client.stream import (
    AsyncGuardedStream,
    AsyncSaidStream,
    GuardedStream,
    SaidStream,
)
from demur.integrations.model_client.turn import (
    Read,
    Reading,
    Returned,
    Turn,
    field,
    listed,
    result_of,
    text_of,
    turn_of,
)

try:
    from anthropic import AsyncStream, Stream, types
    from anthropic.types import beta
    from anthropic.types.beta.parsed_beta_message import ParsedBetaMessage
    from anthropic.types.parsed_message import ParsedMessage
except ImportError as error:
    raise missing_extra("anthropic") from error

__all__ = ["MessagesForm", "MessagesStream"]

_RESULT = "_result"
_EVENTS: Mapping[str, Any] = {
    "message_start": types.RawMessageStartEvent,
    "content_block_start": types.RawContentBlockStartEvent,
    "content_block_delta": types.RawContentBlockDeltaEvent,
    "content_block_stop": types.RawContentBlockStopEvent,
    "message_delta": types.RawMessageDeltaEvent,
    "message_stop": types.RawMessageStopEvent,
}
_BETA_EVENTS: Mapping[str, Any] = {
    "message_start": beta.BetaRawMessageStartEvent,
    "content_block_start": beta.BetaRawContentBlockStartEvent,
    "content_block_delta": beta.BetaRawContentBlockDeltaEvent,
    "content_block_stop": beta.BetaRawContentBlockStopEvent,
    "message_delta": beta.BetaRawMessageDeltaEvent,
    "message_stop": beta.BetaRawMessageStopEvent,
}


class MessagesForm:
    """Reads and writes requests and responses of `messages`."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request."""
        messages = listed(body.get("messages"))
        calls = {field(block, "id"): block for block in _blocks(messages) if field(block, "name")}
        reading = Reading(_is_answer, _is_ours, partial(_read, calls))
        return turn_of(messages, reading, self._settings.refused, whole=whole)

    def own(self, answer: Any, posted: Posted) -> Any:
        """Return the value of a fallback function as a message or a stream."""
        stream = AsyncStream if self._awaits else Stream
        kind: Any = posted.cast_to if posted.cast_to is beta.BetaMessage else types.Message
        head = {"id": "msg_demur", "type": "message", "role": "assistant", "model": posted.model}
        usage = {"input_tokens": 0, "output_tokens": 0}
        return owned(answer, posted, Kind(kind, stream, "content", {**head, "usage": usage}))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the message as its only choice."""
        blocks = entries(response, "content")
        asks = any(field(block, "type") == "tool_use" for block in blocks)
        return [Said(response, tuple(_texts(blocks)), asks)]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a refusing message."""
        kind = posted.cast_to if hasattr(posted.cast_to, "model_validate") else types.Message
        return kind.model_validate(_message(ruling, posted.model))

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a message with all its content replaced by a refusal."""
        [ruling] = refused.values()
        update = type(response).model_validate(_message(ruling, response.model))
        names = ("content", "stop_reason", "stop_details", "stop_sequence")
        return response.model_copy(update={name: getattr(update, name, None) for name in names})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a refusing stream of events."""
        message = {**_message(ruling, posted.model), "content": []}
        start = {**message, "stop_reason": None, "stop_details": None}
        form = MessagesStream(posted)
        events = [
            form.event("message_start", message=start),
            *form.refusal(0, ruling, ruling.words),
        ]
        return AsyncSaidStream(events, AsyncStream) if self._awaits else SaidStream(events, Stream)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the cleared events."""
        cutter = Cutter(MessagesStream(posted), opened, self._settings, awaits=self._awaits)
        kind = AsyncGuardedStream if self._awaits else GuardedStream
        return kind(opened.stream, cutter)

    def unparsed(self, response: Any, posted: Posted) -> Any:  # noqa: ARG002 - part of the form
        """Return a refusing message in the parsed type; its text is not parsed."""
        is_beta = isinstance(response, beta.BetaMessage)
        kind: Any = ParsedBetaMessage if is_beta else ParsedMessage
        return kind.model_validate(response.to_dict())


class _Block(NamedTuple):
    """A block that has begun and not ended for the client."""

    number: int
    is_text: bool


class MessagesStream:
    """Events of a message. Its answer consists of blocks, by number."""

    def __init__(self, posted: Posted) -> None:
        self._kinds = _BETA_EVENTS if posted.cast_to is beta.BetaMessage else _EVENTS
        self._is_parsed = _is_parsed(posted.body)
        self._calls: set[int] = set()
        self._open: _Block | None = None
        self._next = 0

    def is_plain(self, event: Any) -> bool:
        """Return whether an event adds to a block."""
        return bool(event.type == "content_block_delta")

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return the content of an event."""
        index = field(event, "index")
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._calls.add(index)
        if event.type == "message_start":
            texts = enumerate(_texts(listed(field(event.message, "content"))))
            wholes = tuple(Piece(("message", number), text) for number, text in texts if text)
            return [Portion(event, wholes=wholes)]
        ends = event.type in {"message_delta", "message_stop"}
        asks = index in self._calls
        return [Portion(event, part=index, text=_added(event), asks=asks, ends=ends)]

    def without(self, event: Any) -> Any | None:
        """Return an event without its text."""
        if event.type != "content_block_start":
            return None
        block = event.content_block.model_copy(update={"text": ""})
        return event.model_copy(update={"content_block": block})

    def left(self, event: Any) -> None:
        """Note which block is open."""
        if event.type == "content_block_start":
            self._open = _Block(event.index, event.content_block.type == "text")
            self._next = event.index + 1
        elif event.type == "content_block_stop":
            self._open = None

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a block."""
        delta = {"type": "text_delta", "text": text}
        return self.event("content_block_delta", index=part, delta=delta)

    def event(self, kind: str, **fields: Any) -> Any:
        """Return an event in the type of the stream."""
        return self._kinds[kind].model_validate({"type": kind, **fields})

    def refusal(self, answer: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the events that end a message with a refusal."""
        block, out = self._open, []
        if block is None or not block.is_text:
            if block is not None:
                out.append(self.event("content_block_stop", index=block.number))
            begin = {"type": "text", "text": ""}
            block = _Block(self._next, is_text=True)
            out.append(self.event("content_block_start", index=block.number, content_block=begin))
        out.append(self.more(block.number, words))
        if not self._is_parsed:
            # The SDK parses a block at its end; neither a refusal nor half an answer parses.
            out.append(self.event("content_block_stop", index=block.number))
        delta = {"stop_reason": "refusal", "stop_details": _details(ruling), "stop_sequence": None}
        ended = self.event("message_delta", delta=delta, usage={"output_tokens": 0})
        return [*out, ended, self.event("message_stop")]

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the form
        """Return true: a message has one answer."""
        return True


def _is_answer(message: Any) -> bool:
    return field(message, "role") == "assistant"


def _is_ours(message: Any) -> bool:
    return field(message, "role") == "system"


def _added(event: Any) -> str:
    """Return the text that an event adds to its block."""
    if event.type == "content_block_start":
        return field(event.content_block, "text") or ""
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        return str(event.delta.text)
    return ""


def _texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        if field(block, "type") == "text":
            yield field(block, "text") or ""


def _blocks(messages: Sequence[Any]) -> Iterator[Any]:
    for message in messages:
        yield from listed(field(message, "content"))


def _read(calls: Mapping[Any, Any], message: Any) -> Read:
    content = field(message, "content")
    if isinstance(content, str):
        return Read((content,))
    texts: list[str] = []
    returned: list[Returned] = []
    for block in listed(content):
        if str(field(block, "type")).endswith(_RESULT) and field(block, "tool_use_id"):
            returned.append(_returned(block, calls))
        else:
            texts.append(text_of([block]))
    return Read(tuple(texts), tuple(returned))


def _returned(block: Any, calls: Mapping[Any, Any]) -> Returned:
    call_id = field(block, "tool_use_id")
    call = calls.get(call_id)
    result = result_of(field(block, "content"))
    return Returned(field(call, "name") or "tool", result, call_id, field(call, "input"))


def _details(ruling: Ruling) -> dict[str, Any]:
    return {"type": "refusal", "category": None, "explanation": ruling.line}


def _message(ruling: Ruling, model: str) -> dict[str, Any]:
    decision = "" if ruling.record is None else f"_{ruling.record.decision_id}"
    return {
        "id": f"msg_demur{decision}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": ruling.words}],
        "stop_reason": "refusal",
        "stop_details": _details(ruling),
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _is_parsed(body: Mapping[str, Any]) -> bool:
    return bool(body.get("output_format") or field(body.get("output_config"), "format"))
