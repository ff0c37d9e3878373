"""Counts of decisions in a period, from a store, from records at hand, or from several sources.

A store keeps tallies by whole hours. Where a period begins or ends inside an hour, the records
of that part are read one by one, so that the counts are exact.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.observe.alerts.rules import DecisionSelector, SelectorField
from demur.store.backend import RecordFilter, StorageError
from demur.store.rows import Tallies
from demur.store.store import Store


class DecisionCounts(NamedTuple):
    """Counts of decisions by kind. None means that the source does not know.

    `problem` says why the counts are incomplete; each number is then a lower bound.
    """

    decisions: int | None = 0
    codes: Mapping[str, int] = {}
    classes: Mapping[str, int] | None = {}
    verdicts: Mapping[str, int] | None = {}
    outputs: Mapping[str, int] | None = {}
    problem: str = ""

    def count_selected(self, selector: DecisionSelector) -> int | None:
        """Return the number of decisions that a selector matches, or None if unknown."""
        if selector.codes:
            return sum(self.codes.get(code, 0) for code in selector.codes)
        counts = {
            SelectorField.CODE: self.codes,
            SelectorField.CLASS: self.classes,
            SelectorField.VERDICT: self.verdicts,
            SelectorField.OUTPUT: self.outputs,
        }[selector.field]
        return None if counts is None else counts.get(selector.value, 0)


class CountSource(Protocol):
    """A source of counts."""

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts from `since` on and before `until`."""


def unknown_counts(problem: str) -> DecisionCounts:
    """Return counts of which nothing is known."""
    return DecisionCounts(None, {}, None, None, None, problem)


def add_counts(parts: Iterable[DecisionCounts]) -> DecisionCounts:
    """Return the sum of counts; a number is unknown if one of the parts does not know it."""
    rows = list(parts) or [DecisionCounts()]
    numbers, codes, classes, verdicts, outputs, problems = zip(*rows, strict=True)
    return DecisionCounts(
        None if None in numbers else sum(numbers),
        _merge_counts(codes) or {},
        _merge_counts(classes),
        _merge_counts(verdicts),
        _merge_counts(outputs),
        "; ".join(dict.fromkeys(filter(None, problems))),
    )


def _merge_counts(parts: Sequence[Mapping[str, int] | None]) -> Mapping[str, int] | None:
    merged: Counter[str] = Counter()
    for part in parts:
        if part is None:
            return None
        merged.update(part)
    return merged


_HOUR = timedelta(hours=1)


class StoreSource:
    """The decisions in a store, of one tenant or of all.

    `clock` is the current time. Nothing can have been stored after it, so a period that ends there
    can use the tally of the current hour. A period with any other end reads records instead.
    """

    def __init__(self, store: Store, clock: datetime, *, tenant: str | None = None) -> None:
        self._store, self._clock, self._tenant = store, clock, tenant
        # Rules share their windows.
        self._known: dict[tuple[datetime, datetime], DecisionCounts] = {}

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts, or the problem if the store cannot be read."""
        about = (since.astimezone(UTC), until.astimezone(UTC))
        try:
            if about not in self._known:
                self._known[about] = add_counts(self._count_parts(*about))
            return self._known[about]
        except StorageError as error:
            return unknown_counts(f"the store cannot be read: {error.problem}")

    def _count_parts(self, since: datetime, until: datetime) -> Iterable[DecisionCounts]:
        first = _start_of_hour(since + _HOUR - timedelta(microseconds=1))
        last = until if until == self._clock else _start_of_hour(until)
        if first >= last:
            return [self._count_records(since, until)]
        tallies = sum_tallies(self._store.read_tallies(self._tenant, first, last))
        return [self._count_records(since, first), tallies, self._count_records(last, until)]

    def _count_records(self, since: datetime, until: datetime) -> DecisionCounts:
        if since >= until:
            return DecisionCounts()
        period = RecordFilter(since=format_timestamp(since), until=format_timestamp(until))
        # Tenant by tenant: a store has an index by tenant and time, but not by time alone.
        tenants = [self._tenant] if self._tenant is not None else None
        return count_records(
            record
            for tenant in tenants or [head.tenant for head in self._store.list_heads()]
            for record in self._store.find_records(period._replace(tenant=tenant))
        )


class RecordSource:
    """Records at hand, of one tenant or of all."""

    def __init__(self, records: Iterable[DecisionRecord], *, tenant: str | None = None) -> None:
        self._records = [one for one in records if tenant in {None, one.tenant}]

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        first, beyond = format_timestamp(since), format_timestamp(until)
        return count_records(one for one in self._records if first <= one.created_at < beyond)


class UnreadableSource:
    """A source that cannot be read, with its problem."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:  # noqa: ARG002 - the same for every period
        """Return unknown counts."""
        return unknown_counts(self._problem)


class CombinedSource:
    """Several sources together."""

    def __init__(self, sources: Sequence[CountSource]) -> None:
        self._sources = sources

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        return add_counts(source.count_between(since, until) for source in self._sources)


def count_records(records: Iterable[DecisionRecord]) -> DecisionCounts:
    """Return the counts of records."""
    number = 0
    codes, classes, verdicts, outputs = (Counter[str]() for _ in range(4))
    for record in records:
        number += 1
        codes.update(set(record.reason_codes))
        verdicts[str(record.verdict)] += 1
        outputs[str(record.decision_output)] += 1
        if record.refusal_class is not None:
            classes[str(record.refusal_class)] += 1
    return DecisionCounts(number, codes, classes, verdicts, outputs)


def sum_tallies(tallies: Tallies) -> DecisionCounts:
    """Return the counts of tallies."""
    codes, classes, verdicts, outputs = (Counter[str]() for _ in range(4))
    for one in tallies.decisions:
        verdicts[one.verdict] += one.number
        outputs[one.decision_output] += one.number
        if one.refusal_class:
            classes[one.refusal_class] += one.number
    for reason in tallies.reasons:
        codes[reason.reason_code] += reason.number
    return DecisionCounts(verdicts.total(), codes, classes, verdicts, outputs)


def _start_of_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
