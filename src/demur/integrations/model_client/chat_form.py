"""Chat completions, in the form that OpenAI gave them and others took over.

What is new in a request, and what refuses in a response; an SDK names its own types.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.emit.openai import to_openai
from demur.enforce.ruling import Ruling
from demur.integrations.model_client.chat_stream import ChatStream, ChunkKinds
from demur.integrations.model_client.cutter import Cutter
from demur.integrations.model_client.form import Opened, Posted, Said
from demur.integrations.model_client.memory import is_refusal
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
    pieces_of,
    result_of,
    text_of,
    turn_of,
)

__all__ = ["ChatForm", "ChatKinds", "refusing_message", "said_by"]

_PATH_ID = "chatcmpl-demur"
_OURS = {"system", "developer"}
_TOOLS = {"tool", "function"}


def refusing_message(ruling: Ruling) -> dict[str, Any]:
    """Return a refusal message: words, then the line, in OpenAI's `refusal` field."""
    assert ruling.refusal is not None
    return to_openai(ruling.refusal, words=ruling.words)


def said_by(view: Any, choice: Any) -> Said:
    """Return the texts and calls of a choice of a completion."""
    message = field(choice, "message")
    asks = bool(field(message, "tool_calls") or field(message, "function_call"))
    refusing = field(message, "refusal")
    content = field(message, "content")
    texts = (content,) if isinstance(content, str) else pieces_of(content)
    return Said(view, texts, asks, refusing if isinstance(refusing, str) else "")


class ChatKinds(NamedTuple):
    """An SDK's types for chat completions; each pair is sync, then async.

    `make_message` returns the fields of a refusal message.
    """

    completion: Any
    chunk: Any
    chunks: ChunkKinds
    streams: tuple[Any, Any]
    guarded: tuple[Any, Any] = (GuardedStream, AsyncGuardedStream)
    message: Callable[[Ruling], dict[str, Any]] = refusing_message


class ChatForm:
    """Reads and writes requests and responses of chat completions."""

    def __init__(self, kinds: ChatKinds, settings: Settings, *, awaits: bool) -> None:
        self._kinds = kinds
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request."""
        messages = listed(body.get("messages"))
        calls = {
            field(call, "id"): field(call, "function") or field(call, "custom")
            for message in messages
            for call in listed(field(message, "tool_calls"))
        }
        reading = Reading(_is_answer, _is_ours, partial(_read, calls))
        return turn_of(messages, reading, self._settings.refused, whole=whole)

    def own(self, answer: Any, posted: Posted) -> Any:
        """Return the value of a fallback function as a completion or a stream."""
        head = {"id": _PATH_ID, "created": 0, "model": posted.model, "object": "chat.completion"}
        stream = self._kinds.streams[self._awaits]
        return owned(answer, posted, Kind(self._kinds.completion, stream, "choices", head))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a completion."""
        choices = entries(response, "choices")
        if len(choices) == 1:
            return [said_by(response, choices[0])]
        return [said_by(_only(response, choice), choice) for choice in choices]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a completion that refuses."""
        choice = {"index": 0, "finish_reason": "stop", "message": self._kinds.message(ruling)}
        data = {**_head(ruling, posted), "object": "chat.completion", "choices": [choice]}
        return self._kinds.completion.model_validate(data)

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a completion with these choices replaced by refusals."""
        choices = [
            self._refusing(choice, refused[number]) if number in refused else choice
            for number, choice in enumerate(response.choices)
        ]
        return response.model_copy(update={"choices": choices})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream of chunks that refuses."""
        begin = {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
        data = {**_head(ruling, posted), "object": "chat.completion.chunk", "choices": [begin]}
        first = self._kinds.chunk.model_validate(data)
        form = self._stream(posted)
        form.portions(first)
        events = [first, *form.refusal(0, ruling, ruling.words)]
        kind = self._kinds.streams[self._awaits]
        return AsyncSaidStream(events, kind) if self._awaits else SaidStream(events, kind)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the cleared chunks."""
        cutter = Cutter(self._stream(posted), opened, self._settings, awaits=self._awaits)
        return self._kinds.guarded[self._awaits](opened.stream, cutter)

    def unparsed(self, response: Any, posted: Posted) -> Any:
        """Return a refusing completion in the parsed type; it has no content to parse."""
        assert posted.parse is not None
        return posted.parse(response)

    def _stream(self, posted: Posted) -> ChatStream:
        return ChatStream(self._kinds.chunks, self._kinds.message, int(posted.body.get("n") or 1))

    def _refusing(self, choice: Any, ruling: Ruling) -> Any:
        # The new message drops tool calls; token log probabilities would spell the old text.
        message = type(choice.message).model_validate(self._kinds.message(ruling))
        update = {"message": message, "finish_reason": "stop", "logprobs": None}
        return choice.model_copy(update=update)


def _is_answer(message: Any) -> bool:
    if field(message, "role") != "assistant":
        return False
    # demur's own refusal does not answer the messages before it.
    return not (is_refusal(field(message, "refusal")) or is_refusal(_content(message)))


def _is_ours(message: Any) -> bool:
    return field(message, "role") in _OURS


def _read(calls: Mapping[Any, Any], message: Any) -> Read:
    if field(message, "role") not in _TOOLS:
        return Read((_content(message),))
    call_id = field(message, "tool_call_id")
    call = calls.get(call_id)
    name = field(call, "name") or field(message, "name") or "tool"
    result = result_of(field(message, "content"))
    return Read(returned=(Returned(name, result, call_id, field(call, "arguments")),))


def _content(message: Any) -> str:
    return text_of(field(message, "content"))


def _only(response: Any, choice: Any) -> Any:
    if isinstance(response, Mapping):
        return {**response, "choices": [choice]}
    return response.model_copy(update={"choices": [choice]})


def _head(ruling: Ruling, posted: Posted) -> dict[str, Any]:
    decision = "" if ruling.record is None else f"-{ruling.record.decision_id}"
    return {"id": f"{_PATH_ID}{decision}", "created": 0, "model": posted.model}
