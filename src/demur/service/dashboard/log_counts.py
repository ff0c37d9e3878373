"""The refusals in a log, counted and put in order for a page."""

import io
from collections import defaultdict
from datetime import datetime

import msgspec

from demur.codes.registry import Registry
from demur.service.problem import invalid
from demur.triage.counts import CANONICAL, LEGACY, QUOTED, Counts
from demur.triage.options import Options
from demur.triage.scan import scan_stream

__all__ = ["LARGEST", "LogCode", "LogCounts", "count_log"]

# A small file can unpack to a very large one; a browser is not the place to count that.
LARGEST = 1 << 30
_MOST_CODES = 200


class LogCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code in a log: how often its guard said it, as a line or a phrase, and who quoted it."""

    code: str
    count: int
    percent: float
    canonical: int
    legacy: int
    quoted: int
    known: bool
    sample: str


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a log holds."""

    name: str
    size: int
    total: int
    codes: list[LogCode]
    notes: list[str]


def count_log(name: str, content: bytes, now: datetime, registry: Registry) -> LogCounts:
    """Return the refusals in a log: text or JSON lines, compressed or not.

    Raises:
        ProblemError: It unpacks to more than can be counted here.
    """
    read = [0]

    def watched(size: int) -> None:
        read[0] += size
        if read[0] > LARGEST:
            raise invalid(
                413, f"unpacked it has more than {LARGEST} bytes", help="demur triage counts it"
            )

    options = Options(now=now, samples=1)
    raw: io.RawIOBase = _Memory(content)
    counts = scan_stream(raw, name, options, progress=watched)
    return LogCounts(
        name=name or "a log without a name",
        size=counts.size,
        total=sum(number for key, number in counts.rows.items() if key.kind != QUOTED),
        codes=_codes(counts, registry)[:_MOST_CODES],
        notes=[f"Read as far as it goes: {one.reason}" for one in counts.unread],
    )


class _Memory(io.RawIOBase):
    """Bytes at hand, as a stream."""

    def __init__(self, content: bytes) -> None:
        self._view = memoryview(content)
        self._at = 0

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill the buffer."""
        part = self._view[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _codes(counts: Counts, registry: Registry) -> list[LogCode]:
    kinds: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, number in counts.rows.items():
        kinds[key.code][key.kind] += number
    own = {code: sum(by.values()) - by[QUOTED] for code, by in kinds.items()}
    total = sum(own.values())
    samples = {code: found[0].text for (code, _), found in counts.samples.items() if found}
    rows = [
        LogCode(
            code=code,
            count=own[code],
            percent=100 * own[code] / total if total else 0.0,
            canonical=by[CANONICAL],
            legacy=by[LEGACY],
            quoted=by[QUOTED],
            known=code in registry,
            sample=samples.get(code, "")[:300],
        )
        for code, by in kinds.items()
    ]
    return sorted(rows, key=lambda one: (-one.count, one.code))
