"""Chat completions of OpenAI: what is new in a request, and what refuses in a response."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from demur.emit.openai import to_openai
from demur.enforce.ruling import Ruling
from demur.integrations.extras import missing_extra
from demur.integrations.model_client.cutter import Cutter
from demur.integrations.model_client.form import Opened, Posted, Said
from demur.integrations.model_client.held import Portion
from demur.integrations.model_client.memory import is_refusal
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
        reading = Reading(_is_answer, _is_ours, partial(_read, calls))
        return turn_of(messages, reading, self._settings.refused, whole=whole)

    def said(self, response: Any) -> Sequence[Said]:
        """Return the choices of a completion."""
        choices = listed(field(response, "choices"))
        if len(choices) == 1:
            return [Said(response, (_text(choices[0]),))]
        return [Said(_only(response, choice), (_text(choice),)) for choice in choices]

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

    def unparsed(self, response: Any, posted: Posted) -> Any:
        """Return a completion as it is parsed: what refuses has no content to parse."""
        assert posted.parse is not None
        return posted.parse(response)


class ChatStream:
    """Chunks of a completion. Its answers are the choices, by number, and have one part."""

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self._latest: Any = None
        self._begun: set[Hashable] = set()

    def is_plain(self, event: Any) -> bool:
        """Return whether a chunk adds text and says nothing else, in fields known or new."""
        if event.model_extra or getattr(event, "moderation", None) is not None:
            return False
        return bool(event.choices) and all(map(_is_plain, event.choices))

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return what a chunk says, choice by choice."""
        self._latest = event
        if not event.choices:
            return [Portion(event, answer=None)]
        *others, last = event.choices
        apart = [event.model_copy(update={"choices": [one], "usage": None}) for one in others]
        final = event.model_copy(update={"choices": [last]}) if others else event
        return [_portion(chunk) for chunk in (*apart, final)]

    def without(self, event: Any) -> Any | None:
        """Return a chunk without text."""
        left = [one for one in map(self._bare, event.choices) if one is not None]
        if not left and event.usage is None:
            return None
        return event.model_copy(update={"choices": left})

    def left(self, event: Any) -> None:
        """Do nothing: nothing that chunks open has to be closed."""

    def more(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a choice."""
        return _chunk(self._latest, part, {"content": text})

    def refusal(self, answer: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:  # noqa: ARG002 - part of the form
        """Return the chunks that end a choice with a refusal."""
        return _closing(self._latest, answer, ruling)

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all choices have ended."""
        return len({*refused, *ended}) >= self._choices

    def _bare(self, choice: Any) -> Any | None:
        """Return a choice without the text it adds; None if that was all, or it only repeats."""
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


def _portion(chunk: Any) -> Portion:
    [choice] = chunk.choices
    delta = choice.delta
    return Portion(
        chunk,
        answer=choice.index,
        part=choice.index,
        text=field(delta, "content") or "",
        asks=bool(field(delta, "tool_calls") or field(delta, "function_call")),
        ends=bool(choice.finish_reason),
    )


def _is_answer(message: Any) -> bool:
    if field(message, "role") != "assistant":
        return False
    # A refusal of ours is no answer to what stands above it.
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


def _text(choice: Any) -> str:
    return _content(field(choice, "message"))


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
