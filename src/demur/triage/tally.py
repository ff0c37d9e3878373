"""Takes note of refusals while a piece of a log is read, and says in the end how many."""

from datetime import datetime

from demur.errors import one_line
from demur.triage.counts import (
    LEGACY,
    MAX_UNKNOWN_CODES,
    UNKNOWN,
    RefusalCounts,
    CountKey,
    LineSample,
    merge_counts,
)
from demur.triage.options import TriageOptions

__all__ = ["MAX_SAMPLE_LENGTH", "PieceTally"]

MAX_SAMPLE_LENGTH = 300
_MAX_NAMES = 8 * MAX_UNKNOWN_CODES


class PieceTally:
    """The counts of one piece of one file, as they grow.

    `names` counts the codes in `settled`, which need nothing but counting. All others go through
    `add_refusal`. `dense` says whether the lines so far were full of refusals.
    """

    def __init__(self, options: TriageOptions, file: str = "") -> None:
        self.dense = False
        self.names: dict[bytes, int] = {}
        self.settled: set[bytes] = set()
        self.cut = 0
        self._options = options
        self._file = file
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
        if self._options.needs_time or self.wants_sample(code, LEGACY):
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
            held = self._samples.get((code, kind), ())
            self._samples[code, kind] = (
                *held,
                LineSample(self._file, offset, printable_line(text)),
            )
        if len(self._rows) + len(self.names) > _MAX_NAMES:
            self._prune_unknown()

    def wants_sample(self, code: str, kind: str) -> bool:
        """Return whether more samples of a code are needed."""
        most = max(self._options.samples, kind == UNKNOWN)
        return most > 0 and len(self._samples.get((code, kind), ())) < most

    def to_counts(self, size: int) -> RefusalCounts:
        """Return the counts so far, with the number of bytes read."""
        rows = dict(self._rows)
        named = [(*self._kinds[name], number) for name, number in self.names.items()]
        meant = [(code, LEGACY, number) for code, number in self._phrases.items()]
        for code, kind, number in (*named, *meant):
            key = CountKey(code, kind, file=self._file)
            rows[key] = rows.get(key, 0) + number
        part = RefusalCounts(
            rows=rows, samples=self._samples, size=size, cut=self.cut, undated=self._undated
        )
        return merge_counts([part], samples=self._options.samples)

    def _within_bounds(self, moment: datetime | None) -> bool:
        since, until = self._options.since, self._options.until
        if moment is None:
            self._undated += bool(since or until)
            return not (since or until)
        return (since is None or since <= moment) and (until is None or moment < until)

    def _prune_unknown(self) -> None:
        """Drop the unknown codes that the final counts would drop."""
        kept = self.to_counts(0)
        self._rows = dict(kept.rows)
        self._samples = dict(kept.samples)
        self.names.clear()
        self.settled.clear()
        self._kinds.clear()
        self._phrases.clear()


def printable_line(text: str) -> str:
    """Return a line truncated, with control characters escaped."""
    short = one_line(text[:MAX_SAMPLE_LENGTH])
    return f"{short}…" if len(text) > MAX_SAMPLE_LENGTH else short
