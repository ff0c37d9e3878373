"""Guard a model's answer while it streams.

Streaming callbacks are removed from the model's config, so that no listener receives unchecked
text. A guarded copy of a streaming model sends them cleared chunks; the answer of any other
model is shown after it was checked.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import var_child_runnable_config

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream


class ChunkFilter:
    """Filters the chunks of one answer.

    `shown_text` is the text that was sent. `text_by_block` is the received text, one block a
    line as a model reads it, if it came in several blocks.
    """

    def __init__(self, stream: AnswerStream) -> None:
        self.stream = stream
        self.shown_text = ""
        self._last: ChatGenerationChunk | None = None
        self._held: tuple[ChatGenerationChunk, str] | None = None
        self._block: dict[str, Any] | None = None
        self._read = ""
        self._blocks_read = 1

    @property
    def text_by_block(self) -> str:
        """The received text, if it came in several blocks."""
        return self._read if self._blocks_read > 1 else ""

    def feed(self, chunk: ChatGenerationChunk) -> Iterator[ChatGenerationChunk]:
        """Yield the cleared chunks; a chunk marked as last waits for the end."""
        if self._held is not None:
            yield self._show_text(*self._held)
        content = chunk.message.content
        text = ""
        for block in [content] if isinstance(content, str) else content:
            piece = _block_text(block)
            if piece and isinstance(block, dict):
                last, self._block = self._block, block
                if last is not None and last.get("index") != block.get("index"):
                    self._blocks_read += 1
                    text += "\n"
            text += piece
        self._read += text
        self._last, self._held = chunk, (chunk, self.stream.feed(chunk_text(content)))
        if not self.stream.is_stopped and _chunk_position(chunk) != "last":
            yield self._show_text(*self._held)
            self._held = None

    def flush(self) -> Iterator[ChatGenerationChunk]:
        """Yield the remaining chunks after the stream has ended."""
        held, text = self._held or (None, "")
        text += self.stream.remaining_text
        if held is not None and _chunk_position(held) == "last":
            yield self._show_text(held, text)
        elif text:
            yield self._show_text(self._empty_chunk(), text)

    def _show_text(self, chunk: ChatGenerationChunk, text: str) -> ChatGenerationChunk:
        self.shown_text += text
        content = chunk.message.content
        if text == chunk_text(content):
            return chunk
        shown: Any = text
        if not isinstance(content, str):
            # All text in one block.
            shown = [block for block in content if not chunk_text([block])]
            shown += [{"type": "text", **(self._block or {}), "text": text}] if text else []
        message = chunk.message.model_copy(update={"content": shown})
        return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)

    def _empty_chunk(self) -> ChatGenerationChunk:
        """Return an empty chunk in the format of those before."""
        last = None if self._last is None else self._last.message
        content: Any = "" if last is None or isinstance(last.content, str) else []
        id_ = None if last is None else last.id
        return ChatGenerationChunk(message=AIMessageChunk(content=content, id=id_))


def chunk_text(content: Any) -> str:
    """Return the text of one chunk's content."""
    return content if isinstance(content, str) else "".join(map(_block_text, content))


def _block_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def _chunk_position(chunk: ChatGenerationChunk) -> Any:
    return getattr(chunk.message, "chunk_position", None)


class RunListeners(NamedTuple):
    """The streaming callbacks of a run, and whether it has any callbacks at all."""

    listeners: list[BaseCallbackHandler]
    has_callbacks: bool


@contextmanager
def suppress_callbacks() -> Iterator[RunListeners]:
    """Yield the listeners of the run; inside the block they receive no events."""
    config: Any = var_child_runnable_config.get() or {}
    callbacks = config.get("callbacks")
    handlers = list_handlers(callbacks)
    # LangChain itself recognises streaming handlers by this method.
    listeners = [one for one in handlers if hasattr(one, "tap_output_iter")]
    if not listeners:
        yield RunListeners([], bool(handlers))
        return
    quiet: Any = {**config, "callbacks": _remove_listeners(callbacks, listeners)}
    token = var_child_runnable_config.set(quiet)
    try:
        yield RunListeners(listeners, has_callbacks=True)
    finally:
        var_child_runnable_config.reset(token)


def list_handlers(callbacks: Any) -> list[BaseCallbackHandler]:
    """Return the handlers in callbacks: a list, a manager or None."""
    return list(callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ()))


def _remove_listeners(callbacks: Any, listeners: list[BaseCallbackHandler]) -> Any:
    if isinstance(callbacks, list):
        return [one for one in callbacks if one not in listeners]
    quiet = callbacks.copy()
    for one in listeners:
        quiet.remove_handler(one)
    return quiet


class ModelWatch:
    """Watches one model call: filters its stream, and keeps the check result."""

    def __init__(
        self, enforcer: Enforcer, context: CallContext, prompt: str | None, listeners: RunListeners
    ) -> None:
        self.context = context
        self.prompt = prompt
        self.enforcer = enforcer
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
        if (
            isinstance(model, BaseChatModel)
            and not self._listeners.has_callbacks
            and not list_handlers(model.callbacks)
            and not getattr(model, "streaming", False)
        ):
            return model
        return self._wrap_nested(model, settings, is_async=is_async)

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
        return model

    def _make_stream(self, model: BaseChatModel) -> Any:
        def stream(*args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            chunks = self._begin_stream(kwargs)
            source = model._stream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            for chunk in source:
                yield from chunks.feed(chunk)
                if chunks.stream.is_stopped:
                    if hasattr(source, "close"):
                        source.close()
                    break
            self._result = chunks.stream.finish()
            yield from chunks.flush()

        return stream

    def _make_astream(self, model: BaseChatModel) -> Any:
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            chunks = self._begin_stream(kwargs)
            source = model._astream(*args, **kwargs)  # noqa: SLF001 - subclasses define it
            async for chunk in source:
                for shown in chunks.feed(chunk):
                    yield shown
                if chunks.stream.is_stopped:
                    if hasattr(source, "aclose"):
                        await source.aclose()
                    break
            self._result = await chunks.stream.afinish()
            for shown in chunks.flush():
                yield shown

        return stream

    def _begin_stream(self, settings: dict[str, Any]) -> ChunkFilter:
        # With a run manager, the model would report tokens by itself.
        settings.pop("run_manager", None)
        self._result = None
        # Chunks hold pieces of the model's own text, so changed pieces do not fit into them.
        stream = self.enforcer.stream_answer(self.context, prompt=self.prompt, hold_changes=True)
        self._chunks = ChunkFilter(stream)
        return self._chunks


def _will_stream(model: BaseChatModel, settings: Mapping[str, Any], *, is_async: bool) -> bool:
    """Return whether the model streams when it has listeners."""
    kind = type(model)
    own = kind._stream is not BaseChatModel._stream  # noqa: SLF001 - LangChain tests it like this
    if is_async:
        own = own or kind._astream is not BaseChatModel._astream  # noqa: SLF001 - likewise
    chosen = getattr(model, "streaming", None) if "streaming" in model.model_fields_set else None
    off = model.disable_streaming or chosen is False or not settings.get("stream", True)
    return own and not off and not is_cached(model)


def is_cached(model: BaseChatModel) -> bool:
    """Return whether answers of the model may come from a cache."""
    return get_llm_cache() is not None if model.cache is None else bool(model.cache)
