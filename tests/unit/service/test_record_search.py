from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from support.gates import NOON, Ticking, gate_over, refund

from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.service.record_search import find_newest
from demur.store.backend import RecordFilter
from demur.store.opening import open_store
from demur.store.store import Store

ALL = RecordFilter()
RISKY = {"ticket_id": "T-1", "chargeback_risk": 0.95}


def filled(store: Store) -> Gate:
    """Return a gate that denied now and then over two months, and allowed in between."""
    clock = Ticking(NOON - timedelta(days=60))
    gate = gate_over(store, clock=clock)
    for day in range(57):
        clock.advance(days=1, minutes=-day % 3)
        if day % 7 == 0:
            # Twice in hours that follow each other.
            gate.decide(refund(evidence=RISKY), tenant="acme")
            clock.advance(hours=1)
        gate.decide(refund(), tenant="acme")
        if day % 7 == 0:
            gate.decide(refund(evidence=RISKY), tenant="acme" if day % 2 else "other")
    return gate


@pytest.mark.parametrize(
    "wanted",
    [
        RecordFilter(verdict="DENY"),
        RecordFilter(verdict="DENY", tenant="acme"),
        RecordFilter(verdict="DENY", unreviewed=True),
        RecordFilter(reason_code="CHARGEBACK_RISK_BLOCK"),
        RecordFilter(reason_code="CHARGEBACK_RISK_BLOCK", verdict="ALLOW"),
        RecordFilter(refusal_class="HARD_BLOCK", decision_output="REFUSE_WITH_PATH"),
        RecordFilter(verdict="ABSTAIN"),
        RecordFilter(verdict="ALLOW"),
        RecordFilter(action_type="refund", verdict="DENY"),
        RecordFilter(action_type="refund"),
        RecordFilter(
            verdict="DENY", since="2026-10-01T12:30:00.000Z", until="2026-11-08T12:01:00.000Z"
        ),
        RecordFilter(verdict="DENY", until="2026-10-20"),
        RecordFilter(verdict="DENY", since="2026-11-12", tenant="acme"),
        RecordFilter(verdict="DENY", since="2026-12-01"),
        RecordFilter(),
    ],
)
@pytest.mark.parametrize("limit", [3, 100])
def test_the_same_records_are_found_as_by_reading_all(wanted: RecordFilter, limit: int) -> None:
    with open_store(":memory:") as store:
        filled(store)
        now = NOON + timedelta(minutes=1)
        found = find_newest(store, wanted, now, limit)
        all_of_them = list(store.find_records(wanted, newest_first=True, limit=limit))

    assert [one.decision_id for one in found] == [one.decision_id for one in all_of_them]


def test_a_page_goes_on_where_the_one_before_ended() -> None:
    with open_store(":memory:") as store:
        filled(store)
        now = NOON + timedelta(minutes=1)
        wanted = RecordFilter(verdict="DENY")
        whole = find_newest(store, wanted, now, 30)
        rest = find_newest(store, wanted._replace(before=whole[3].decision_id), now, 30)

    assert whole[4:] == rest


class Noting(Store):
    """Notes where is looked for records."""

    spans: tuple[tuple[str | None, str | None], ...] = ()

    def find_records(
        self,
        record_filter: RecordFilter = ALL,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        index_limit: int | None = None,
    ) -> Iterator[DecisionRecord]:
        """Note between which times is looked."""
        self.spans = (*self.spans, (record_filter.since, record_filter.until))
        return super().find_records(
            record_filter, newest_first=newest_first, limit=limit, index_limit=index_limit
        )


def test_only_hours_that_hold_something_are_read() -> None:
    with open_store(":memory:") as store:
        filled(store)
        noting = Noting(store.backend)
        wanted = RecordFilter(
            reason_code="CHARGEBACK_RISK_BLOCK", action_type="refund", since="2026-10-01"
        )
        assert len(find_newest(noting, wanted, NOON, 100)) > 5

    assert all(since and until for since, until in noting.spans)
    hours = [
        datetime.fromisoformat(until) - datetime.fromisoformat(since)
        for since, until in noting.spans
        if since and until
    ]
    assert max(hours) <= timedelta(hours=2)


def test_a_record_that_is_years_old_is_found() -> None:
    with open_store(":memory:") as store:
        gate_over(store, clock=Ticking(NOON - timedelta(days=2000))).decide(refund(evidence=RISKY))

        assert len(find_newest(store, RecordFilter(verdict="DENY"), NOON, 5)) == 1
