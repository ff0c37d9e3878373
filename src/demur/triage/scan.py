"""The two pure functions of triage, and what they share: a range of a file, or a batch."""

import io
import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from demur.triage.blocks import LineBlock, ByteSource, range_blocks, stream_blocks
from demur.triage.compressed import DAMAGE_ERRORS, detect_compression, open_decompressed
from demur.triage.counts import RefusalCounts, UnreadFile
from demur.triage.kernel import ScanKernel
from demur.triage.options import TriageOptions
from demur.triage.tally import PieceTally

__all__ = [
    "count_blocks",
    "looks_structured",
    "scan_lines",
    "scan_range",
    "scan_stream",
    "warm_kernel",
]

_HEAD_SIZE = 1 << 16
_SAMPLE_LINES = 10
_MAX_KERNELS = 4
_local = threading.local()


def scan_range(
    path: str | Path,
    low: int,
    high: int,
    options: TriageOptions,
    *,
    name: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> RefusalCounts:
    """Return the counts of the lines that start in bytes `[low, high)` of a plain file.

    The counts of ranges that cover a file add up to its counts. The range at the start counts
    the file itself. The default `name` in the counts is the path.

    Raises:
        OSError: The file cannot be read.
    """
    with Path(path).open("rb", buffering=0) as file:
        options = _resolve_format(options, lambda: _read_head(file))
        blocks = range_blocks(file, low, high)
        counts = count_blocks(blocks, options, str(path) if name is None else name, progress)
    return counts._replace(files=int(low == 0))


def scan_stream(
    stream: io.RawIOBase,
    name: str,
    options: TriageOptions,
    *,
    progress: Callable[[int], None] | None = None,
) -> RefusalCounts:
    """Return the counts of a stream, compressed or not, up to the first damage.

    Raises:
        MissingExtraError: The compression needs a package that is not installed.
    """
    head = _PeekableStream(stream)
    compression = detect_compression(head.peek())
    source: ByteSource = head
    if compression is not None:
        source = open_decompressed(head, compression)
    guarded = _DamageGuard(source)
    peeked = _PeekableStream(guarded)
    options = _resolve_format(options, peeked.peek)
    counts = count_blocks(stream_blocks(peeked), options, name, progress)
    unread = () if guarded.reason is None else (UnreadFile(name, guarded.reason),)
    return counts._replace(files=1, unread=unread)


def scan_lines(data: bytes | bytearray, options: TriageOptions, *, name: str = "") -> RefusalCounts:
    """Return the counts of lines in memory."""
    options = _resolve_format(options, lambda: bytes(data[:_HEAD_SIZE]))
    tally = PieceTally(options, name)
    _get_kernel(options).scan_block(data, len(data), 0, tally)
    return tally.to_counts(len(data))


def count_blocks(
    blocks: Iterable[LineBlock],
    options: TriageOptions,
    name: str,
    progress: Callable[[int], None] | None = None,
) -> RefusalCounts:
    """Return the counts of blocks of lines of one file, whose format is resolved."""
    kernel, tally, size = _get_kernel(options), PieceTally(options, name), 0
    for block in blocks:
        kernel.scan_block(block.data, block.end, block.base, tally)
        tally.cut += block.cut
        size += block.read
        if progress is not None:
            progress(block.read)
    return tally.to_counts(size)


def _get_kernel(options: TriageOptions) -> ScanKernel:
    """Return the kernel for the options, one per thread, because it keeps state."""
    kernels: dict[TriageOptions, ScanKernel] = _local.__dict__.setdefault("kernels", {})
    if options not in kernels:
        while len(kernels) >= _MAX_KERNELS:
            del kernels[next(iter(kernels))]
        kernels[options] = ScanKernel(options)
    return kernels[options]


def _resolve_format(options: TriageOptions, head: Callable[[], bytes]) -> TriageOptions:
    if options.format != "auto":
        return options
    form = "json" if looks_structured(head()) else "text"
    return options._replace(format=form)


def warm_kernel(options: TriageOptions, path: str | Path) -> None:
    """Build the filters for scanning a plain file in this thread.

    Raises:
        OSError: The file cannot be read.
    """
    with Path(path).open("rb", buffering=0) as file:
        _get_kernel(_resolve_format(options, lambda: _read_head(file))).build_filters()


def looks_structured(head: bytes) -> bool:
    """Return whether a log with this beginning consists of JSON objects, one per line."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    # The last line may be incomplete.
    whole = (lines[:-1] or lines)[:_SAMPLE_LINES]
    objects = sum(_is_object(line, whole=len(lines) > 1) for line in whole)
    return objects * 2 > len(whole)


def _is_object(line: bytes, *, whole: bool) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return not whole and b'"' in line
    return True


def _read_head(file: io.FileIO) -> bytes:
    return file.read(_HEAD_SIZE) or b""


class _DamageGuard:
    """Ends a stream where it is damaged, and keeps the reason."""

    def __init__(self, stream: ByteSource) -> None:
        self.reason: str | None = None
        self._stream = stream

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer."""
        try:
            return self._stream.readinto(buffer)
        except DAMAGE_ERRORS as error:
            self.reason = str(getattr(error, "strerror", None) or error).lower()
            return 0


class _PeekableStream(io.RawIOBase):
    """A stream whose beginning can be read ahead."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._head = b""

    def peek(self) -> bytes:
        """Return the beginning of the stream."""
        buffer = bytearray(_HEAD_SIZE)
        view, got = memoryview(buffer), 0
        while got < _HEAD_SIZE and (more := self._stream.readinto(view[got:])):
            got += more
        self._head = bytes(buffer[:got])
        return self._head

    def readable(self) -> bool:
        """Return true; Python's decompressors check it."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer."""
        if self._head:
            view = memoryview(buffer)
            part, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(part)] = part
            return len(part)
        return self._stream.readinto(buffer) or 0
