"""Counts grouped for people and programs: by code, class, surface, time, file or kind."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.triage.counts import CANONICAL, LEGACY, QUOTED, UNKNOWN, Counts, Key

__all__ = ["GROUPINGS", "Group", "as_csv", "as_json", "groups", "unknown_codes"]

NO_CLASS = "none"


class Group(NamedTuple):
    """Counts of refusals of known codes with the same values in `names`."""

    names: tuple[str, ...]
    canonical: int
    legacy: int
    share: float

    @property
    def total(self) -> int:
        """The number of refusals."""
        return self.canonical + self.legacy


def _class(key: Key, registry: Registry) -> str:
    entry = registry.get(key.code)
    return NO_CLASS if entry is None else str(entry.refusal_class or NO_CLASS)


GROUPINGS: Mapping[str, Callable[[Key, Registry], str]] = {
    "code": lambda key, _: key.code,
    "class": _class,
    "surface": lambda key, _: key.surface,
    "hour": lambda key, _: key.hour or UNKNOWN,
    "day": lambda key, _: key.hour if key.hour == UNKNOWN else key.hour[:10] or UNKNOWN,
    "file": lambda key, _: key.file,
    "kind": lambda key, _: key.kind,
}
_TIMES = {"hour", "day"}


def groups(counts: Counts, by: Sequence[str], registry: Registry) -> list[Group]:
    """Return the groups, largest first, or in order of time."""
    numbers: dict[tuple[str, ...], dict[str, int]] = {}
    for key, number in counts.rows.items():
        if key.kind in {CANONICAL, LEGACY}:
            names = tuple(GROUPINGS[each](key, registry) for each in by)
            kinds = numbers.setdefault(names, {CANONICAL: 0, LEGACY: 0})
            kinds[key.kind] += number
    total = counts.total()
    found = [
        Group(names, kinds[CANONICAL], kinds[LEGACY], sum(kinds.values()) / total)
        for names, kinds in numbers.items()
    ]
    timed = not _TIMES.isdisjoint(by[:1])
    return sorted(found, key=lambda each: (each.names if timed else (), -each.total, each.names))


def unknown_codes(counts: Counts, kind: str = UNKNOWN) -> list[tuple[str, int]]:
    """Return the unknown codes (or the codes of another kind), most frequent first."""
    numbers: dict[str, int] = {}
    for key, number in counts.rows.items():
        if key.kind == kind:
            numbers[key.code] = numbers.get(key.code, 0) + number
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def as_json(
    counts: Counts, by: Sequence[str], registry: Registry, *, top: int | None = None
) -> dict[str, Any]:
    """Return the counts as JSON values."""
    found = groups(counts, by, registry)
    return {
        "by": list(by),
        "total": counts.total(),
        "canonical": counts.total(CANONICAL),
        "legacy": counts.total(LEGACY),
        "unknown": counts.total(UNKNOWN),
        "quoted": counts.total(QUOTED),
        "groups": [_group(group, by) for group in found[:top]],
        "more_groups": len(found) - len(found[:top]),
        "unknown_codes": [
            {"code": code, "number": number} for code, number in unknown_codes(counts)[:top]
        ],
        "samples": [
            {"code": code, "kind": kind, **sample._asdict()}
            for (code, kind), samples in sorted(counts.samples.items())
            for sample in samples
        ],
        "files": counts.files,
        "bytes": counts.size,
        "cut_lines": counts.cut,
        "undated": counts.undated,
        "unread": [unread._asdict() for unread in counts.unread],
    }


def _group(group: Group, by: Sequence[str]) -> dict[str, Any]:
    names = dict(zip(by, group.names, strict=True))
    numbers = {"canonical": group.canonical, "legacy": group.legacy, "total": group.total}
    return {**names, **numbers, "share": round(group.share, 6)}


def as_csv(counts: Counts, by: Sequence[str], registry: Registry, *, top: int | None = None) -> str:
    """Return the groups as CSV with a header; cells that look like formulas are quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*by, "canonical", "legacy", "total", "share"])
    for group in groups(counts, by, registry)[:top]:
        names = [_inert(name) for name in group.names]
        writer.writerow([*names, group.canonical, group.legacy, group.total, f"{group.share:.6f}"])
    return text.getvalue()


def _inert(cell: str) -> str:
    # A file name may look like a formula.
    return f"'{cell}" if cell[:1] in {"=", "+", "-", "@", "\t", "\r"} and cell != "-" else cell
