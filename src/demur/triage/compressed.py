"""Open logs that were compressed, told by their first bytes and never by their names."""

import io
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from demur.errors import MissingExtraError
from demur.triage.blocks import ByteSource

__all__ = ["DAMAGE_ERRORS", "detect_compression", "open_decompressed"]

# Errors raised while reading a damaged file.
DAMAGE_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, zlib.error)
_READ_SIZE = 1 << 18
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def detect_compression(head: bytes) -> str | None:
    """Return the compression of a file with this beginning, or None."""
    return next(
        (name for name, (magic, _) in _COMPRESSIONS.items() if head.startswith(magic)), None
    )


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
                self._input, self._machine = (
                    self._machine.unused_data,
                    zlib.decompressobj(_GZIP_WINDOW),
                )
                self._started = False
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
        raise MissingExtraError(
            "zstd needs the `zstandard` package", help="pip install 'demur[triage]'"
        ) from error
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
