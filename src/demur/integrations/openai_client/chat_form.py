"""Chat completions of OpenAI: what is new in a request, and what refuses in a response."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from demur.emit.openai import to_openai
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
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["ChatForm", "ChatStream"]

_PATH_ID = "chatcmpl-demur"
_OURS = {"system", "developer"}
_TOOLS = {"tool", "function"}


class ChatForm:
    """Reads and writes what `chat.completions` sends and gets."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return what is new in a request."""
        messages = listed(body.get("messages"))
        calls = {
            field(call, "id"): field(call, "function") or field(call, "custom")
            for message in messages
            for call in listed(field(message, "tool_calls"))
        }
        texts: list[str] = []
        returned: list[Returned] = []
        for message in newest(messages, _is_answer, whole=whole):
            role, content = field(message, "role"), field(message, "content")
            if role in _TOOLS:
                returned.append(_returned(message, content, calls))
            elif role not in _OURS and not _is_answer(message):
                texts.append(text_of(content))
        return Turn("\n".join(filter(None, texts)), tuple(returned))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a completion."""
        choices = listed(field(response, "choices"))
        if len(choices) == 1:
            return [Said(response, _text(choices[0]))]
        return [Said(_only(response, choice), _text(choice)) for choice in choices]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a completion that refuses."""
        choice = {"index": 0, "finish_reason": "stop", "message": _message(ruling)}
        data = {**_head(ruling, posted), "object": "chat.completion", "choices": [choice]}
        return ChatCompletion.model_validate(data)

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a completion whose choices of these numbers refuse."""
        choices = [
            _refusing(choice, refused[number]) if number in refused else choice
            for number, choice in enumerate(response.choices)
        ]
        return response.model_copy(update={"choices": choices})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream of chunks that refuses."""
        begin = {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
        data = {**_head(ruling, posted), "object": "chat.completion.chunk", "choices": [begin]}
        first = ChatCompletionChunk.model_validate(data)
        events = [first, *_closing(first, 0, ruling)]
        return AsyncSaidStream(events, AsyncStream) if self._awaits else SaidStream(events, Stream)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the chunks that may leave."""
        form = ChatStream(int(posted.body.get("n") or 1))
        cutter = Cutter(form, opened, self._settings, awaits=self._awaits)
        kind = AsyncGuardedStream if self._awaits else GuardedStream
        return kind(opened.stream, cutter)


class ChatStream:
    """Chunks of a completion. The parts of its answer are the choices, by number."""

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self._latest: Any = None
        self._begun: set[Hashable] = set()

    def is_plain(self, event: Any) -> bool:
        """Return whether a chunk adds text and says nothing else, in fields known or new."""
        if event.model_extra or getattr(event, "moderation", None) is not None:
            return False
        return bool(event.choices) and all(map(_is_plain, event.choices))

    def pieces(self, event: Any) -> Sequence[Piece]:
        """Return the text that a chunk adds to each choice."""
        self._latest = event
        return [
            Piece(choice.index, choice.delta.content)
            for choice in event.choices
            if choice.delta is not None and choice.delta.content
        ]

    def wholes(self, event: Any) -> Sequence[Piece]:  # noqa: ARG002 - part of the form
        """Return nothing: no chunk repeats what others said."""
        return ()

    def ended(self, event: Any, running: Collection[Hashable]) -> Sequence[Hashable]:
        """Return the choices that finish with a chunk."""
        finished = [choice.index for choice in event.choices if choice.finish_reason]
        return [index for index in finished if index in running]

    def without(self, event: Any, refused: Collection[Hashable]) -> Any | None:
        """Return a chunk without text, and without choices that were refused."""
        kept = [choice for choice in event.choices if choice.index not in refused]
        rest = [self._bare(choice) for choice in kept]
        left = [choice for choice in rest if choice is not None]
        if event.choices and not left and event.usage is None:
            return None
        return event.model_copy(update={"choices": left})

    def more(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a choice."""
        return _chunk(self._latest, part, {"content": text})

    def refusal(self, part: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the chunks that end a choice with a refusal."""
        return _closing(self._latest, part, ruling)

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all choices have ended."""
        return len({*refused, *ended}) >= self._choices

    def _bare(self, choice: Any) -> Any | None:
        """Return a choice without the text it adds; None if that was all, or it only repeats."""
        if choice.delta is None or not choice.delta.content:
            return choice
        others = choice.delta.model_dump(exclude_none=True, exclude={"content"})
        if choice.index in self._begun:
            others.pop("role", None)
        self._begun.add(choice.index)
        if not others and not choice.finish_reason:
            return None
        # Probabilities of tokens spell the text that is held back.
        delta = ChoiceDelta.model_validate(others)
        return choice.model_copy(update={"delta": delta, "logprobs": None})


def _is_plain(choice: Any) -> bool:
    delta = choice.delta
    if choice.finish_reason or choice.model_extra or delta is None:
        return False
    return bool(delta.content) and not delta.refusal and not delta.model_extra


def _is_answer(message: Any) -> bool:
    return field(message, "role") == "assistant"


def _returned(message: Any, content: Any, calls: Mapping[Any, Any]) -> Returned:
    call_id = field(message, "tool_call_id")
    call = calls.get(call_id)
    name = field(call, "name") or field(message, "name") or "tool"
    return Returned(name, result_of(content), call_id, field(call, "arguments"))


def _text(choice: Any) -> str:
    return text_of(field(field(choice, "message"), "content"))


def _only(response: Any, choice: Any) -> Any:
    return response.model_copy(update={"choices": [choice]})


def _message(ruling: Ruling) -> dict[str, Any]:
    assert ruling.refusal is not None
    return to_openai(ruling.refusal, words=ruling.words)


def _refusing(choice: Any, ruling: Ruling) -> Any:
    # Tool calls and probabilities of tokens go with the message that they were part of.
    message = type(choice.message).model_validate(_message(ruling))
    update = {"message": message, "finish_reason": "stop", "logprobs": None}
    return choice.model_copy(update=update)


def _head(ruling: Ruling, posted: Posted) -> dict[str, Any]:
    decision = "" if ruling.record is None else f"-{ruling.record.decision_id}"
    return {"id": f"{_PATH_ID}{decision}", "created": 0, "model": posted.model}


def _chunk(like: Any, index: Hashable, delta: Mapping[str, Any], finish: str | None = None) -> Any:
    data = {"index": index, "delta": ChoiceDelta.model_validate(delta), "finish_reason": finish}
    return like.model_copy(update={"choices": [Choice.model_validate(data)], "usage": None})


def _closing(like: Any, index: Hashable, ruling: Ruling) -> list[Any]:
    words = _message(ruling)["refusal"]
    return [_chunk(like, index, {"refusal": words}), _chunk(like, index, {}, "stop")]
