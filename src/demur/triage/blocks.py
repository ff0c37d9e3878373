"""Read a file or a stream as blocks of whole lines, in one buffer that is used again.

A line longer than `LONGEST_LINE` is read up to there and the rest of it is skipped, so no
line can fill the memory. Where it is cut depends on where it begins alone.
"""

import io
from collections.abc import Iterator
from typing import NamedTuple, Protocol

__all__ = ["BLOCK", "LONGEST_LINE", "Block", "range_blocks", "stream_blocks"]

BLOCK = 1 << 20
LONGEST_LINE = 4 << 20
_NEWLINE = b"\n"


class Block(NamedTuple):
    """Whole lines: `data[:end]`, valid until the next block is requested.

    `base` is their offset in the file, `read` their number of bytes including skipped ones.
    """

    data: bytearray
    end: int
    base: int
    read: int
    cut: int = 0


class Readable(Protocol):
    """Fills a buffer from the front and returns the number of bytes; 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer."""


def range_blocks(file: io.FileIO, low: int, high: int) -> Iterator[Block]:
    """Yield the whole lines that start in `[low, high)`, even if they end after it."""
    source = _Window(file)
    at = _line_start(source, low, high)
    while at < high:
        got = source.fill(at, BLOCK)
        if not got:
            return
        end = _end_of_lines(source.buffer, got, high - at)
        if end:
            yield Block(source.buffer, end, at, end)
            at += end
        elif got < BLOCK:
            yield Block(source.buffer, got, at, got)
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


class _Window:
    """A buffer with a part of a file."""

    def __init__(self, file: io.FileIO) -> None:
        self.buffer = bytearray(BLOCK)
        self._file = file

    def fill(self, at: int, size: int) -> int:
        """Fill the buffer from offset `at`; return the number of bytes."""
        if len(self.buffer) != size:
            self.buffer = bytearray(size)
        self._file.seek(at)
        return _filled(self._file, memoryview(self.buffer))


def _filled(file: Readable, view: memoryview) -> int:
    """Fill the view as far as the source goes; a pipe returns little at a time."""
    got = 0
    while got < len(view):
        more = file.readinto(view[got:])
        if not more:
            break
        got += more
    return got


def _line_start(source: _Window, low: int, high: int) -> int:
    """Return the start of the first line at or after `low`."""
    return 0 if low == 0 else _after_newline(source, low - 1, high)


def _after_newline(source: _Window, at: int, limit: int | None = None) -> int:
    """Return the offset after the first newline from `at`, or of the end if there is none.

    The search stops past the limit.
    """
    while limit is None or at < limit:
        got = source.fill(at, BLOCK)
        found = source.buffer.find(_NEWLINE, 0, got)
        if found >= 0:
            return at + found + 1
        if got < BLOCK:
            return at + got
        at += got
    return at


def _long_line(source: _Window, at: int) -> Block:
    """Return one line that is longer than a block, truncated if it is too long."""
    got = source.fill(at, LONGEST_LINE)
    found = source.buffer.find(_NEWLINE, 0, got)
    if found >= 0:
        return Block(source.buffer, found + 1, at, found + 1)
    if got < LONGEST_LINE:
        return Block(source.buffer, got, at, got)
    line = source.buffer
    following = _after_newline(source, at + got)
    return Block(line, got, at, following - at, cut=int(following > at + got))


def stream_blocks(stream: Readable, *, whole: bool = True, base: int = 0) -> Iterator[Block]:
    """Yield the lines of a stream that cannot seek.

    Unless `whole`, an unterminated last line is left out, because more of it may follow.
    `base` is the offset of the stream in its file.
    """
    buffer, held, at = bytearray(BLOCK), 0, base
    while True:
        filled = held + _filled(stream, memoryview(buffer)[held:])
        last = buffer.rfind(_NEWLINE, 0, filled) + 1
        if last:
            yield Block(buffer, last, at, last)
            held, at = filled - last, at + last
            buffer = _carried(buffer, last, filled)
        elif filled < len(buffer):
            if filled and whole:
                yield Block(buffer, filled, at, filled)
            return
        elif filled < LONGEST_LINE:
            buffer, held = buffer + bytearray(LONGEST_LINE - filled), filled
        else:
            rest = _rest_of_line(stream)
            if not (rest.ended or whole):
                return
            yield Block(buffer, filled, at, filled + rest.size, cut=int(rest.size > 0))
            at += filled + rest.size
            buffer, held = _carried(rest.following, 0, len(rest.following)), len(rest.following)


def _carried(buffer: bytearray, start: int, stop: int) -> bytearray:
    """Return a buffer that begins with the leftover bytes."""
    target = buffer if len(buffer) == BLOCK else bytearray(max(BLOCK, stop - start))
    target[: stop - start] = buffer[start:stop]
    return target


class _Rest(NamedTuple):
    """The size of a long line's rest, whether it ended, and the bytes read after its end."""

    size: int
    ended: bool
    following: bytearray


def _rest_of_line(stream: Readable) -> _Rest:
    buffer, size = bytearray(BLOCK), 0
    while got := _filled(stream, memoryview(buffer)):
        found = buffer.find(_NEWLINE, 0, got)
        if found >= 0:
            return _Rest(size + found + 1, ended=True, following=buffer[found + 1 : got])
        size += got
    return _Rest(size, ended=False, following=bytearray())
