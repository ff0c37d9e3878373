from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from demur.model.record import DecisionRecord
from demur.service.sample import SAMPLE_TENANT, has_sample, make_sample
from demur.store.backend import RecordFilter
from demur.store.opening import open_store

NOW = datetime(2026, 11, 15, 15, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def day() -> list[DecisionRecord]:
    with open_store(":memory:") as store:
        assert not has_sample(store)
        assert make_sample(store, NOW, count=400) == 400
        assert has_sample(store)
        reviews = Counter(
            label.value for label in store.find_labels("review", ("good", "false_refusal"))
        )
        assert reviews.keys() == {"good", "false_refusal"}
        return list(store.find_records(RecordFilter()))


def test_the_day_is_marked_as_a_sample(day: list[DecisionRecord]) -> None:
    assert {record.tenant for record in day} == {SAMPLE_TENANT}
    assert all((record.request_id or "").startswith("sample-") for record in day)


def test_the_day_lies_in_the_last_24_hours_in_order(day: list[DecisionRecord]) -> None:
    times = [datetime.fromisoformat(record.created_at) for record in day]

    assert times == sorted(times)
    assert NOW - timedelta(days=1) <= times[0]
    assert times[-1] <= NOW


def test_the_day_is_believable(day: list[DecisionRecord]) -> None:
    verdicts = Counter(str(record.verdict) for record in day)
    codes = Counter(code for record in day for code in record.reason_codes)

    assert verdicts["ALLOW"] > 0.7 * len(day)
    assert verdicts["DENY"] >= 10
    assert verdicts["ESCALATE"] >= 10
    assert verdicts["ABSTAIN"] == 0
    assert {"CHARGEBACK_RISK_BLOCK", "CONTEXT_INJECTION", "REFUND_OVER_ESCALATION_LIMIT"} <= set(
        codes
    )


def test_the_same_moment_makes_the_same_day() -> None:
    made = []
    for _ in range(2):
        with open_store(":memory:") as store:
            make_sample(store, NOW, count=40)
            made.append(
                [
                    (r.created_at, r.request_id, r.reason_codes)
                    for r in store.find_records(RecordFilter())
                ]
            )

    assert made[0] == made[1]
