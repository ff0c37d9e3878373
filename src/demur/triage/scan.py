"""Scan a range of a file, a stream or lines in memory: count refusals as `find_refusals` would.

Two facts make it fast. Nearly every line holds neither the marker nor a fragment of a phrase,
and one search finds those that do. And a marker with a boundary before it, a code after it and
no other marker in its line has one meaning; any other line with a marker goes to the finder.
"""

import io
import json
import re
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from demur.codes.loading import default_registry
from demur.codes.refusal_line import REFUSAL_MARK
from demur.errors import error_reason
from demur.triage.blocks import (
    DAMAGE_ERRORS,
    ByteSource,
    LineBlock,
    detect_compression,
    open_decompressed,
    range_blocks,
    stream_blocks,
)
from demur.triage.counts import (
    CANONICAL,
    LEGACY,
    UNMAPPED,
    RefusalCounts,
    Tally,
    TriageOptions,
    UnreadFile,
)
from demur.triage.line_reader import (
    MAX_HEAD_LENGTH,
    LineReader,
    LogEvent,
    parse_line_time,
    read_event_refusals,
    read_stray_refusals,
    read_unmapped,
)
from demur.triage.prefilter import (
    FilterHits,
    FilterSearch,
    PhraseTable,
    Prefilter,
    build_prefilter,
    choose_fragments,
    escape_expressions,
    fold_expressions,
    folding_characters,
    spaced_expressions,
)
from demur.triage.suggest import HINT_EXPRESSIONS, find_unmapped

Lines: TypeAlias = bytearray | bytes

_MARKER_BYTES = REFUSAL_MARK.encode()
_MARKER_PATTERN = re.compile(_MARKER_BYTES)
_NEWLINE = 0x0A
# The literal comes first, so that the search can skip to it and look back afterwards. An ANSI
# colour code is a boundary; its rarer forms are odd lines.
_BOUNDARY = (
    rb"(?:(?<![0-9A-Za-z_\x80-\xff]REFUSED: )|(?<=\x1b\[[0-9]mREFUSED: )"
    rb"|(?<=\x1b\[[0-9][0-9]mREFUSED: )|(?<=\x1b\[[0-9];[0-9][0-9]mREFUSED: ))"
)
_CANONICAL = re.compile(
    rb"REFUSED: "
    + _BOUNDARY
    + rb"((?:[a-z0-9.-]{1,253}/)?[A-Z][A-Z0-9_]{0,61}[A-Z0-9])"
    # Possessive in effect: no letter or slash may follow, so there is no backtracking.
    + rb"(?=:[ \n\r\x0b\x0c\x1c-\x1e]|[\n\r\x0b\x0c\x1c-\x1e]|:?\Z)[^\n]*"
)
# The first marker of a line, and the text where canonical lines have their code. Taking
# everything up to the colon, even across lines, is fastest: unsettled names are read again.
_SIMPLE = re.compile(rb"REFUSED:(?: (?<![0-9A-Za-z_\x80-\xff]REFUSED: )([^:]*): |).*")
_SCHEMAS = (rb"refusal\.v1", rb"decision_record\.v1")
_ANY_LITERAL = 1 << 20
_BREAK = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# With more than one marker per this many bytes, matching them all at once is faster.
_DENSE_BYTES = 1024
_PIECE_SIZE = 1 << 15


class ScanKernel:
    """Counts refusals in blocks of lines. Not to be shared between threads."""

    def __init__(self, options: TriageOptions) -> None:
        registry = options.registry
        if registry is None:
            registry = default_registry(*options.registries)
        self._options = options
        self._registry = registry
        self._reader = LineReader(registry)
        self._kinds: dict[bytes, tuple[str, str | None]] = {}

    def _filter(
        self, literals: Iterable[str] = (), hidden: Iterable[bytes] = (), **flags: bool
    ) -> Prefilter:
        search = FilterSearch(tuple(map(str.encode, literals)), tuple(hidden), **flags)
        return build_prefilter(search, self._options.engine)

    # A log of canonical lines alone needs neither fragments nor filters.
    @cached_property
    def _fragments(self) -> dict[str, tuple[str, ...]]:
        codes = [entry.code for entry in self._registry]
        return choose_fragments(self._registry.phrases, avoid=codes)

    @cached_property
    def _phrases(self) -> PhraseTable:
        return PhraseTable(self._registry.phrases, self._fragments.values())

    @cached_property
    def _full_filter(self) -> Prefilter:
        json = self._options.format == "json"
        hidden = (*escape_expressions(self._fragments), *_SCHEMAS) if json else ()
        return self._filter(self._fragments, hidden, marker=True, runs=True)

    @cached_property
    def _phrase_filter(self) -> Prefilter:
        return self._filter(self._fragments, runs=True)

    @cached_property
    def _folding_filter(self) -> Prefilter:
        return self._filter(folding_characters(self._fragments))

    @cached_property
    def _folded_filter(self) -> Prefilter:
        return self._filter(hidden=fold_expressions(self._fragments))

    @cached_property
    def _hint_filter(self) -> Prefilter:
        return self._filter(hidden=HINT_EXPRESSIONS)

    @cached_property
    def _spaced_filter(self) -> Prefilter:
        return self._filter(hidden=spaced_expressions(self._fragments))

    def _find_foldings(self, data: Lines, end: int, hits: FilterHits) -> list[int]:
        """Return where folding letters or spaces may complete a phrase; in most logs nowhere."""
        found = self._spaced_filter(data, end).others if hits.runs else []
        if not data.isascii() and self._folding_filter(data, end).others:
            found = [*found, *self._folded_filter(data, end).others]
        return found

    def build_filters(self) -> None:
        """Build the filters now, so that forked processes share them."""
        _ = self._full_filter, self._phrases

    def scan_block(self, data: Lines, end: int, base: int, tally: Tally) -> None:
        """Count the refusals in `data[:end]`, whole lines at offset `base` of their file."""
        if self._options.format == "json":
            self._scan_structured(data, end, base, tally)
            return
        if tally.dense is None:
            tally.dense = not self._options.needs_time and _is_dense(data, end)
        if tally.dense:
            if self._match_all(data, end, base, tally) and not self._options.suggest:
                return
            hits = self._phrase_filter(data, end)
        else:
            hits = self._full_filter(data, end)
            self._match(data, end, base, tally, hits.markers)
            tally.dense = not self._options.needs_time and len(hits.markers) * _DENSE_BYTES > end
        self._add_legacy(data, end, base, tally, hits)
        if self._options.suggest:
            self._add_unmapped(data, end, base, tally)

    def _match_all(self, data: Lines, end: int, base: int, tally: Tally) -> bool:
        """Count canonical lines all at once; return whether there are no other lines."""
        found: list[bytes] = _SIMPLE.findall(data, 0, end)
        tally.dense = len(found) * _DENSE_BYTES > end
        # INVARIANT: where newlines alone break lines, a plain first marker decides its line.
        plain = _has_plain_breaks(data)
        if plain or len(found) == data.count(_MARKER_BYTES, 0, end):
            names = Counter(found)
            for name in names.keys() - tally.settled:
                # What stands for a name may be any bytes, up to a colon.
                if name.isascii() and self._code_kind(name)[1] == CANONICAL:
                    tally.settle_name(name, name.decode(), CANONICAL)
            if names.keys() <= tally.settled:
                for name, number in names.items():
                    tally.names[name] = tally.names.get(name, 0) + number
                return plain and len(found) == _count_lines(data, end)
        marks = [mark.end() for mark in _MARKER_PATTERN.finditer(data, 0, end)]
        self._match(data, end, base, tally, marks)
        return False

    def _match(self, data: Lines, end: int, base: int, tally: Tally, markers: list[int]) -> None:
        match, settled, names = _CANONICAL.match, tally.settled, tally.names
        done = -1
        following = iter((*markers[1:], end + len(_MARKER_BYTES)))
        for stop in markers:
            at, limit = stop - len(_MARKER_BYTES), next(following) - len(_MARKER_BYTES)
            if at < done:
                continue
            found = match(data, at, end)
            if found is None or limit < found.end():
                done = self._count_odd_line(data, at, end, base, tally)
                continue
            name = found[1]
            if name in settled:
                names[name] = names.get(name, 0) + 1
            else:
                done = self._count_plain(data, found, base, tally)

    def _count_plain(self, data: Lines, found: re.Match[bytes], base: int, tally: Tally) -> int:
        """Count the refusal of a typical line; return the end of the line."""
        code, kind = self._code_kind(found[1])
        if kind is None:
            return self._count_odd_line(data, found.start(), found.end(), base, tally)
        at, stop = found.span()
        start = data.rfind(b"\n", 0, at) + 1
        moment = None
        if self._options.needs_time:
            head = _BREAK.split(_decode_text(data, start, at))[-1]
            moment = parse_line_time(head, self._options.now)
        text = _decode_text(data, start, stop) if tally.wants_sample(code, kind) else ""
        tally.add_refusal(code, kind, offset=base + start, text=text, moment=moment)
        tally.settle_name(found[1], code, kind)
        return stop

    def _code_kind(self, name: bytes) -> tuple[str, str | None]:
        known = self._kinds.get(name)
        if known is None:
            code = name.decode()
            known = (code, self._reader.code_kind(code))
            if known[1] == CANONICAL:
                self._kinds[name] = known
        return known

    def _count_odd_line(self, data: Lines, at: int, end: int, base: int, tally: Tally) -> int:
        """Count the markers of the line around `at` with the finder; return the line's end."""
        start, stop = _line_around(data, at, end)
        text = _decode_text(data, start, stop)
        for found in self._reader.find(text):
            if not found.legacy:
                head = _BREAK.split(text[: found.start])[-1] if self._options.needs_time else ""
                kind = self._reader.found_kind(found)
                self._add(tally, found.code, kind, offset=base + start, text=text, head=head)
        return stop

    def _add_legacy(self, data: Lines, end: int, base: int, tally: Tally, hits: FilterHits) -> None:
        places, literals = hits.others, hits.literals
        if more := self._find_foldings(data, end, hits):
            places = sorted({*places, *more})
            literals = [_ANY_LITERAL] * len(places)
        done = -1
        last_index = len(places) - 1
        for index, hit in enumerate(places):
            if hit - 1 < done:
                continue
            start, done = _line_around(data, hit - 1, end)
            text = str(data[start:done], "utf-8", "surrogateescape")
            if len(text.splitlines()) > 1:
                self._count_phrases(text, base + start, tally)
            elif REFUSAL_MARK not in text:
                single = index == last_index or places[index + 1] > done
                last = index + 1 if single else bisect_right(places, done, index)
                code = self._phrases.find_code(text, literals[index:last])
                if code is not None and not tally.count_phrase(code):
                    head = text[:MAX_HEAD_LENGTH]
                    self._add(tally, code, LEGACY, offset=base + start, text=text, head=head)
            # A line with a canonical code is not searched for phrases.
            elif not _CANONICAL.match(data, data.find(_MARKER_BYTES, start, done), done):
                self._count_phrases(text, base + start, tally)

    def _add_unmapped(self, data: Lines, end: int, base: int, tally: Tally) -> None:
        """Count the lines that sound like a refusal and that the finder does not take for one."""
        done = -1
        for hit in self._hint_filter(data, end).others:
            if hit - 1 >= done:
                start, done = _line_around(data, hit - 1, end)
                text = _decode_text(data, start, done)
                # INVARIANT: a suggested line holds no refusal that triage counts.
                patterns = () if self._reader.find(text) else find_unmapped(text)
                for pattern in patterns:
                    head = text[:MAX_HEAD_LENGTH]
                    self._add(tally, pattern, UNMAPPED, offset=base + start, text=text, head=head)

    def _count_phrases(self, text: str, offset: int, tally: Tally) -> None:
        """Count the phrases of a line with the finder; it may contain other line breaks."""
        for found in self._reader.find(text):
            if found.legacy:
                head = text[found.start : found.start + MAX_HEAD_LENGTH]
                self._add(tally, found.code, LEGACY, offset=offset, text=text, head=head)

    def _add(
        self, tally: Tally, code: str, kind: str, *, offset: int, text: str, head: str
    ) -> None:
        moment = parse_line_time(head, self._options.now) if self._options.needs_time else None
        tally.add_refusal(code, kind, offset=offset, text=text, moment=moment)

    def _scan_structured(self, data: Lines, end: int, base: int, tally: Tally) -> None:
        hits = self._full_filter(data, end)
        more = self._find_foldings(data, end, hits)
        if self._options.suggest:
            more = [*more, *self._hint_filter(data, end).others]
        done = -1
        for hit in sorted({*hits.markers, *hits.others, *more}):
            if hit - 1 < done:
                continue
            start, done = _line_around(data, hit - 1, end)
            text = _decode_text(data, start, done)
            event = LogEvent.parse_line(bytes(memoryview(data)[start:done]))
            if event is None:
                refusals = read_stray_refusals(text, self._reader)
            else:
                refusals = read_event_refusals(event, self._reader, self._options)
                if self._options.suggest:
                    refusals = iter(list(refusals) or read_unmapped(event, self._options))
            at = base + start
            for code, kind, surface, moment in refusals:
                tally.add_refusal(code, kind, offset=at, text=text, surface=surface, moment=moment)


def _is_dense(data: Lines, end: int) -> bool:
    """Return whether the beginning is full of markers."""
    read = min(end, _HEAD_SIZE)
    return data.count(_MARKER_BYTES, 0, read) * _DENSE_BYTES > read


def _has_plain_breaks(data: Lines) -> bool:
    """Return whether newlines are the only line breaks."""
    return data.isascii() and not any(mark in data for mark in b"\r\x0b\x0c\x1c\x1d\x1e")


def _count_lines(data: Lines, end: int) -> int:
    # Removing newlines is twice as fast as counting them, in pieces for which no memory has to be
    # requested from the system.
    newlines = 0
    for start in range(0, end, _PIECE_SIZE):
        piece = data[start : min(start + _PIECE_SIZE, end)]
        newlines += len(piece) - len(piece.replace(b"\n", b""))
    return newlines + (data[end - 1] != _NEWLINE)


def _line_around(data: Lines, at: int, end: int) -> tuple[int, int]:
    stop = data.find(b"\n", at, end)
    return data.rfind(b"\n", 0, at) + 1, end if stop < 0 else stop


def _decode_text(data: Lines, start: int, stop: int) -> str:
    # Log bytes are not always UTF-8; invalid ones are kept as lone surrogates.
    return bytes(memoryview(data)[start:stop]).decode("utf-8", "surrogateescape")


_HEAD_SIZE, _SAMPLE_LINES, _MAX_KERNELS = 1 << 16, 10, 4
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
        OSError: demur cannot read the file.
    """
    with Path(path).open("rb", buffering=0) as file:
        options = resolve_format(options, lambda: _read_head(file))
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
    source: ByteSource = open_decompressed(head, compression) if compression else head
    guarded = _DamageGuard(source)
    peeked = _PeekableStream(guarded)
    options = resolve_format(options, peeked.peek)
    counts = count_blocks(stream_blocks(peeked), options, name, progress)
    unread = () if guarded.reason is None else (UnreadFile(name, guarded.reason),)
    return counts._replace(files=1, unread=unread)


def scan_lines(data: bytes | bytearray, options: TriageOptions, *, name: str = "") -> RefusalCounts:
    """Return the counts of lines in memory."""
    options = resolve_format(options, lambda: bytes(data[:_HEAD_SIZE]))
    tally = Tally(options, name)
    _get_kernel(options).scan_block(data, len(data), 0, tally)
    return tally.to_counts(len(data))


def count_blocks(
    blocks: Iterable[LineBlock],
    options: TriageOptions,
    name: str,
    progress: Callable[[int], None] | None = None,
) -> RefusalCounts:
    """Return the counts of blocks of lines of one file, whose format is resolved."""
    kernel, tally, size = _get_kernel(options), Tally(options, name), 0
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


def resolve_format(options: TriageOptions, head: Callable[[], bytes]) -> TriageOptions:
    """Return the options with the format that the beginning of a log has, unless it is set."""
    if options.format != "auto":
        return options
    return options._replace(format="json" if looks_structured(head()) else "text")


def warm_kernel(options: TriageOptions, path: str | Path) -> None:
    """Build the filters for scanning a plain file in this thread.

    Raises:
        OSError: demur cannot read the file.
    """
    with Path(path).open("rb", buffering=0) as file:
        _get_kernel(resolve_format(options, lambda: _read_head(file))).build_filters()


def looks_structured(head: bytes) -> bool:
    """Return whether a log with this beginning consists of JSON objects, one per line."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    # The last line may be incomplete.
    whole = (lines[:-1] or lines)[:_SAMPLE_LINES]
    return sum(_is_object(line, whole=len(lines) > 1) for line in whole) * 2 > len(whole)


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
            self.reason = error_reason(error)
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
