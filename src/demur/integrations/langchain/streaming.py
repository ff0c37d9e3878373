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

from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.langchain.chunks import Chunks, piece_of
from demur.integrations.langchain.listeners import Audience, handlers_of

__all__ = ["Watch"]


class Watch:
    """Watches one model call: filters its stream, and keeps the check result."""

    def __init__(
        self, enforcer: Enforcer, at: Occasion, prompt: str | None, audience: Audience
    ) -> None:
        self.at = at
        self.prompt = prompt
        self._enforcer = enforcer
        self._audience = audience
        self._chunks: Chunks | None = None
        self._ruling: Ruling | None = None

    @property
    def has_streamed(self) -> bool:
        """Whether any chunk of the answer was sent already."""
        return self._chunks is not None

    @property
    def in_blocks(self) -> str:
        """The streamed text, one block a line, if it came in several blocks."""
        return "" if self._chunks is None else self._chunks.in_blocks

    @property
    def refused(self) -> Ruling | None:
        """The check result of the stream, if it was refused."""
        return None if self._ruling is None or self._ruling.allowed else self._ruling

    def ruling_on(self, content: Any) -> Ruling | None:
        """Return the check result of the stream if it had exactly this content, or None."""
        if self._chunks is None or self._chunks.shown != piece_of(content):
            return None
        return self._ruling

    def over(self, model: Any, settings: Mapping[str, Any], *, awaited: bool) -> Any:
        """Return a copy of the model whose stream is filtered for the listeners.

        Bindings, retries and fallbacks are unwrapped. A model that does not stream or has no
        listeners, and any other runnable, is returned unchanged.
        """
        if self._is_unheard(model):
            return model
        return self._over(model, settings, awaited=awaited)

    def _is_unheard(self, model: Any) -> bool:
        """Return whether no callback receives anything before the model has answered."""
        return (
            isinstance(model, BaseChatModel)
            and not self._audience.is_told
            and not handlers_of(model.callbacks)
            and not getattr(model, "streaming", False)
        )

    def _over(self, model: Any, settings: Mapping[str, Any], *, awaited: bool) -> Any:
        if isinstance(model, RunnableBindingBase):
            bound = self._over(model.bound, {**model.kwargs, **settings}, awaited=awaited)
            return model.model_copy(update={"bound": bound})
        if isinstance(model, RunnableWithFallbacks):
            first, *others = (self._over(one, settings, awaited=awaited) for one in model.runnables)
            return model.model_copy(update={"runnable": first, "fallbacks": others})
        if isinstance(model, BaseChatModel) and _streams(model, settings, awaited=awaited):
            return self._watched(model)
        return model

    def _watched(self, model: BaseChatModel) -> BaseChatModel:
        callbacks = [*handlers_of(model.callbacks), *self._audience.listeners]
        watched = model.model_copy(update={"callbacks": callbacks})
        # Keep the class, which frameworks test. Remove hooks that stream events around these
        # methods.
        for name, stream in (
            ("_stream", self._streaming(model)),
            ("_astream", self._astreaming(model)),
            ("_stream_chat_model_events", None),
            ("_astream_chat_model_events", None),
        ):
            object.__setattr__(watched, name, stream)
        return watched

    def _streaming(self, model: BaseChatModel) -> Any:
        def stream(*args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            chunks = self._begun(kwargs)
            said = model._stream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            for chunk in said:
                yield from chunks.add(chunk)
                if chunks.stream.stopped:
                    _close(said)
                    break
            self._ruling = chunks.stream.end()
            yield from chunks.rest()

        return stream

    def _astreaming(self, model: BaseChatModel) -> Any:
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            chunks = self._begun(kwargs)
            said = model._astream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            async for chunk in said:
                for shown in chunks.add(chunk):
                    yield shown
                if chunks.stream.stopped:
                    await _aclose(said)
                    break
            self._ruling = await chunks.stream.aend()
            for shown in chunks.rest():
                yield shown

        return stream

    def _begun(self, settings: dict[str, Any]) -> Chunks:
        # With a run manager, the model would report tokens by itself.
        settings.pop("run_manager", None)
        self._ruling = None
        self._chunks = Chunks(self._enforcer.stream(self.at, prompt=self.prompt))
        return self._chunks


def _streams(model: BaseChatModel, settings: Mapping[str, Any], *, awaited: bool) -> bool:
    """Return whether the model streams when it has listeners."""
    kind = type(model)
    own = kind._stream is not BaseChatModel._stream  # noqa: SLF001 - LangChain tests it like this
    if awaited:
        own = own or kind._astream is not BaseChatModel._astream  # noqa: SLF001 - likewise
    chosen = getattr(model, "streaming", None) if "streaming" in model.model_fields_set else None
    cached = get_llm_cache() is not None if model.cache is None else bool(model.cache)
    off = model.disable_streaming or chosen is False or not settings.get("stream", True)
    return own and not off and not cached


def _close(said: Any) -> None:
    close = getattr(said, "close", None)
    if close is not None:
        close()


async def _aclose(said: Any) -> None:
    close = getattr(said, "aclose", None)
    if close is not None:
        await close()
