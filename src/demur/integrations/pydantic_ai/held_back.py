"""A model whose streamed answers show only what was cleared.

Text is held back where the stream begins. Further on it would leak: what is accumulated, and
what `stream_output` shows of it, passes no hook.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    FinalResultEvent,
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartEndEvent,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from demur.integrations.pydantic_ai.outgoing import AnswerFilter
from demur.integrations.pydantic_ai.words import TextChecks

__all__ = ["FilteredModel"]


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
