"""Counts that merge: what one piece of a log holds, and what all pieces hold together.

An attacker may write a new code on every line. Of unknown codes only so many are kept by
name, those whose digests are smallest, and the others as one sum: whichever way the log
was cut, the same names stay, with exact numbers.
"""

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from importlib import import_module
from typing import Any, NamedTuple

__all__ = [
    "CANONICAL",
    "KINDS",
    "LEGACY",
    "MAX_UNKNOWN_CODES",
    "OTHER",
    "QUOTED",
    "UNKNOWN",
    "RefusalCounts",
    "CountKey",
    "LineSample",
    "UnreadFile",
    "merge_counts",
]

CANONICAL = "canonical"
LEGACY = "legacy"
UNKNOWN = "unknown"
QUOTED = "quoted"
KINDS = (CANONICAL, LEGACY, UNKNOWN, QUOTED)
OTHER = "_other"
MAX_UNKNOWN_CODES = 1_000


class CountKey(NamedTuple):
    """The key of a count. `hour` is empty if times were not requested.

    The kind is `unknown` for a well-formed code that is not registered, and `quoted` for a
    refusal in a structured log that did not come from the guard itself.
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
            if about[1] != UNKNOWN or kept is None or about[0] in kept
        },
        size=sum(part.size for part in parts),
        files=sum(part.files for part in parts),
        cut=sum(part.cut for part in parts),
        undated=sum(part.undated for part in parts),
        unread=tuple(sorted({unread for part in parts for unread in part.unread})),
    )


def _kept_names(rows: Mapping[CountKey, int]) -> frozenset[str] | None:
    """Return the unknown codes to keep by name; None to keep all."""
    names = {key.code for key in rows if key.kind == UNKNOWN and key.code != OTHER}
    if len(names) <= MAX_UNKNOWN_CODES:
        return None
    # Imported late, because it is slow to import and rarely needed.
    blake2b: Any = import_module("hashlib").blake2b

    def digest(name: str) -> bytes:
        raw = name.encode("utf-8", "surrogateescape")
        return bytes(blake2b(raw, digest_size=16).digest())

    return frozenset(nsmallest(MAX_UNKNOWN_CODES, names, key=digest))


def _prune_rows(rows: dict[CountKey, int], kept: frozenset[str] | None) -> dict[CountKey, int]:
    if kept is None:
        return rows
    pruned: dict[CountKey, int] = {}
    for key, number in rows.items():
        named = key.kind != UNKNOWN or key.code in kept
        under = key if named else key._replace(code=OTHER)
        pruned[under] = pruned.get(under, 0) + number
    return pruned
