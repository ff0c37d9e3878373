"""A model whose streamed answers show only what was cleared.

Text is held back where the stream begins. Further on it would leak: what is accumulated, and
what `stream_output` shows of it, passes no hook.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    FinalResultEvent,
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from demur.gate.answer_stream import AnswerStream
from demur.integrations.pydantic_ai.refused import RunRefused, or_end

__all__ = ["Clearing", "HeldBackModel"]


class Clearing(NamedTuple):
    """Who clears what a model says: text while it comes, other output once it is whole.

    `open` begins a text, `cleared` hears of one that was allowed; `judge` raises for an
    output that is not.
    """

    open: Callable[[], AnswerStream]
    cleared: Callable[[str], None]
    judge: Callable[[str], Awaitable[object]]


class HeldBackModel(WrapperModel):
    """A model with streams that wait until they are cleared."""

    def __init__(
        self, wrapped: Model, clearing: Callable[[RunContext[Any] | None], Clearing]
    ) -> None:
        super().__init__(wrapped)
        self._clearing = clearing

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the stream of an answer."""
        async with self.wrapped.request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            yield _HeldBack(model_request_parameters, stream, self._clearing(run_context))


@dataclass
class _HeldBack(StreamedResponse):
    """A stream of which text, and the arguments of output tools, wait until they are cleared."""

    inner: StreamedResponse
    clearing: Clearing

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        outputs = {tool.name for tool in self.model_request_parameters.output_tools}
        part = _Part(self.clearing, outputs, self.inner.cancel)
        async for event in self.inner:
            # The framework makes those anew, of what leaves here.
            if not isinstance(event, FinalResultEvent | PartEndEvent):
                async for out in part.take(event):
                    self._parts_manager.apply_event(out)
                    yield out
        async for out in part.end():
            self._parts_manager.apply_event(out)
            yield out

    def get(self) -> ModelResponse:
        """Return the response so far, of what was let out."""
        state = super().get().state
        return replace(self.inner.get(), parts=self._parts_manager.get_parts(), state=state)

    async def close_stream(self) -> None:
        """Stop listening to the model."""
        await self.inner.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        """Return what the model's own stream raises when it is closed."""
        return self.inner.get_stream_cancel_errors()

    @property
    def usage(self) -> RequestUsage:
        """What the model used so far."""
        return self.inner.usage

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.inner.model_name

    @property
    def provider_name(self) -> str | None:
        """The name of its provider."""
        return self.inner.provider_name

    @property
    def provider_url(self) -> str | None:
        """The address of its provider."""
        return self.inner.provider_url

    @property
    def timestamp(self) -> datetime:
        """When the answer began."""
        return self.inner.timestamp


class _Part:
    """The part of an answer that is under way."""

    def __init__(
        self, clearing: Clearing, outputs: set[str], stop: Callable[[], Awaitable[None]]
    ) -> None:
        self._clearing = clearing
        self._outputs = outputs
        self._stop = stop
        self._text: AnswerStream | None = None
        self._index = 0
        self._kept: list[ModelResponseStreamEvent] | None = None

    async def take(
        self, event: ModelResponseStreamEvent
    ) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what may leave now that this came."""
        if isinstance(event, PartStartEvent):
            async for out in self.end():
                yield out
            self._begin(event)
        if self._text is not None:
            shown = _shown(event, self._text)
            if shown is not None:
                yield shown
            if self._text.stopped:
                async for left in self._stopped():
                    yield left
        elif self._kept is not None:
            self._kept.append(event)
        else:
            yield event

    def _begin(self, event: PartStartEvent) -> None:
        self._index = event.index
        if isinstance(event.part, TextPart):
            self._text = self._clearing.open()
        elif isinstance(event.part, ToolCallPart) and event.part.tool_name in self._outputs:
            self._kept = []

    async def _stopped(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what is left of a text that guards want to hear no more of, if it is allowed."""
        try:
            async for left in self.end():
                yield left
        except RunRefused:
            # Not every model can be stopped; its words go nowhere either way.
            with suppress(Exception):
                await self._stop()
            raise

    async def end(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yield what is left of the part, if it may be shown."""
        text, kept = self._text, self._kept
        self._text, self._kept = None, None
        if text is not None:
            or_end(await text.aend())
            self._clearing.cleared(text.text)
            if text.rest:
                yield PartDeltaEvent(index=self._index, delta=TextPartDelta(text.rest))
        if kept is not None:
            await self._clearing.judge(_arguments(kept))
            for event in kept:
                yield event


def _shown(event: ModelResponseStreamEvent, text: AnswerStream) -> ModelResponseStreamEvent | None:
    """Return the event with so much of its text as may be shown; None if that is nothing."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return replace(event, part=replace(event.part, content=text.add(event.part.content)))
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        shown = text.add(event.delta.content_delta)
        return replace(event, delta=replace(event.delta, content_delta=shown)) if shown else None
    return event


def _arguments(events: Iterable[ModelResponseStreamEvent]) -> str:
    """Return the arguments of the call that these events make up."""
    call: Any = None
    for event in events:
        if isinstance(event, PartStartEvent):
            call = event.part
        elif isinstance(event, PartDeltaEvent):
            call = event.delta.apply(call)
    return str(call.args_as_json_str())
