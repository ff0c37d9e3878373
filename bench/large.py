"""A store that fills up, and what people ask of it when it is large."""

import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deciding import TENANTS, asked, small_policy
from table import Table, amount

from demur.gate.clock import format_timestamp
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.opening import open_store
from demur.store.store import Store

__all__ = ["large"]

_BATCH = 500
_DAYS = 30
_SHOWN = 300
_REPEATS = 15


class Days:
    """A clock that spreads decisions evenly over some days, the last of them now."""

    def __init__(self, decisions: int) -> None:
        self._end = datetime(2026, 6, 30, 12, tzinfo=UTC)
        self._start = self._end - timedelta(days=_DAYS)
        self._step = timedelta(days=_DAYS) / decisions
        self._asked = 0

    def __call__(self) -> datetime:
        """Return the moment; time goes on with every decision."""
        return self._start + self._step * self._asked

    def pass_on(self, decisions: int) -> None:
        """Let time go on."""
        self._asked += decisions

    @property
    def week_ago(self) -> str:
        """Seven days before the end, as records write it."""
        return format_timestamp(self._end - timedelta(days=7))


def large(table: Table, folder: Path, decisions: int) -> None:
    """Measure a store that fills up, and what people ask of it then."""
    path, days = folder / "large.db", Days(decisions)
    with Gate(small_policy(), open_store(path), clock=days) as gate:
        start = time.monotonic()
        taken = list(filled(gate, days, decisions))
        minutes = (time.monotonic() - start) / 60
        tenth = max(1, len(taken) // 10)
        first, last = (statistics.median(part) for part in (taken[:tenth], taken[-tenth:]))
        table.row(
            f"ingest, last tenth of {decisions:,}, against the first",
            f"{1 / last:,.0f}/s",
            f"{1 / first:,.0f}/s",
            ratio=first / last,
            at_least=0.8,
        )
        table.row("  minutes, GiB", f"{minutes:.1f}", f"{path.stat().st_size / 2**30:.2f}")
        assert gate.store is not None
        queries(table, gate.store, path, days.week_ago)


def filled(gate: Gate, days: Days, decisions: int) -> Iterator[float]:
    """Fill the store and yield the seconds a decision, batch by batch."""
    for _ in range(decisions // _BATCH):
        batch = asked(_BATCH, TENANTS)
        start = time.perf_counter()
        made = gate.decide_many(batch)
        yield (time.perf_counter() - start) / _BATCH
        days.pass_on(_BATCH)
        if any(record.verdict == "ABSTAIN" for record in made):
            sys.exit("a decision could not be stored")


_WEEK = "WHERE tenant = :tenant AND created_at >= :since"
_QUERIES = {
    "counts by code, a tenant, 7 days": (
        f"SELECT reason_code, COUNT(*) FROM decision_reasons {_WEEK} "  # noqa: S608 - our own
        "GROUP BY reason_code ORDER BY 2 DESC"
    ),
    "top reasons of DENY, a tenant, 7 days": (
        f"SELECT reason_code, COUNT(*) FROM decision_reasons {_WEEK} "  # noqa: S608 - our own
        "AND verdict = 'DENY' GROUP BY reason_code ORDER BY 2 DESC LIMIT 5"
    ),
    "verdicts by action, a tenant, 7 days": (
        f"SELECT action_type, verdict, COUNT(*) FROM decision_records {_WEEK} "  # noqa: S608
        "GROUP BY action_type, verdict"
    ),
    "decisions by day, a tenant, 7 days": (
        f"SELECT date(created_at), COUNT(*) FROM decision_records {_WEEK} "  # noqa: S608
        "GROUP BY date(created_at)"
    ),
}


def queries(table: Table, store: Store, path: Path, since: str) -> None:
    """Measure what a dashboard asks."""
    ids = [record.decision_id for record in store.find_records(limit=_SHOWN * 10)][::10]
    answered(table, "show: one decision by id", store.get, ids)

    def latest(wanted: RecordFilter) -> list[DecisionRecord]:
        return list(store.find_records(wanted, newest_first=True, limit=50))

    answered(table, "latest 50 decisions, all tenants", latest, [RecordFilter()] * _REPEATS)
    one = RecordFilter(tenant="tenant-3")
    answered(table, "latest 50 decisions, a tenant", latest, [one] * _REPEATS)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:

        def ask(query: str) -> list[Any]:
            return connection.execute(query, {"tenant": one.tenant, "since": since}).fetchall()

        for name, query in _QUERIES.items():
            answered(table, name, ask, [query] * _REPEATS)


def answered(
    table: Table, name: str, ask: Callable[[Any], object], questions: Sequence[object]
) -> None:
    """Add a row: how long an answer usually takes, held against 50 ms."""
    taken = []
    for question in questions:
        start = time.perf_counter()
        answer = ask(question)
        taken.append(time.perf_counter() - start)
        if not answer:
            sys.exit(f"nothing was found: {name}")
    median = statistics.median(taken)
    table.row(name, amount(median), "50 ms", ratio=median / 0.05, at_most=1)
