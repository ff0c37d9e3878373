"""Messages of Anthropic: what is new in a request, and what refuses in a response."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

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
    from anthropic import AsyncStream, Stream, types
    from anthropic.types import beta
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
    """Reads and writes what `messages` sends and gets."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return what is new in a request."""
        messages = listed(body.get("messages"))
        calls = {field(block, "id"): block for block in _blocks(messages) if field(block, "name")}
        texts: list[str] = []
        returned: list[Returned] = []
        for message in newest(messages, _is_answer, whole=whole):
            content = field(message, "content")
            if _is_answer(message) or field(message, "role") == "system":
                continue
            if isinstance(content, str):
                texts.append(content)
            for block in listed(content):
                if str(field(block, "type")).endswith(_RESULT) and field(block, "tool_use_id"):
                    returned.append(_returned(block, calls))
                else:
                    texts.append(text_of([block]))
        return Turn("\n".join(filter(None, texts)), tuple(returned))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the message as the one choice there is."""
        texts = [
            field(block, "text")
            for block in listed(field(response, "content"))
            if field(block, "type") == "text"
        ]
        return [Said(response, "\n".join(filter(None, texts)))]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a message that refuses."""
        kind = posted.cast_to if hasattr(posted.cast_to, "model_validate") else types.Message
        return kind.model_validate(_message(ruling, posted.model))

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a message that refuses in place of all that it said and asked for."""
        [ruling] = refused.values()
        update = type(response).model_validate(_message(ruling, response.model))
        names = ("content", "stop_reason", "stop_details", "stop_sequence")
        return response.model_copy(update={name: getattr(update, name, None) for name in names})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream of events that refuses."""
        message = {**_message(ruling, posted.model), "content": []}
        start = {**message, "stop_reason": None, "stop_details": None}
        begin = {"type": "text", "text": ""}
        kinds = _kinds(posted)
        events = [
            _event(kinds, "message_start", message=start),
            _event(kinds, "content_block_start", index=0, content_block=begin),
            *_closing(kinds, 0, ruling, ruling.words),
        ]
        return AsyncSaidStream(events, AsyncStream) if self._awaits else SaidStream(events, Stream)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the events that may leave."""
        cutter = Cutter(MessagesStream(_kinds(posted)), opened, self._settings, awaits=self._awaits)
        kind = AsyncGuardedStream if self._awaits else GuardedStream
        return kind(opened.stream, cutter)


class MessagesStream:
    """Events of a message. The parts of its answer are blocks, by number."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = kinds

    def is_plain(self, event: Any) -> bool:
        """Return whether an event adds to a block."""
        return bool(event.type == "content_block_delta")

    def pieces(self, event: Any) -> Sequence[Piece]:
        """Return the text that an event adds to a block."""
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            return [Piece(event.index, event.delta.text)]
        if _begins_with_text(event):
            return [Piece(event.index, event.content_block.text)]
        return ()

    def wholes(self, event: Any) -> Sequence[Piece]:  # noqa: ARG002 - part of the form
        """Return nothing: no event repeats what others said."""
        return ()

    def ended(self, event: Any, running: Collection[Hashable]) -> Sequence[Hashable]:
        """Return the blocks that have come to their end with an event."""
        if event.type in {"message_delta", "message_stop"}:
            return list(running)
        return [event.index] if event.type == "content_block_stop" else ()

    def without(self, event: Any, refused: Collection[Hashable]) -> Any | None:  # noqa: ARG002 - part of the form
        """Return an event without the text that it adds."""
        if _begins_with_text(event):
            block = event.content_block.model_copy(update={"text": ""})
            return event.model_copy(update={"content_block": block})
        return None if self.pieces(event) else event

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a block."""
        delta = {"type": "text_delta", "text": text}
        return _event(self._kinds, "content_block_delta", index=part, delta=delta)

    def refusal(self, part: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:
        """Return the events that end a message with a refusal."""
        return _closing(self._kinds, part, ruling, words)

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the form
        """Return true: a message has one answer."""
        return True


def _is_answer(message: Any) -> bool:
    return field(message, "role") == "assistant"


def _begins_with_text(event: Any) -> bool:
    return event.type == "content_block_start" and bool(getattr(event.content_block, "text", ""))


def _blocks(messages: Sequence[Any]) -> Iterator[Any]:
    for message in messages:
        yield from listed(field(message, "content"))


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


def _kinds(posted: Posted) -> Mapping[str, Any]:
    return _BETA_EVENTS if posted.cast_to is beta.BetaMessage else _EVENTS


def _event(kinds: Mapping[str, Any], kind: str, **fields: Any) -> Any:
    return kinds[kind].model_validate({"type": kind, **fields})


def _closing(kinds: Mapping[str, Any], index: Hashable, ruling: Ruling, words: str) -> list[Any]:
    """Return the events that say a refusal in a block and end the message with it."""
    said = {"type": "text_delta", "text": words}
    delta = {"stop_reason": "refusal", "stop_details": _details(ruling), "stop_sequence": None}
    return [
        _event(kinds, "content_block_delta", index=index, delta=said),
        _event(kinds, "content_block_stop", index=index),
        _event(kinds, "message_delta", delta=delta, usage={"output_tokens": 0}),
        _event(kinds, "message_stop"),
    ]
