"""Read a file or a stream as blocks of whole lines, in one buffer that is used again.

A line longer than `MAX_LINE_BYTES` is read up to there and the rest of it is skipped, so no
line can fill the memory. Where it is cut depends on where it begins alone.
"""

import io
from collections.abc import Iterator
from typing import NamedTuple, Protocol

__all__ = ["BLOCK_SIZE", "MAX_LINE_BYTES", "LineBlock", "range_blocks", "stream_blocks"]

BLOCK_SIZE = 1 << 20
MAX_LINE_BYTES = 4 << 20
_NEWLINE = b"\n"


class LineBlock(NamedTuple):
    """Whole lines: `data[:end]`, valid until the next block is requested.

    `base` is their offset in the file, `read` their number of bytes including skipped ones.
    """

    data: bytearray
    end: int
    base: int
    read: int
    cut: int = 0


class ByteSource(Protocol):
    """Fills a buffer from the front and returns the number of bytes; 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer."""


def range_blocks(file: io.FileIO, low: int, high: int) -> Iterator[LineBlock]:
    """Yield the whole lines that start in `[low, high)`, even if they end after it."""
    source = _FileWindow(file)
    at = _line_start(source, low, high)
    while at < high:
        got = source.fill_from(at, BLOCK_SIZE)
        if not got:
            return
        end = _end_of_lines(source.buffer, got, high - at)
        if end:
            yield LineBlock(source.buffer, end, at, end)
            at += end
        elif got < BLOCK_SIZE:
            yield LineBlock(source.buffer, got, at, got)
            return
        else:
            block = _long_line(source, at)
            yield block
            at += block.read


def _end_of_lines(buffer: bytearray, got: int, high: int) -> int:
    """Return the end of the last whole line that starts before `high`; 0 if there is none."""
    if high <= got:
        return buffer.find(_NEWLINE, high - 1, got) + 1 or buffer.rfind(_NEWLINE, 0, got) + 1
    return buffer.rfind(_NEWLINE, 0, got) + 1


class _FileWindow:
    """A buffer with a part of a file."""

    def __init__(self, file: io.FileIO) -> None:
        self.buffer = bytearray(BLOCK_SIZE)
        self._file = file

    def fill_from(self, at: int, size: int) -> int:
        """Fill the buffer from offset `at`; return the number of bytes."""
        if len(self.buffer) != size:
            self.buffer = bytearray(size)
        self._file.seek(at)
        return _fill_buffer(self._file, memoryview(self.buffer))


def _fill_buffer(file: ByteSource, view: memoryview) -> int:
    """Fill the view as far as the source goes; a pipe returns little at a time."""
    got = 0
    while got < len(view):
        more = file.readinto(view[got:])
        if not more:
            break
        got += more
    return got


def _line_start(source: _FileWindow, low: int, high: int) -> int:
    """Return the start of the first line at or after `low`."""
    return 0 if low == 0 else _after_newline(source, low - 1, high)


def _after_newline(source: _FileWindow, at: int, limit: int | None = None) -> int:
    """Return the offset after the first newline from `at`, or of the end if there is none.

    The search stops past the limit.
    """
    while limit is None or at < limit:
        got = source.fill_from(at, BLOCK_SIZE)
        found = source.buffer.find(_NEWLINE, 0, got)
        if found >= 0:
            return at + found + 1
        if got < BLOCK_SIZE:
            return at + got
        at += got
    return at


def _long_line(source: _FileWindow, at: int) -> LineBlock:
    """Return one line that is longer than a block, truncated if it is too long."""
    got = source.fill_from(at, MAX_LINE_BYTES)
    found = source.buffer.find(_NEWLINE, 0, got)
    if found >= 0:
        return LineBlock(source.buffer, found + 1, at, found + 1)
    if got < MAX_LINE_BYTES:
        return LineBlock(source.buffer, got, at, got)
    line = source.buffer
    following = _after_newline(source, at + got)
    return LineBlock(line, got, at, following - at, cut=int(following > at + got))


def stream_blocks(stream: ByteSource, *, whole: bool = True, base: int = 0) -> Iterator[LineBlock]:
    """Yield the lines of a stream that cannot seek.

    Unless `whole`, an unterminated last line is left out, because more of it may follow.
    `base` is the offset of the stream in its file.
    """
    buffer, held, at = bytearray(BLOCK_SIZE), 0, base
    while True:
        filled = held + _fill_buffer(stream, memoryview(buffer)[held:])
        last = buffer.rfind(_NEWLINE, 0, filled) + 1
        if last:
            yield LineBlock(buffer, last, at, last)
            held, at = filled - last, at + last
            buffer = _carry_over(buffer, last, filled)
        elif filled < len(buffer):
            if filled and whole:
                yield LineBlock(buffer, filled, at, filled)
            return
        elif filled < MAX_LINE_BYTES:
            buffer, held = buffer + bytearray(MAX_LINE_BYTES - filled), filled
        else:
            rest = _rest_of_line(stream)
            if not (rest.ended or whole):
                return
            yield LineBlock(buffer, filled, at, filled + rest.size, cut=int(rest.size > 0))
            at += filled + rest.size
            buffer, held = _carry_over(rest.following, 0, len(rest.following)), len(rest.following)


def _carry_over(buffer: bytearray, start: int, stop: int) -> bytearray:
    """Return a buffer that begins with the leftover bytes."""
    target = buffer if len(buffer) == BLOCK_SIZE else bytearray(max(BLOCK_SIZE, stop - start))
    target[: stop - start] = buffer[start:stop]
    return target


class _LineRest(NamedTuple):
    """The size of a long line's rest, whether it ended, and the bytes read after its end."""

    size: int
    ended: bool
    following: bytearray


def _rest_of_line(stream: ByteSource) -> _LineRest:
    buffer, size = bytearray(BLOCK_SIZE), 0
    while got := _fill_buffer(stream, memoryview(buffer)):
        found = buffer.find(_NEWLINE, 0, got)
        if found >= 0:
            return _LineRest(size + found + 1, ended=True, following=buffer[found + 1 : got])
        size += got
    return _LineRest(size, ended=False, following=bytearray())
