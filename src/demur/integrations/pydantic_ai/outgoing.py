"""An answer on its way out: its text leaves as it is cleared, other output once it is whole."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters

from demur.integrations.pydantic_ai.messages import is_structured
from demur.integrations.pydantic_ai.refused import RunRefused
from demur.integrations.pydantic_ai.words import TextChecks, TextContinuation, TextBuffer

__all__ = ["AnswerFilter"]


class AnswerFilter:
    """Filters the events of an answer; `parameters` say how a model returns structured output."""

    def __init__(
        self,
        checks: TextChecks,
        parameters: ModelRequestParameters,
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._checks = checks
        self._outputs = {tool.name for tool in parameters.output_tools}
        # JSON escapes characters, so only a complete text can be checked.
        self._is_data = is_structured(parameters)
        self._stop = stop
        self._text = TextBuffer(checks)
        self._kept: list[ModelResponseStreamEvent] = []

    async def feed(
        self, event: ModelResponseStreamEvent
    ) -> AsyncIterator[ModelResponseStreamEvent]:
        """Take an event and yield the events that are cleared now."""
        if self._kept or self._is_output(event):
            self._kept.append(event)
            return
        if isinstance(event, PartStartEvent):
            async for out in self._flush_text():
                yield out
        shown = _filter_event(event, self._text)
        if shown is not None:
            yield shown
        if self._text.is_stopped:
            async for out in self._end_stopped():
                yield out

    async def finish(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Check the rest of the answer and yield it."""
        async for out in self._flush_text():
            yield out
        made, more = _assemble_outputs(self._kept, self._outputs)
        for arguments in made:
            await self._checks.check_text(arguments)
        if more:
            texts = self._text.continue_with(more)
            # Structured output is only parsed joined.
            for text in texts[:1] if self._is_data else texts:
                await self._checks.check_text(text)
        for event in self._kept:
            yield event

    def _is_output(self, event: ModelResponseStreamEvent) -> bool:
        if not isinstance(event, PartStartEvent):
            return False
        if isinstance(event.part, TextPart):
            return self._is_data
        return isinstance(event.part, ToolCallPart) and event.part.tool_name in self._outputs

    async def _flush_text(self) -> AsyncIterator[ModelResponseStreamEvent]:
        left = await self._text.finish()
        if left is not None:
            yield left

    async def _end_stopped(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield the rest of a text that the guards stopped, if it is allowed."""
        try:
            async for left in self._flush_text():
                yield left
        except RunRefused:
            # Some models cannot be stopped; their text is dropped anyway.
            with suppress(Exception):
                await self._stop()
            raise


def _filter_event(
    event: ModelResponseStreamEvent, buffer: TextBuffer
) -> ModelResponseStreamEvent | None:
    """Return the event with its cleared text; None if there is none."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        text = buffer.feed(event.index, event.part.content, new_part=True)
        return replace(event, part=replace(event.part, content=text))
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        text = buffer.feed(event.index, event.delta.content_delta, new_part=False)
        return replace(event, delta=replace(event.delta, content_delta=text)) if text else None
    return event


def _assemble_outputs(
    events: Sequence[ModelResponseStreamEvent], outputs: set[str]
) -> tuple[list[str], list[TextContinuation]]:
    """Return the output arguments that the events make up, and the continued texts."""
    parts: dict[int, Any] = {}
    begun = {event.index for event in events if isinstance(event, PartStartEvent)}
    for event in events:
        if isinstance(event, PartStartEvent):
            parts[event.index] = event.part
        else:
            assert isinstance(event, PartDeltaEvent)
            before = parts.get(event.index)
            if before is None and isinstance(event.delta, TextPartDelta):
                # The part began before these events.
                before = TextPart("")
            if before is not None:
                parts[event.index] = event.delta.apply(before)
    made = [
        part.args_as_json_str()
        for part in parts.values()
        if isinstance(part, ToolCallPart) and part.tool_name in outputs
    ]
    more = [
        TextContinuation(place in begun, part.content)
        for place, part in parts.items()
        if isinstance(part, TextPart) and part.content
    ]
    return made, more
