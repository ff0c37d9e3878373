"""Streamed answers: chunks of a chat leave as they are cleared, other streams once they are whole.

A chunk keeps its form; only text that is not cleared yet waits for a later one. Tool calls
wait for the end, because their arguments do.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from litellm.types.utils import ModelResponseStream

from demur.enforce.answer_stream import AnswerStream
from demur.enforce.ruling import Ruling
from demur.integrations.litellm.reading import Called
from demur.integrations.litellm.refused import GuardrailRefused, keep

__all__ = ["Ended", "held_back"]


class Ended(NamedTuple):
    """The checks at the end of an answer; each raises if it refuses.

    `open_stream` begins a text. `check_text` checks a text that was held back and returns the
    rest of it. `check_calls` returns the results of tool calls. `check_model` looks for a
    model's refusal in a finished choice. `check_whole` checks a stream of another format.
    """

    open: Callable[[], AnswerStream]
    text: Callable[[AnswerStream], Awaitable[str]]
    calls: Callable[[list[Called]], Awaitable[list[Ruling]]]
    model: Callable[[Any, str], Awaitable[None]]
    whole: Callable[[list[Any]], Awaitable[None]]


class _Choice:
    """One choice of a stream."""

    def __init__(self, text: AnswerStream) -> None:
        self.text = text
        self.calls: list[Any] = []
        self._open: dict[int, Any] = {}
        self.older: Any = None
        self.refusing: AnswerStream | None = None
        self.cleared = False
        self.ended = False

    def shown(self, piece: str) -> str:
        """Return the text that is cleared after this piece."""
        return piece if self.cleared else self.text.add(piece)

    def take_older(self, piece: Any) -> None:
        """Hold a piece of a call in the older `function_call` format."""
        if self.older is None:
            self.older = piece.model_copy()
        else:
            self.older.arguments = (self.older.arguments or "") + (piece.arguments or "")

    def take_refusing(self, piece: str, by: Ended) -> None:
        """Hold a piece of the model's refusal text."""
        if self.refusing is None:
            self.refusing = by.open()
        self.refusing.add(piece)

    async def rest(self, by: Ended) -> str:
        """Check a finished text and return the part that was held back."""
        rest = "" if self.cleared else await by.text(self.text)
        self.cleared = True
        return rest

    def take_calls(self, calls: Any) -> None:
        """Hold pieces of tool calls, joined by index."""
        for place, piece in enumerate(calls or ()):
            index = place if piece.index is None else piece.index
            whole = self._open.get(index)
            # Some providers use one index for all calls.
            if whole is None or (piece.id and whole.id and piece.id != whole.id):
                whole = self._open[index] = piece.model_copy(deep=True)
                self.calls.append(whole)
            elif piece.function is not None and piece.function.arguments:
                before = whole.function.arguments or ""
                whole.function.arguments = before + piece.function.arguments


async def held_back(stream: AsyncIterable[Any], by: Ended) -> AsyncIterator[Any]:
    """Yield the chunks of a stream with cleared text only."""
    choices: dict[int, _Choice] = {}
    others: list[Any] = []
    last: ModelResponseStream | None = None
    async for chunk in stream:
        if others or not isinstance(chunk, ModelResponseStream):
            others.append(chunk)
        elif not chunk.choices:
            yield chunk
        else:
            first, last = last is None, chunk.model_copy(deep=True)
            if await _shown(last, choices, by) or first:
                yield last
            async for out in _stopped(stream, last, choices, by):
                yield out
    if last is not None:
        async for out in _broken_off(last, choices, by):
            yield out
    await by.whole(others)
    for chunk in others:
        yield chunk


async def _broken_off(
    last: ModelResponseStream, choices: dict[int, _Choice], by: Ended
) -> AsyncIterator[ModelResponseStream]:
    """Yield the rest of choices without a finish reason, after their checks."""
    for index, choice in choices.items():
        if not choice.ended:
            chunk, part = _alone(last, index)
            await _end(part, choice, by)
            yield chunk


async def _stopped(
    stream: Any, last: ModelResponseStream, choices: dict[int, _Choice], by: Ended
) -> AsyncIterator[ModelResponseStream]:
    """Yield the rest of choices that the guards stopped, if they are allowed."""
    for index, choice in choices.items():
        if choice.text.stopped and not choice.cleared:
            chunk, part = _alone(last, index)
            try:
                part.delta.content = await choice.rest(by)
            except GuardrailRefused:
                # Some streams cannot be closed; their text is dropped anyway.
                with suppress(Exception):
                    await stream.aclose()
                raise
            yield chunk


def _alone(last: ModelResponseStream, index: int) -> tuple[ModelResponseStream, Any]:
    """Return a copy of the last chunk with one empty choice."""
    chunk = last.model_copy(deep=True)
    part: Any = chunk.choices[0]
    part.index, part.finish_reason = index, None
    part.delta.content, part.delta.tool_calls = "", None
    chunk.choices = [part]
    return chunk, part


async def _shown(chunk: ModelResponseStream, choices: dict[int, _Choice], by: Ended) -> bool:
    """Reduce a chunk to its cleared content; return whether any content is left."""
    left = False
    for part in chunk.choices:
        choice = choices.get(part.index)
        if choice is None:
            choice = choices[part.index] = _Choice(by.open())
        delta: Any = part.delta
        piece, calls = getattr(delta, "content", None), getattr(delta, "tool_calls", None)
        choice.take_calls(calls)
        older = getattr(delta, "function_call", None)
        if older is not None:
            choice.take_older(older)
            delta.function_call = None
        refusing = getattr(delta, "refusal", None)
        if refusing:
            choice.take_refusing(refusing, by)
            delta.refusal = None
        shown = choice.shown(piece) if piece else ""
        delta.content, delta.tool_calls = shown if piece else piece, None
        if part.finish_reason is not None:
            await _end(part, choice, by)
        held = (piece or calls or older or refusing) and not shown and part.finish_reason is None
        left = left or not held or bool(getattr(delta, "reasoning_content", None))
    return left


async def _end(part: Any, choice: _Choice, by: Ended) -> None:
    choice.ended = True
    rest = await choice.rest(by)
    await by.model(part, "" if choice.calls else choice.text.text)
    if choice.refusing is not None:
        await by.text(choice.refusing)
        part.delta.refusal = choice.refusing.text
    if rest:
        part.delta.content = (part.delta.content or "") + rest
    if choice.older is not None:
        await by.calls([Called(str(choice.older.name), choice.older.arguments or "", None)])
        part.delta.function_call = choice.older
    if choice.calls:
        rulings = await by.calls([_called(call) for call in choice.calls])
        keep(part.delta, choice.calls, rulings)


def _called(call: Any) -> Called:
    function = call.function
    return Called(str(function.name), function.arguments or "", call.id)
