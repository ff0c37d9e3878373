"""Counts of refusals that merge: options of a scan, the tally of one piece, and the sum of all.

An attacker may write a new code on every line. So only a bounded number of unknown codes is
kept by name, those with the smallest digests, and the rest as one sum: however the log was cut,
the same names stay, with exact numbers.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import nsmallest
from importlib import import_module
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.errors import one_line

CANONICAL = "canonical"
LEGACY = "legacy"
UNKNOWN = "unknown"
QUOTED = "quoted"
UNMAPPED = "unmapped"
KINDS = (CANONICAL, LEGACY, UNKNOWN, QUOTED, UNMAPPED)
# A log can hold any number of these.
_BOUNDED_KINDS = frozenset({UNKNOWN, UNMAPPED})
OTHER = "_other"
MAX_UNKNOWN_CODES = 1_000


class CountKey(NamedTuple):
    """The key of a count. `hour` is empty if times were not requested.

    The kind is `unknown` for a well-formed code that is not registered, `quoted` for a refusal in
    a structured log that did not come from the guard itself, and `unmapped` for a line that only
    sounds like a refusal: its `code` is the wording.
    """

    code: str
    kind: str
    surface: str = UNKNOWN
    hour: str = ""
    file: str = ""


class LineSample(NamedTuple):
    """An example: the offset of its line, and the line, truncated and escaped."""

    file: str
    offset: int
    text: str


class UnreadFile(NamedTuple):
    """A file that could not be read to its end, and the reason."""

    file: str
    reason: str


class RefusalCounts(NamedTuple):
    """The number of refusals for each key, with a few examples.

    `cut` counts truncated lines. `undated` counts refusals without a time, which time bounds
    exclude.
    """

    rows: Mapping[CountKey, int] = {}
    samples: Mapping[tuple[str, str], tuple[LineSample, ...]] = {}
    size: int = 0
    files: int = 0
    cut: int = 0
    undated: int = 0
    unread: tuple[UnreadFile, ...] = ()

    def count_kinds(self, *kinds: str) -> int:
        """Return the number of refusals of these kinds; by default, of known codes."""
        wanted = kinds or (CANONICAL, LEGACY)
        return sum(number for key, number in self.rows.items() if key.kind in wanted)


def merge_counts(parts: Iterable[RefusalCounts], *, samples: int = 1) -> RefusalCounts:
    """Return the sum of all parts, with at most `samples` samples of a code."""
    # INVARIANT: any split of a log gives the same counts.
    parts = tuple(parts)
    rows: dict[CountKey, int] = {}
    examples: dict[tuple[str, str], set[LineSample]] = {}
    for part in parts:
        for key, number in part.rows.items():
            rows[key] = rows.get(key, 0) + number
        for about, found in part.samples.items():
            examples.setdefault(about, set()).update(found)
    kept = _kept_names(rows)
    return RefusalCounts(
        rows=_prune_rows(rows, kept),
        samples={
            about: tuple(nsmallest(max(samples, 1), found))
            for about, found in sorted(examples.items())
            if about[1] not in _BOUNDED_KINDS or kept is None or about[0] in kept
        },
        size=sum(part.size for part in parts),
        files=sum(part.files for part in parts),
        cut=sum(part.cut for part in parts),
        undated=sum(part.undated for part in parts),
        unread=tuple(sorted({unread for part in parts for unread in part.unread})),
    )


def _kept_names(rows: Mapping[CountKey, int]) -> frozenset[str] | None:
    """Return the unknown codes and wordings to keep by name; None to keep all."""
    names = {key.code for key in rows if key.kind in _BOUNDED_KINDS and key.code != OTHER}
    if len(names) <= MAX_UNKNOWN_CODES:
        return None
    # Imported late, because it is slow to import and rarely needed.
    blake2b: Any = import_module("hashlib").blake2b

    def digest(name: str) -> bytes:
        return bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).digest())

    return frozenset(nsmallest(MAX_UNKNOWN_CODES, names, key=digest))


def _prune_rows(rows: dict[CountKey, int], kept: frozenset[str] | None) -> dict[CountKey, int]:
    if kept is None:
        return rows
    pruned: dict[CountKey, int] = {}
    for key, number in rows.items():
        bounded = key.kind in _BOUNDED_KINDS and key.code not in kept
        under = key._replace(code=OTHER) if bounded else key
        pruned[under] = pruned.get(under, 0) + number
    return pruned


FORMATS = ("auto", "text", "json")


class TriageOptions(NamedTuple):
    """How logs are read; plain values only, so that other processes can receive it.

    `registry` is used in this process only; the default is demur's own, with the files of
    `registries`. `fields` are paths of the message in JSON lines: the first that holds a text
    counts; by default the usual names are tried. `timed` keeps the hour of each refusal, which
    is slower on logs full of them; `since` and `until` imply it. `now` completes times without
    a year. `engine` forces a search engine; all give the same counts. `suggest` also counts lines
    that sound like a refusal and that no code or phrase covers.
    """

    registries: tuple[str, ...] = ()
    format: str = "auto"
    fields: tuple[str, ...] = ()
    timed: bool = False
    since: datetime | None = None
    until: datetime | None = None
    now: datetime | None = None
    samples: int = 0
    engine: str | None = None
    registry: Registry | None = None
    suggest: bool = False

    @property
    def needs_time(self) -> bool:
        """Whether the time of each refusal is needed."""
        return self.timed or self.since is not None or self.until is not None


MAX_SAMPLE_LENGTH = 300
_MAX_NAMES = 8 * MAX_UNKNOWN_CODES


class Tally:
    """The counts of one piece of one file, as they grow.

    `names` counts the codes in `settled`, which need nothing but counting. All others go through
    `add_refusal`. `dense` says whether the last lines were full of refusals; None at the start.
    """

    def __init__(self, options: TriageOptions, file: str = "") -> None:
        self.dense: bool | None = None
        self.names: dict[bytes, int] = {}
        self.settled: set[bytes] = set()
        self.cut = 0
        self._options, self._file = options, file
        self._keeps_lines = options.needs_time or options.samples > 0
        self._rows: dict[CountKey, int] = {}
        self._samples: dict[tuple[str, str], tuple[LineSample, ...]] = {}
        self._undated = 0
        self._kinds: dict[bytes, tuple[str, str]] = {}
        self._phrases: dict[str, int] = {}

    def settle_name(self, name: bytes, code: str, kind: str) -> None:
        """Count a code by its name from now on, if neither times nor samples are needed."""
        if not self._options.needs_time and not self.wants_sample(code, kind):
            self._kinds[name] = (code, kind)
            self.settled.add(name)

    def count_phrase(self, code: str) -> bool:
        """Count a code found by a phrase; false if its time or a sample is needed."""
        if self._keeps_lines and (self._options.needs_time or self.wants_sample(code, LEGACY)):
            return False
        self._phrases[code] = self._phrases.get(code, 0) + 1
        return True

    def add_refusal(
        self,
        code: str,
        kind: str,
        *,
        offset: int,
        text: str,
        surface: str = UNKNOWN,
        moment: datetime | None = None,
    ) -> None:
        """Count a refusal in the line at `offset`; `text` is only for samples."""
        hour = ""
        if self._options.needs_time:
            if not self._within_bounds(moment):
                return
            hour = UNKNOWN if moment is None else f"{moment:%Y-%m-%dT%H}"
        key = CountKey(code, kind, surface, hour, self._file)
        self._rows[key] = self._rows.get(key, 0) + 1
        if self.wants_sample(code, kind):
            # Lines come in order, so keep the first ones.
            sample = LineSample(self._file, offset, printable_line(text))
            self._samples[code, kind] = (*self._samples.get((code, kind), ()), sample)
        if len(self._rows) + len(self.names) > _MAX_NAMES:
            # Drop the unknown codes that the final counts would drop.
            kept = self.to_counts(0)
            self._rows, self._samples = dict(kept.rows), dict(kept.samples)
            for known in (self.names, self.settled, self._kinds, self._phrases):
                known.clear()

    def wants_sample(self, code: str, kind: str) -> bool:
        """Return whether more samples of a code are needed."""
        most = max(self._options.samples, kind in _BOUNDED_KINDS)
        return most > 0 and len(self._samples.get((code, kind), ())) < most

    def to_counts(self, size: int) -> RefusalCounts:
        """Return the counts so far, with the number of bytes read."""
        rows = dict(self._rows)
        named = [(*self._kinds[name], number) for name, number in self.names.items()]
        meant = [(code, LEGACY, number) for code, number in self._phrases.items()]
        for code, kind, number in (*named, *meant):
            key = CountKey(code, kind, file=self._file)
            rows[key] = rows.get(key, 0) + number
        part = RefusalCounts(rows, self._samples, size, cut=self.cut, undated=self._undated)
        return merge_counts([part], samples=self._options.samples)

    def _within_bounds(self, moment: datetime | None) -> bool:
        since, until = self._options.since, self._options.until
        if moment is None:
            self._undated += bool(since or until)
            return not (since or until)
        return (since is None or since <= moment) and (until is None or moment < until)


def printable_line(text: str) -> str:
    """Return a line truncated, with control characters escaped."""
    return one_line(text[:MAX_SAMPLE_LENGTH]) + "…" * (len(text) > MAX_SAMPLE_LENGTH)
