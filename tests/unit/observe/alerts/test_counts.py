from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.store_records import make_record

from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.observe.alerts.counts import (
    CombinedSource,
    DecisionCounts,
    RecordSource,
    StoreSource,
    UnreadableSource,
    add_counts,
    unknown_counts,
)
from demur.observe.alerts.rules import DecisionSelector, SelectorField
from demur.store.opening import open_store

A = DecisionCounts(
    3, {"RCE_RISK": 1}, {"HARD_BLOCK": 1}, {"DENY": 1, "ALLOW": 2}, {"NEED_CONTEXT": 1}
)


def test_a_selector_chooses_by_its_field() -> None:
    assert A.count_selected(DecisionSelector(SelectorField.CODE, "RCE_RISK")) == 1
    assert A.count_selected(DecisionSelector(SelectorField.CODE, "SECRET_LEAK")) == 0
    both = DecisionSelector(SelectorField.FAMILY, "guard", ("RCE_RISK", "SECRET_LEAK"))
    assert A._replace(codes={"RCE_RISK": 1, "SECRET_LEAK": 2}).count_selected(both) == 3
    assert A.count_selected(DecisionSelector(SelectorField.CLASS, "HARD_BLOCK")) == 1
    assert A.count_selected(DecisionSelector(SelectorField.VERDICT, "ALLOW")) == 2
    assert A.count_selected(DecisionSelector(SelectorField.OUTPUT, "NEED_CONTEXT")) == 1


def test_counts_add_up() -> None:
    both = add_counts([A, A])

    assert both.decisions == 6
    assert both.verdicts == {"DENY": 2, "ALLOW": 4}
    assert both.problem == ""


def test_a_count_missing_from_one_source_is_missing_from_the_sum() -> None:
    both = add_counts([A, unknown_counts("gone"), unknown_counts("gone")])

    assert both.decisions is None
    assert both.verdicts is None
    assert both.codes == {"RCE_RISK": 1}
    assert both.problem == "gone"
    assert both.count_selected(DecisionSelector(SelectorField.VERDICT, "DENY")) is None


DAY = datetime(2027, 1, 1, tzinfo=UTC)
MINUTE_MS = 60_000


def moment(minutes: float) -> datetime:
    return DAY + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("since", "until", "number"),
    [
        (60, 120, 2),  # whole hours, by tallies alone
        (75, 135, 2),  # both ends inside an hour
        (90, 91, 1),  # inside one hour
        (90, 90, 0),
        (0, 600, 6),
        (89.99, 150, 3),  # up to the moment of the check
        (121, 150, 1),
    ],
)
def test_a_stretch_of_time_is_counted_exactly(since: float, until: float, number: int) -> None:
    minutes = (30, 60, 90, 120, 140, 500)
    with open_store(":memory:") as store:
        for minute in minutes:
            store.put(make_record(minute * MINUTE_MS))
        source = StoreSource(store, moment(150))
        counts = source.count_between(moment(since), moment(until))

    assert counts.decisions == sum(since <= minute < until for minute in minutes) == number
    assert counts.codes.get("REFUND_OVER_ESCALATION_LIMIT", 0) == number
    assert (counts.classes or {}).get("WORKFLOW_BLOCK", 0) == number


def test_tallies_and_records_are_counted_alike() -> None:
    with open_store(":memory:") as store:
        store.put(make_record(1, reason_codes=("RCE_RISK", "SECRET_LEAK")))
        allowed: dict[str, Any] = {
            "verdict": Verdict.ALLOW,
            "decision_output": DecisionOutput.ALLOW_EXECUTE,
        }
        store.put(make_record(2, reason_codes=(), refusal_class=None, **allowed))
        whole = StoreSource(store, moment(0)).count_between(moment(0), moment(60))
        records = RecordSource(store.find_records()).count_between(moment(0), moment(60))

    assert whole == records
    assert whole.verdicts == {"ESCALATE": 1, "ALLOW": 1}
    assert whole.outputs == {"NEED_CONTEXT": 1, "ALLOW_EXECUTE": 1}


def test_tenants_are_kept_apart() -> None:
    other = make_record(2, tenant="umbrella")
    with open_store(":memory:") as store:
        store.put(make_record(1))
        store.put(other)
        source = StoreSource(store, moment(60), tenant="acme")
        everybody = StoreSource(store, moment(60))

        assert everybody.count_between(moment(0), moment(60)).decisions == 2
        assert everybody.count_between(moment(0), moment(1)).decisions == 2
        assert source.count_between(moment(0), moment(60)).decisions == 1
        assert source.count_between(moment(0), moment(1)).decisions == 1
    assert RecordSource([other], tenant="acme").count_between(moment(0), moment(60)).decisions == 0


def test_a_store_that_cannot_be_read_says_so() -> None:
    store = open_store(":memory:")
    store.close()
    counts = StoreSource(store, moment(60)).count_between(moment(0), moment(60))

    assert counts.decisions is None
    assert counts.problem.startswith("the store cannot be read: ")


def test_sources_add_up_and_one_that_is_lost_is_felt() -> None:
    records = RecordSource([make_record(1)])
    both = CombinedSource([records, UnreadableSource("gone")]).count_between(moment(0), moment(60))

    assert both.codes == {"REFUND_OVER_ESCALATION_LIMIT": 1}
    assert (both.decisions, both.problem) == (None, "gone")
    assert CombinedSource([]).count_between(moment(0), moment(60)) == DecisionCounts()
