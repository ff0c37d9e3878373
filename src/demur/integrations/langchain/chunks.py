"""The chunks of an answer on their way through a guard: each with what of it may be shown.

Whoever adds up what leaves here has the whole answer if it is allowed, and otherwise what was
shown of it and the words said instead.
"""

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from demur.enforce.answer_stream import AnswerStream

__all__ = ["ChunkFilter", "chunk_text"]


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
        self._read += self._read_blocks(content)
        self._last, self._held = chunk, (chunk, self.stream.add(chunk_text(content)))
        if not self.stream.stopped and _chunk_position(chunk) != "last":
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

    def _read_blocks(self, content: Any) -> str:
        """Return the text of a chunk, with a line break where another block begins."""
        text = ""
        for block in [content] if isinstance(content, str) else content:
            piece = _block_text(block)
            if piece and isinstance(block, dict):
                last, self._block = self._block, block
                if last is not None and last.get("index") != block.get("index"):
                    self._blocks_read += 1
                    text += "\n"
            text += piece
        return text

    def _show_text(self, chunk: ChatGenerationChunk, text: str) -> ChatGenerationChunk:
        self.shown_text += text
        content = chunk.message.content
        if text == chunk_text(content):
            return chunk
        shown = text if isinstance(content, str) else self._merge_blocks(content, text)
        message = chunk.message.model_copy(update={"content": shown})
        return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)

    def _empty_chunk(self) -> ChatGenerationChunk:
        """Return an empty chunk in the format of those before."""
        last = None if self._last is None else self._last.message
        content: Any = "" if last is None or isinstance(last.content, str) else []
        id_ = None if last is None else last.id
        return ChatGenerationChunk(message=AIMessageChunk(content=content, id=id_))

    def _merge_blocks(self, content: list[Any], text: str) -> list[Any]:
        """Return the blocks with all text in one of them."""
        others = [block for block in content if not chunk_text([block])]
        if not text:
            return others
        return [*others, {"type": "text", **(self._block or {}), "text": text}]


def chunk_text(content: Any) -> str:
    """Return the text of one chunk's content."""
    return content if isinstance(content, str) else "".join(map(_block_text, content))


def _block_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def _chunk_position(chunk: ChatGenerationChunk) -> Any:
    return getattr(chunk.message, "chunk_position", None)
