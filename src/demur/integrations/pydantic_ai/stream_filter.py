"""A model whose streamed answers show only cleared text.

Text is held back at the source of the stream: accumulated text and `stream_output` pass no
later hook.
"""

from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
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

from demur.enforce.result import append_resources
from demur.enforce.streams import AnswerStream
from demur.integrations.pydantic_ai.messages import RunRefused, is_structured, require_allowed


class TextChecks(NamedTuple):
    """The checks of an answer: of text while it streams, of other output once it is complete.

    `open_stream` begins a text, `mark_cleared` notes an allowed text, `check_text` raises for a
    refused output.
    """

    open_stream: Callable[[], AnswerStream]
    mark_cleared: Callable[[str], None]
    check_text: Callable[[str], Awaitable[object]]


class TextContinuation(NamedTuple):
    """A text that begins a part or continues one."""

    starts_part: bool
    text: str


class _PartReading:
    """One way to join the parts of an answer.

    `before` is the text before a part: the guards read it again, and it is not shown again.
    """

    def __init__(self, stream: AnswerStream, before: str) -> None:
        self.stream = stream
        self._ahead = before
        self._out = -len(before)

    def add(self, piece: str) -> int:
        """Return how many characters of the part are cleared; negative inside `before`."""
        whole, self._ahead = self._ahead + piece, ""
        self._out += len(self.stream.feed(whole))
        return self._out


class TextBuffer:
    """The text of an answer in one or several parts, checked as one text and shown as it comes.

    A part ends where another begins, and may continue later. The guards then read everything
    again, so that nothing hides between the pieces; shown text is not shown twice. Clients join
    the parts or keep them apart; if that makes a difference, both readings are checked.
    """

    def __init__(self, checks: TextChecks) -> None:
        self._checks = checks
        self._open: list[_PartReading] = []
        self._texts_so_far = ("", "")
        self._begins = False
        self._held: deque[str] = deque()
        self._shown = 0
        self._passes_all = False
        self._index = 0

    @property
    def is_stopped(self) -> bool:
        """Whether the guards stopped the text."""
        return any(one.stream.is_stopped for one in self._open)

    def feed(self, index: int, piece: str, *, new_part: bool) -> str:
        """Take a piece and return the text that is cleared now."""
        self._begins = self._begins or new_part
        if self._passes_all or not piece:
            return piece
        if not self._open:
            joined, apart = self._texts_so_far
            if self._begins and apart:
                apart += "\n"
            self._begins = False
            befores = (joined,) if joined == apart else (joined, apart)
            self._open = [_PartReading(self._checks.open_stream(), before) for before in befores]
            self._index, self._shown = index, 0
        clear = min([one.add(piece) for one in self._open])
        self._held.append(piece)
        return "".join(self._take_cleared(clear))

    def _take_cleared(self, clear: int) -> Iterator[str]:
        """Yield held text of the part up to that many characters."""
        while self._shown < clear:
            piece = self._held.popleft()
            shown = piece[: clear - self._shown]
            if shown != piece:
                self._held.appendleft(piece[len(shown) :])
            self._shown += len(shown)
            yield shown

    async def finish(self) -> PartDeltaEvent | None:
        """Check the text and return an event with the rest of it."""
        # After a stop that was allowed, further text passes unchecked.
        self._passes_all = self._passes_all or self.is_stopped
        ended, self._open = self._open, []
        if not ended:
            return None
        results = [require_allowed(await one.stream.afinish()) for one in ended]
        lines = dict.fromkeys(line for result in results for line in result.resources)
        texts, held = [one.stream.text for one in ended], "".join(self._held)
        for result in results:
            changed = [result.apply_changes(text) for text in texts]
            befores = [text.removesuffix(held) for text in texts]
            held = result.apply_changes(held)
            if changed != [before + held for before in befores]:
                # The rest of a part cannot change what was shown of an earlier one.
                await self._checks.check_text(texts[0])
            texts = changed
        for text in texts:
            self._checks.mark_cleared(text)
            self._checks.mark_cleared(append_resources(text, lines))
        self._texts_so_far = (texts[0], texts[-1])
        rest = append_resources(held, lines)
        self._held.clear()
        return PartDeltaEvent(index=self._index, delta=TextPartDelta(rest)) if rest else None

    def continue_with(self, more: Iterable[TextContinuation]) -> tuple[str, ...]:
        """Return the whole text with its continuation, in each reading."""
        joined, apart = self._texts_so_far
        for begins, text in more:
            joined += text
            apart += f"\n{text}" if begins and apart else text
        return (joined,) if joined == apart else (joined, apart)


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
        if isinstance(event, PartStartEvent) and (rest := await self._text.finish()):
            yield rest
        shown = _filter(event, self._text)
        if shown is not None:
            yield shown
        if self._text.is_stopped and (rest := await self._end_stopped()):
            yield rest

    async def finish(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Check the rest of the answer and yield it."""
        if rest := await self._text.finish():
            yield rest
        outputs, continued = _assemble_outputs(self._kept, self._outputs)
        for arguments in outputs:
            await self._checks.check_text(arguments)
        if continued:
            texts = self._text.continue_with(continued)
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

    async def _end_stopped(self) -> PartDeltaEvent | None:
        """Return the rest of a text that the guards stopped, if it is allowed."""
        try:
            return await self._text.finish()
        except RunRefused:
            # Some models cannot be stopped; their text is dropped anyway.
            with suppress(Exception):
                await self._stop()
            raise


def _filter(event: ModelResponseStreamEvent, buffer: TextBuffer) -> ModelResponseStreamEvent | None:
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
    arguments = [
        part.args_as_json_str()
        for part in parts.values()
        if isinstance(part, ToolCallPart) and part.tool_name in outputs
    ]
    continued = [
        TextContinuation(index in begun, part.content)
        for index, part in parts.items()
        if isinstance(part, TextPart) and part.content
    ]
    return arguments, continued


class FilteredModel(WrapperModel):
    """A model whose streams are filtered."""

    def __init__(
        self, wrapped: Model, checks_for: Callable[[RunContext[Any] | None], TextChecks]
    ) -> None:
        super().__init__(wrapped)
        self._checks_for = checks_for

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
            yield _FilteredResponse(model_request_parameters, stream, self._checks_for(run_context))


@dataclass
class _FilteredResponse(StreamedResponse):
    """A stream that holds text and structured outputs until they are cleared."""

    inner: StreamedResponse
    checks: TextChecks

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        answer = AnswerFilter(self.checks, self.model_request_parameters, self.inner.cancel)
        async for event in self.inner:
            # The framework creates these events anew from the filtered ones.
            if not isinstance(event, FinalResultEvent | PartEndEvent):
                async for out in answer.feed(event):
                    self._parts_manager.apply_event(out)
                    yield out
        async for out in answer.finish():
            self._parts_manager.apply_event(out)
            yield out

    def get(self) -> ModelResponse:
        """Return the response so far, of the released parts."""
        state = super().get().state
        return replace(self.inner.get(), parts=self._parts_manager.get_parts(), state=state)

    async def close_stream(self) -> None:
        """Close the model's stream."""
        await self.inner.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        """Return the errors that the model's own stream raises when it is closed."""
        return self.inner.get_stream_cancel_errors()

    @property
    def usage(self) -> RequestUsage:
        """The usage so far."""
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
