"""A model whose answer is guarded while it is written.

Nobody who streams a run hears a model by itself. A copy of a model that streams hands out what
may be shown, and those who listen hear the copy; an answer of any other model is shown once it
was judged, as what its node returns.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult
from demur.integrations.langchain.chunks import ChunkFilter, chunk_text
from demur.integrations.langchain.listeners import RunListeners, list_handlers

__all__ = ["ModelWatch"]


class ModelWatch:
    """Watches one model call: filters its stream, and keeps the check result."""

    def __init__(
        self, enforcer: Enforcer, context: CallContext, prompt: str | None, listeners: RunListeners
    ) -> None:
        self.context = context
        self.prompt = prompt
        self._enforcer = enforcer
        self._listeners = listeners
        self._chunks: ChunkFilter | None = None
        self._result: CheckResult | None = None

    @property
    def has_streamed(self) -> bool:
        """Whether any chunk of the answer was sent already."""
        return self._chunks is not None

    @property
    def text_by_block(self) -> str:
        """The streamed text, one block a line, if it came in several blocks."""
        return "" if self._chunks is None else self._chunks.text_by_block

    @property
    def refusal(self) -> CheckResult | None:
        """The check result of the stream, if it was refused."""
        return None if self._result is None or self._result.allowed else self._result

    def result_for(self, content: Any) -> CheckResult | None:
        """Return the check result of the stream if it had exactly this content, or None."""
        if self._chunks is None or self._chunks.shown_text != chunk_text(content):
            return None
        return self._result

    def wrap_model(self, model: Any, settings: Mapping[str, Any], *, is_async: bool) -> Any:
        """Return a copy of the model whose stream is filtered for the listeners.

        Bindings, retries and fallbacks are unwrapped. A model that does not stream or has no
        listeners, and any other runnable, is returned unchanged.
        """
        if self._has_no_listeners(model):
            return model
        return self._wrap_nested(model, settings, is_async=is_async)

    def _has_no_listeners(self, model: Any) -> bool:
        """Return whether no callback receives anything before the model has answered."""
        return (
            isinstance(model, BaseChatModel)
            and not self._listeners.has_callbacks
            and not list_handlers(model.callbacks)
            and not getattr(model, "streaming", False)
        )

    def _wrap_nested(self, model: Any, settings: Mapping[str, Any], *, is_async: bool) -> Any:
        if isinstance(model, RunnableBindingBase):
            bound = self._wrap_nested(model.bound, {**model.kwargs, **settings}, is_async=is_async)
            return model.model_copy(update={"bound": bound})
        if isinstance(model, RunnableWithFallbacks):
            first, *others = (
                self._wrap_nested(one, settings, is_async=is_async) for one in model.runnables
            )
            return model.model_copy(update={"runnable": first, "fallbacks": others})
        if isinstance(model, BaseChatModel) and _will_stream(model, settings, is_async=is_async):
            return self._watch_copy(model)
        return model

    def _watch_copy(self, model: BaseChatModel) -> BaseChatModel:
        callbacks = [*list_handlers(model.callbacks), *self._listeners.listeners]
        watched = model.model_copy(update={"callbacks": callbacks})
        # Keep the class, which frameworks test. Remove hooks that stream events around these
        # methods.
        for name, stream in (
            ("_stream", self._make_stream(model)),
            ("_astream", self._make_astream(model)),
            ("_stream_chat_model_events", None),
            ("_astream_chat_model_events", None),
        ):
            object.__setattr__(watched, name, stream)
        return watched

    def _make_stream(self, model: BaseChatModel) -> Any:
        def stream(*args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            chunks = self._begin_stream(kwargs)
            said = model._stream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            for chunk in said:
                yield from chunks.feed(chunk)
                if chunks.stream.stopped:
                    _close_source(said)
                    break
            self._result = chunks.stream.finish()
            yield from chunks.flush()

        return stream

    def _make_astream(self, model: BaseChatModel) -> Any:
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            chunks = self._begin_stream(kwargs)
            said = model._astream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            async for chunk in said:
                for shown in chunks.feed(chunk):
                    yield shown
                if chunks.stream.stopped:
                    await _aclose_source(said)
                    break
            self._result = await chunks.stream.afinish()
            for shown in chunks.flush():
                yield shown

        return stream

    def _begin_stream(self, settings: dict[str, Any]) -> ChunkFilter:
        # With a run manager, the model would report tokens by itself.
        settings.pop("run_manager", None)
        self._result = None
        self._chunks = ChunkFilter(self._enforcer.stream_answer(self.context, prompt=self.prompt))
        return self._chunks


def _will_stream(model: BaseChatModel, settings: Mapping[str, Any], *, is_async: bool) -> bool:
    """Return whether the model streams when it has listeners."""
    kind = type(model)
    own = kind._stream is not BaseChatModel._stream  # noqa: SLF001 - LangChain tests it like this
    if is_async:
        own = own or kind._astream is not BaseChatModel._astream  # noqa: SLF001 - likewise
    chosen = getattr(model, "streaming", None) if "streaming" in model.model_fields_set else None
    cached = get_llm_cache() is not None if model.cache is None else bool(model.cache)
    off = model.disable_streaming or chosen is False or not settings.get("stream", True)
    return own and not off and not cached


def _close_source(said: Any) -> None:
    close = getattr(said, "close", None)
    if close is not None:
        close()


async def _aclose_source(said: Any) -> None:
    close = getattr(said, "aclose", None)
    if close is not None:
        await close()
