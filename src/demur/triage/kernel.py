"""The kernel: counts the refusals in a block of whole lines, exactly as `find_refusals` would.

Two facts make it fast. Nearly every line holds neither the marker nor a fragment of a
phrase, and one search says where those are. And a marker with a boundary before it, a code
after it and no other marker in its line can mean but one thing; every other line that has
a marker is odd, and read by the finder itself.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from demur.codes.default import default_registry
from demur.codes.line import MARK
from demur.triage.counts import CANONICAL, LEGACY
from demur.triage.fragments import (
    choose_fragments,
    escapes,
    fold_expressions,
    folding_characters,
)
from demur.triage.options import Options
from demur.triage.phrase_table import PhraseTable
from demur.triage.prefilter import Hits, Prefilter, Search, build
from demur.triage.reader import Reader
from demur.triage.structured import Event, Heard, heard, stray
from demur.triage.tally import Tally
from demur.triage.timestamps import LONGEST_HEAD, line_moment

__all__ = ["Kernel"]

_MARK = MARK.encode()
_MARKS = re.compile(_MARK)
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
_SIMPLE = re.compile(rb"REFUSED:(?: (?<![0-9A-Za-z_\x80-\xff]REFUSED: )([^:]*): |)[^\n]*")
_SCHEMAS = (rb"refusal\.v1", rb"decision_record\.v1")
_ANY = 1 << 20
_BREAK = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# With more than one marker per this many bytes, matching them all at once is faster.
_DENSE = 1024


class Kernel:
    """Counts refusals in blocks of lines. Not to be shared between threads."""

    def __init__(self, options: Options) -> None:
        registry = options.registry
        if registry is None:
            registry = default_registry(*options.registries)
        fragments = choose_fragments(registry.phrases, avoid=[entry.code for entry in registry])
        self._options = options
        self._reader = Reader(registry)
        self._kinds: dict[bytes, tuple[str, str | None]] = {}
        self._fragments = tuple(fragments)
        self._phrases = PhraseTable(registry.phrases, fragments.values())

    @cached_property
    def _everything(self) -> Prefilter:
        hidden: tuple[bytes, ...] = ()
        if self._options.format == "json":
            hidden = (*escapes(self._fragments), *_SCHEMAS)
        return build(Search(self._literals, hidden, marker=True), self._options.engine)

    @cached_property
    def _words(self) -> Prefilter:
        return build(Search(self._literals), self._options.engine)

    @cached_property
    def _folding(self) -> Prefilter:
        characters = folding_characters(self._fragments)
        return build(Search(tuple(map(str.encode, characters))), self._options.engine)

    @cached_property
    def _folded(self) -> Prefilter:
        return build(Search((), fold_expressions(self._fragments)), self._options.engine)

    def _foldings(self, data: bytearray | bytes, end: int) -> list[int]:
        """Return where casefolding may complete a phrase; in most logs nowhere."""
        if data.isascii() or not self._folding(data, end).others:
            return []
        return self._folded(data, end).others

    @property
    def _literals(self) -> tuple[bytes, ...]:
        return tuple(fragment.encode() for fragment in self._fragments)

    def warm(self) -> None:
        """Build the filters now, so that forked processes share them."""
        _ = self._everything

    def scan(self, data: bytearray | bytes, end: int, base: int, tally: Tally) -> None:
        """Count the refusals in `data[:end]`, whole lines at offset `base` of their file."""
        if self._options.format == "json":
            self._structured(data, end, base, tally)
            return
        if tally.dense:
            if self._match_all(data, end, base, tally):
                return
            hits = self._words(data, end)
        else:
            hits = self._everything(data, end)
            self._match_each(data, end, base, tally, hits.markers)
            tally.dense = not self._options.dated and len(hits.markers) * _DENSE > end
        self._legacy(data, end, base, tally, hits)

    def _match_all(self, data: bytearray | bytes, end: int, base: int, tally: Tally) -> bool:
        """Count canonical lines all at once; return whether there are no other lines."""
        found: list[bytes] = _SIMPLE.findall(data, 0, end)
        tally.dense = len(found) * _DENSE > end
        # INVARIANT: where newlines alone break lines, a plain first marker decides its line.
        plain = _unbroken(data)
        if plain or len(found) == data.count(_MARK, 0, end):
            names = Counter(found)
            if names.keys() <= tally.settled:
                for name, number in names.items():
                    tally.names[name] = tally.names.get(name, 0) + number
                return plain and len(found) == _number_of_lines(data, end)
        marks = [mark.end() for mark in _MARKS.finditer(data, 0, end)]
        self._match_each(data, end, base, tally, marks)
        return False

    def _match_each(
        self, data: bytearray | bytes, end: int, base: int, tally: Tally, markers: list[int]
    ) -> None:
        match, settled, names = _CANONICAL.match, tally.settled, tally.names
        done = -1
        following = iter((*markers[1:], end + len(_MARK)))
        for stop in markers:
            at, limit = stop - len(_MARK), next(following) - len(_MARK)
            if at < done:
                continue
            found = match(data, at, end)
            if found is None or limit < found.end():
                done = self._odd(data, at, end, base, tally)
                continue
            name = found[1]
            if name in settled:
                names[name] = names.get(name, 0) + 1
            else:
                done = self._plain(data, found, base, tally)

    def _plain(
        self, data: bytearray | bytes, found: re.Match[bytes], base: int, tally: Tally
    ) -> int:
        """Count the refusal of a typical line; return the end of the line."""
        code, kind = self._kind(found[1])
        if kind is None:
            return self._odd(data, found.start(), found.end(), base, tally)
        at, stop = found.span()
        start = data.rfind(b"\n", 0, at) + 1
        moment = None
        if self._options.dated:
            head = _BREAK.split(_text(data, start, at))[-1]
            moment = line_moment(head, self._options.now)
        text = _text(data, start, stop) if tally.wants(code, kind) else ""
        tally.add(code, kind, offset=base + start, text=text, moment=moment)
        tally.settle(found[1], code, kind)
        return stop

    def _kind(self, name: bytes) -> tuple[str, str | None]:
        known = self._kinds.get(name)
        if known is None:
            code = name.decode()
            known = (code, self._reader.kind_of_code(code))
            if known[1] == CANONICAL:
                self._kinds[name] = known
        return known

    def _odd(self, data: bytearray | bytes, at: int, end: int, base: int, tally: Tally) -> int:
        """Count the markers of the line around `at` with the finder; return the line's end."""
        start, stop = _line_around(data, at, end)
        text = _text(data, start, stop)
        for found in self._reader.find(text):
            if not found.legacy:
                head = _BREAK.split(text[: found.start])[-1] if self._options.dated else ""
                kind = self._reader.kind(found)
                self._add(tally, found.code, kind, offset=base + start, text=text, head=head)
        return stop

    def _legacy(
        self, data: bytearray | bytes, end: int, base: int, tally: Tally, hits: Hits
    ) -> None:
        places, literals = hits.others, hits.literals
        if more := self._foldings(data, end):
            places = sorted({*places, *more})
            literals = [_ANY] * len(places)
        done = -1
        for index, hit in enumerate(places):
            if hit - 1 < done:
                continue
            start, done = _line_around(data, hit - 1, end)
            text = _text(data, start, done)
            if len(text.splitlines()) > 1:
                self._broken(text, base + start, tally)
                continue
            marker = data.find(_MARK, start, done)
            if marker < 0:
                last = bisect_right(places, done, index)
                code = self._phrases.code(text, literals[index:last])
                if code is not None and not tally.count_phrase(code):
                    self._add(
                        tally,
                        code,
                        LEGACY,
                        offset=base + start,
                        text=text,
                        head=text[:LONGEST_HEAD],
                    )
            # A line with a canonical code is not searched for phrases.
            elif not _CANONICAL.match(data, marker, done):
                self._broken(text, base + start, tally)

    def _broken(self, text: str, offset: int, tally: Tally) -> None:
        """Count the phrases of a line with the finder; it may contain other line breaks."""
        for found in self._reader.find(text):
            if found.legacy:
                head = text[found.start : found.start + LONGEST_HEAD]
                self._add(tally, found.code, LEGACY, offset=offset, text=text, head=head)

    def _add(
        self, tally: Tally, code: str, kind: str, *, offset: int, text: str, head: str
    ) -> None:
        moment = line_moment(head, self._options.now) if self._options.dated else None
        tally.add(code, kind, offset=offset, text=text, moment=moment)

    def _structured(self, data: bytearray | bytes, end: int, base: int, tally: Tally) -> None:
        hits = self._everything(data, end)
        more = self._foldings(data, end)
        done = -1
        for hit in sorted({*hits.markers, *hits.others, *more}):
            if hit - 1 < done:
                continue
            start, done = _line_around(data, hit - 1, end)
            text = _text(data, start, done)
            event = Event.read(bytes(memoryview(data)[start:done]))
            for said in stray(text, self._reader) if event is None else self._heard(event):
                tally.add(
                    said.code,
                    said.kind,
                    surface=said.surface,
                    moment=said.moment,
                    offset=base + start,
                    text=text,
                )

    def _heard(self, event: Event) -> Iterable[Heard]:
        return heard(event, self._reader, self._options)


def _unbroken(data: bytearray | bytes) -> bool:
    """Return whether newlines are the only line breaks."""
    return data.isascii() and not any(mark in data for mark in b"\r\x0b\x0c\x1c\x1d\x1e")


def _number_of_lines(data: bytearray | bytes, end: int) -> int:
    # Removing newlines is twice as fast as counting them.
    newlines = end - len(data[:end].replace(b"\n", b""))
    return newlines + (data[end - 1] != _NEWLINE)


def _line_around(data: bytearray | bytes, at: int, end: int) -> tuple[int, int]:
    stop = data.find(b"\n", at, end)
    return data.rfind(b"\n", 0, at) + 1, end if stop < 0 else stop


def _text(data: bytearray | bytes, start: int, stop: int) -> str:
    # Log bytes are not always UTF-8; invalid ones are kept as lone surrogates.
    return bytes(memoryview(data)[start:stop]).decode("utf-8", "surrogateescape")
