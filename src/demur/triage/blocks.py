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
    """Whole lines: `data[:end]`, valid until the next block is asked for.

    `base` is where they begin, `read` how many bytes they take up with what was skipped.
    """

    data: bytearray
    end: int
    base: int
    read: int
    cut: int = 0


class Readable(Protocol):
    """What fills a buffer from the front and returns how much; 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer."""


def range_blocks(file: io.FileIO, low: int, high: int) -> Iterator[Block]:
    """Yield the lines that start in `[low, high)`, whole, even where they end behind it."""
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
    """Return where the last whole line ends that starts before `high`; 0 if none ends."""
    if high <= got:
        return buffer.find(_NEWLINE, high - 1, got) + 1 or buffer.rfind(_NEWLINE, 0, got) + 1
    return buffer.rfind(_NEWLINE, 0, got) + 1


class _Window:
    """A buffer that holds a piece of a file."""

    def __init__(self, file: io.FileIO) -> None:
        self.buffer = bytearray(BLOCK)
        self._file = file

    def fill(self, at: int, size: int) -> int:
        """Fill the buffer with what stands at `at`; return how much that was."""
        if len(self.buffer) != size:
            self.buffer = bytearray(size)
        self._file.seek(at)
        return _filled(self._file, memoryview(self.buffer))


def _filled(file: Readable, view: memoryview) -> int:
    """Fill the view as far as the source goes; a pipe gives little at a time."""
    got = 0
    while got < len(view):
        more = file.readinto(view[got:])
        if not more:
            break
        got += more
    return got


def _line_start(source: _Window, low: int, high: int) -> int:
    """Return where the first line begins that starts at or after `low`."""
    return 0 if low == 0 else _after_newline(source, low - 1, high)


def _after_newline(source: _Window, at: int, limit: int | None = None) -> int:
    """Return the place after the first newline from `at`; the end, or past the limit, if none."""
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
    """Return one line that is longer than a block, cut if it is too long."""
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
    """Yield the lines of something that can only be read onwards.

    Unless `whole`, a last line without an end is left out: more of it may follow.
    `base` is where the stream stands in its file.
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
    """Return a buffer that begins with what was left over."""
    target = buffer if len(buffer) == BLOCK else bytearray(max(BLOCK, stop - start))
    target[: stop - start] = buffer[start:stop]
    return target


class _Rest(NamedTuple):
    """What a long line had left, whether it ended, and what was read behind its end."""

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
