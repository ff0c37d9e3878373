"""An answer on its way out: its text leaves as it is cleared, other output once it is whole."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters

from demur.enforce.answer_stream import AnswerStream
from demur.integrations.pydantic_ai.messages import is_data
from demur.integrations.pydantic_ai.refused import RunRefused, or_end

__all__ = ["Clearing", "Outgoing"]


class Clearing(NamedTuple):
    """Who clears what a model says: text while it comes, other output once it is whole.

    `open` begins a text, `cleared` hears of one that was allowed; `judge` raises for an
    output that is not.
    """

    open: Callable[[], AnswerStream]
    cleared: Callable[[str], None]
    judge: Callable[[str], Awaitable[object]]


class _Words:
    """The text of an answer, in one part or several, that is read as one and shown as it comes.

    A part ends where another begins, and may go on after it: then all of it is read again,
    so that nothing is hidden between its pieces, and what was shown is not shown twice.
    """

    def __init__(self, clearing: Clearing) -> None:
        self._clearing = clearing
        self._stream: AnswerStream | None = None
        self._shown_again = 0
        self._passes = False
        self._index = 0
        self.said = ""

    @property
    def stopped(self) -> bool:
        """Whether guards want to hear no more of it."""
        return self._stream is not None and self._stream.stopped

    def add(self, index: int, piece: str, *, new_part: bool) -> str:
        """Return what may be shown after this piece."""
        if self._passes:
            return piece
        if self._stream is None:
            self._stream, self._index = self._clearing.open(), index
            before = f"{self.said}\n" if new_part and self.said else self.said
            self._shown_again = len(before) - len(self._stream.add(before) if before else "")
        return self._new(self._stream.add(piece))

    async def end(self) -> PartDeltaEvent | None:
        """Return what is left of it, if it may be shown."""
        stream, self._stream = self._stream, None
        if stream is None:
            return None
        # What went on though guards looked no further binds nobody.
        self._passes = stream.stopped
        or_end(await stream.aend())
        self.said = stream.text
        self._clearing.cleared(self.said)
        rest = self._new(stream.rest)
        return PartDeltaEvent(index=self._index, delta=TextPartDelta(rest)) if rest else None

    def _new(self, shown: str) -> str:
        again = min(self._shown_again, len(shown))
        self._shown_again -= again
        return shown[again:]


class Outgoing:
    """The events of an answer; `parameters` say by which tools, or text, a model gives data."""

    def __init__(
        self,
        clearing: Clearing,
        parameters: ModelRequestParameters,
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._clearing = clearing
        self._outputs = {tool.name for tool in parameters.output_tools}
        # In JSON, a line break is two other characters: only the whole of it can be read.
        self._is_data = is_data(parameters)
        self._stop = stop
        self._words = _Words(clearing)
        self._kept: list[ModelResponseStreamEvent] = []

    async def take(
        self, event: ModelResponseStreamEvent
    ) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what may leave now that this came."""
        if self._kept or self._is_output(event):
            self._kept.append(event)
            return
        if isinstance(event, PartStartEvent):
            async for out in self._rest():
                yield out
        shown = _shown(event, self._words)
        if shown is not None:
            yield shown
        if self._words.stopped:
            async for out in self._stopped():
                yield out

    async def end(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what is left of the answer, if it may be shown."""
        async for out in self._rest():
            yield out
        made, text = _made_up(self._kept, self._outputs)
        for arguments in made:
            await self._clearing.judge(arguments)
        if text:
            await self._clearing.judge(f"{self._words.said}{text}".removeprefix("\n"))
        for event in self._kept:
            yield event

    def _is_output(self, event: ModelResponseStreamEvent) -> bool:
        if not isinstance(event, PartStartEvent):
            return False
        if isinstance(event.part, TextPart):
            return self._is_data
        return isinstance(event.part, ToolCallPart) and event.part.tool_name in self._outputs

    async def _rest(self) -> AsyncIterator[ModelResponseStreamEvent]:
        left = await self._words.end()
        if left is not None:
            yield left

    async def _stopped(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what is left of a text that guards want to hear no more of, if it is allowed."""
        try:
            async for left in self._rest():
                yield left
        except RunRefused:
            # Not every model can be stopped; its words go nowhere either way.
            with suppress(Exception):
                await self._stop()
            raise


def _shown(event: ModelResponseStreamEvent, words: _Words) -> ModelResponseStreamEvent | None:
    """Return the event with so much of its text as may be shown; None if that is nothing."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        text = words.add(event.index, event.part.content, new_part=True)
        return replace(event, part=replace(event.part, content=text))
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        text = words.add(event.index, event.delta.content_delta, new_part=False)
        return replace(event, delta=replace(event.delta, content_delta=text)) if text else None
    return event


def _made_up(
    events: Sequence[ModelResponseStreamEvent], outputs: set[str]
) -> tuple[list[str], str]:
    """Return the arguments of outputs that events make up, and how the text goes on."""
    parts: dict[int, Any] = {}
    begun = {event.index for event in events if isinstance(event, PartStartEvent)}
    for event in events:
        if isinstance(event, PartStartEvent):
            parts[event.index] = event.part
        else:
            assert isinstance(event, PartDeltaEvent)
            before = parts.get(event.index)
            if before is None and isinstance(event.delta, TextPartDelta):
                # It goes on with a part that has begun before.
                before = TextPart("")
            if before is not None:
                parts[event.index] = event.delta.apply(before)
    made = [
        part.args_as_json_str()
        for part in parts.values()
        if isinstance(part, ToolCallPart) and part.tool_name in outputs
    ]
    texts = [
        f"\n{part.content}" if place in begun else part.content
        for place, part in parts.items()
        if isinstance(part, TextPart)
    ]
    return made, "".join(texts)
