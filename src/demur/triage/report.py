"""Counts grouped by code, class, family, surface, time, file or kind, and limits that fail a run.

A limit is written like `RCE_RISK>0`, `unknown>0` or `RATE_LIMIT>10%`.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.markup import escape_cell
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.errors import InputError
from demur.source.item import did_you_mean
from demur.triage.counts import (
    CANONICAL,
    KINDS,
    LEGACY,
    QUOTED,
    UNKNOWN,
    UNMAPPED,
    CountKey,
    RefusalCounts,
)
from demur.triage.suggest import list_suggestions

NO_CLASS = "none"


class RefusalGroup(NamedTuple):
    """Counts of refusals of known codes with the same values in `names`."""

    names: tuple[str, ...]
    canonical: int
    legacy: int
    share: float

    @property
    def total_count(self) -> int:
        """The number of refusals."""
        return self.canonical + self.legacy


def _class_name(key: CountKey, registry: Registry) -> str:
    entry = registry.get(key.code)
    return NO_CLASS if entry is None else str(entry.refusal_class or NO_CLASS)


def _surface_name(key: CountKey, registry: Registry) -> str:
    """Return the surface of a refusal, or the only surface of its code."""
    return _code_surface(key, registry) or key.surface


def _code_surface(key: CountKey, registry: Registry) -> str | None:
    """Return the only surface of the code of a refusal that carries none, or None."""
    entry = registry.get(key.code) if key.surface == UNKNOWN else None
    return str(entry.surfaces[0]) if entry is not None and len(entry.surfaces) == 1 else None


def _family_name(key: CountKey, registry: Registry) -> str:
    entry = registry.get(key.code)
    return NO_CLASS if entry is None else entry.family


GROUPINGS: Mapping[str, Callable[[CountKey, Registry], str]] = {
    "code": lambda key, _: key.code,
    "class": _class_name,
    "family": _family_name,
    "parent": lambda key, registry: registry.top_ancestor(key.code),
    "surface": _surface_name,
    "hour": lambda key, _: key.hour or UNKNOWN,
    "day": lambda key, _: key.hour if key.hour == UNKNOWN else key.hour[:10] or UNKNOWN,
    "file": lambda key, _: key.file,
    "kind": lambda key, _: key.kind,
}
_TIME_GROUPINGS = {"hour", "day"}


def group_counts(
    counts: RefusalCounts, group_by: Sequence[str], registry: Registry
) -> list[RefusalGroup]:
    """Return the groups, largest first, or in order of time."""
    numbers: dict[tuple[str, ...], dict[str, int]] = {}
    for key, number in counts.rows.items():
        if key.kind in {CANONICAL, LEGACY}:
            names = tuple(GROUPINGS[each](key, registry) for each in group_by)
            numbers.setdefault(names, {CANONICAL: 0, LEGACY: 0})[key.kind] += number
    total = counts.count_kinds()
    found = [
        RefusalGroup(names, kinds[CANONICAL], kinds[LEGACY], sum(kinds.values()) / total)
        for names, kinds in numbers.items()
    ]
    timed = not _TIME_GROUPINGS.isdisjoint(group_by[:1])
    return sorted(found, key=lambda one: (one.names if timed else (), -one.total_count, one.names))


def largest_groups(groups: Sequence[RefusalGroup], top: int | None) -> list[RefusalGroup]:
    """Return the `top` largest groups in the order that they have."""
    ranked = sorted(range(len(groups)), key=lambda index: -groups[index].total_count)
    return [groups[index] for index in sorted(ranked[:top])]


def count_code_surfaces(counts: RefusalCounts, registry: Registry) -> int:
    """Return how many refusals have only the surface that their code implies."""
    return sum(
        number
        for key, number in counts.rows.items()
        if key.kind in {CANONICAL, LEGACY} and _code_surface(key, registry) is not None
    )


def unknown_codes(counts: RefusalCounts, kind: str = UNKNOWN) -> list[tuple[str, int]]:
    """Return the unknown codes (or the codes of another kind), most frequent first."""
    numbers: dict[str, int] = {}
    for key, number in counts.rows.items():
        if key.kind == kind:
            numbers[key.code] = numbers.get(key.code, 0) + number
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def counts_json(
    counts: RefusalCounts, group_by: Sequence[str], registry: Registry, *, top: int | None = None
) -> dict[str, Any]:
    """Return the counts as JSON values."""
    found = group_counts(counts, group_by, registry)
    suggested = list_suggestions(counts, registry)
    return {
        "by": list(group_by),
        "total": counts.count_kinds(),
        "canonical": counts.count_kinds(CANONICAL),
        "legacy": counts.count_kinds(LEGACY),
        "unknown": counts.count_kinds(UNKNOWN),
        "quoted": counts.count_kinds(QUOTED),
        "groups": [_group_json(group, group_by) for group in largest_groups(found, top)],
        "more_groups": len(found) - len(found[:top]),
        "surfaces_of_codes": count_code_surfaces(counts, registry),
        "unknown_codes": [
            {"code": code, "number": number} for code, number in unknown_codes(counts)[:top]
        ],
        "unmapped": counts.count_kinds(UNMAPPED),
        "suggestions": [
            {**one._asdict(), "sample": one.sample and one.sample._asdict()}
            for one in suggested[:top]
        ],
        "samples": [
            {"code": code, "kind": kind, **sample._asdict()}
            for (code, kind), samples in sorted(counts.samples.items())
            for sample in samples
            if kind != UNMAPPED
        ],
        "files": counts.files,
        "bytes": counts.size,
        "cut_lines": counts.cut,
        "undated": counts.undated,
        "unread": [unread._asdict() for unread in counts.unread],
    }


def _group_json(group: RefusalGroup, group_by: Sequence[str]) -> dict[str, Any]:
    names = dict(zip(group_by, group.names, strict=True))
    numbers = {"canonical": group.canonical, "legacy": group.legacy, "total": group.total_count}
    return {**names, **numbers, "share": round(group.share, 6)}


def counts_csv(
    counts: RefusalCounts, group_by: Sequence[str], registry: Registry, *, top: int | None = None
) -> str:
    """Return the groups as CSV with a header; cells that look like formulas are quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*group_by, "canonical", "legacy", "total", "share"])
    for group in largest_groups(group_counts(counts, group_by, registry), top):
        names = [escape_cell(name) for name in group.names]
        numbers = (group.canonical, group.legacy, group.total_count, f"{group.share:.6f}")
        writer.writerow([*names, *numbers])
    return text.getvalue()


_LIMIT_PATTERN = re.compile(
    r"\s*(?P<name>[\w./-]+)\s*(?P<sign>>=?)\s*(?P<limit>\d+(?:\.\d+)?)\s*(?P<per>%?)\s*"
)
_LIMIT_HELP = "write one like `RCE_RISK>0`, `unknown>0`, `HARD_BLOCK>=5` or `RATE_LIMIT>10%`"
_TOTAL = "total"


class TriageLimit(NamedTuple):
    """A limit for the number of some refusals, or for their share of all refusals."""

    name: str
    at_least: bool
    limit: float
    share: bool

    @classmethod
    def parse(cls, text: str, registry: Registry) -> "TriageLimit":
        """Return the limit written in a text.

        Raises:
            InputError: It is not a limit, or names no known code, class, family or kind.
        """
        found = _LIMIT_PATTERN.fullmatch(text)
        if found is None:
            raise InputError(f"`{text}` is not a limit", help=_LIMIT_HELP)
        name = found["name"]
        named = {*KINDS, _TOTAL, *RefusalClass, *(entry.family for entry in registry)}
        if name not in named and name not in registry:
            known = [*(entry.code for entry in registry), *named]
            kinds = ", ".join((*KINDS, _TOTAL))
            problem = f"`{name}` is neither a code nor a class nor a family nor one of {kinds}"
            raise InputError(problem, help=did_you_mean(name, known))
        return cls(name, found["sign"] == ">=", float(found["limit"]), bool(found["per"]))

    def measured_value(self, counts: RefusalCounts, registry: Registry) -> float:
        """Return the value to compare with the limit: a number, or a share in percent.

        The share is of the refusals of known codes, and 0 if there are none.
        """
        rows = counts.rows.items()
        number = sum(count for key, count in rows if self._matches(key.code, key.kind, registry))
        if not self.share:
            return number
        total = counts.count_kinds()
        return 100 * number / total if total else 0.0

    def is_exceeded(self, counts: RefusalCounts, registry: Registry) -> bool:
        """Return whether the counts exceed the limit."""
        value = self.measured_value(counts, registry)
        return value >= self.limit if self.at_least else value > self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else ">"
        return f"{self.name}{sign}{self.limit:g}{'%' if self.share else ''}"

    def _matches(self, code: str, kind: str, registry: Registry) -> bool:
        if self.name in KINDS:
            return kind == self.name
        if kind not in {CANONICAL, LEGACY}:
            return False
        entry = registry.get(code)
        groups = set() if entry is None else {entry.refusal_class, entry.family}
        return self.name in {_TOTAL, code, *groups}
