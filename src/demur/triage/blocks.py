"""Read files and streams, compressed or not, as blocks of whole lines in one reused buffer.

A line longer than `MAX_LINE_BYTES` is read up to there and the rest is skipped, so no line can
fill the memory. Where it is cut depends only on where it begins. Compression is detected by the
first bytes, never by the file's name.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from demur.errors import MissingExtraError

# With a megabyte, what is found in a block needs so much memory that Python gives it back to the
# system after each block, which takes half as long as finding it.
BLOCK_SIZE = 1 << 18
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
    # The first line at or after `low`.
    at = 0 if low == 0 else _after_newline(source, low - 1, high)
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
    first = buffer.find(_NEWLINE, high - 1, got) + 1 if high <= got else 0
    return first or buffer.rfind(_NEWLINE, 0, got) + 1


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
    while got < len(view) and (more := file.readinto(view[got:])):
        got += more
    return got


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
    got = size = BLOCK_SIZE
    while size < MAX_LINE_BYTES:
        # Read again from its beginning: the buffer holds one piece of the file.
        size = min(4 * size, MAX_LINE_BYTES)
        got = source.fill_from(at, size)
        found = source.buffer.find(_NEWLINE, 0, got)
        if found >= 0:
            return LineBlock(source.buffer, found + 1, at, found + 1)
        if got < size:
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


# Errors raised while reading a damaged file.
DAMAGE_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, zlib.error)
_READ_SIZE = 1 << 18
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def detect_compression(head: bytes) -> str | None:
    """Return the compression of a file with this beginning, or None."""
    forms = _COMPRESSIONS.items()
    return next((name for name, (magic, _) in forms if head.startswith(magic)), None)


def open_decompressed(file: io.RawIOBase, compression: str) -> ByteSource:
    """Return the decompressed content of a file as a stream.

    Raises:
        MissingExtraError: The file is zstd, and `zstandard` is not installed.
    """
    return _COMPRESSIONS[compression][1](file)


class _GzipSource(io.RawIOBase):
    """Reads gzip in large pieces, one member after another."""

    def __init__(self, file: io.RawIOBase) -> None:
        super().__init__()
        self._file = file
        self._machine = zlib.decompressobj(_GZIP_WINDOW)
        self._input = b""
        self._started = False

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer with at most one piece."""
        view = memoryview(buffer)
        while True:
            if self._machine.eof:
                self._input, self._started = self._machine.unused_data, False
                self._machine = zlib.decompressobj(_GZIP_WINDOW)
            self._input = self._input or self._file.read(_READ_SIZE) or b""
            if not self._started:
                # Zero bytes may follow the last member.
                self._input = self._input.lstrip(b"\0")
            if not self._input and not self._started:
                more = self._file.read(_READ_SIZE)
                if not more:
                    return 0
                self._input = more
                continue
            if not self._input:
                raise EOFError("the file ends within compressed data")
            self._started = True
            output = self._machine.decompress(self._input, len(view))
            self._input = self._machine.unconsumed_tail
            if output:
                view[: len(output)] = output
                return len(output)


def _open_zstd(file: io.RawIOBase) -> ByteSource:
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError as error:
        problem = "zstd needs the `zstandard` package"
        raise MissingExtraError(problem, help="pip install 'demur[triage]'") from error
    return _ZstdSource(file, zstandard)


class _ZstdSource:
    """Reads zstd, and detects a file that ends within a frame, which the library does not.

    It appends bytes that are not a frame. If the library meets them as the start of a frame, the
    last frame was complete.
    """

    def __init__(self, file: io.RawIOBase, zstandard: Any) -> None:
        self._file = file
        self._over = False
        self._error = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(self, read_across_frames=True)

    def read(self, size: int) -> bytes:
        """Return more of the file, for the library."""
        data = self._file.read(size) or b""
        if not data and not self._over:
            self._over = True
            return bytes(16)
        return data

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with at most one piece."""
        try:
            got = int(self._reader.readinto1(buffer))
        except self._error as error:
            if self._over and "Unknown frame" in str(error):
                return 0
            raise ValueError(str(error)) from error
        if not got:
            raise EOFError("the file ends within compressed data")
        return got


def _open_bz2(file: io.RawIOBase) -> ByteSource:
    bz2: Any = import_module("bz2")
    source: ByteSource = bz2.BZ2File(file)
    return source


class _XzSource:
    """Reads xz, and reports damage as `ValueError`, which needs no import of `lzma`."""

    def __init__(self, file: io.RawIOBase) -> None:
        lzma: Any = import_module("lzma")
        self._error = lzma.LZMAError
        self._file = lzma.LZMAFile(file)

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with at most one piece."""
        try:
            return int(self._file.readinto(buffer))
        except self._error as error:
            raise ValueError(str(error)) from error


_COMPRESSIONS: dict[str, tuple[bytes, Callable[[io.RawIOBase], ByteSource]]] = {
    "gzip": (b"\x1f\x8b\x08", _GzipSource),
    "zstd": (b"\x28\xb5\x2f\xfd", _open_zstd),
    "bzip2": (b"BZh", _open_bz2),
    "xz": (b"\xfd7zXZ\x00", _XzSource),
}
