from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import Severity
from demur.observe.alerts.counts import DecisionCounts, unknown_counts
from demur.observe.alerts.evaluate import Alert, AlertState, evaluate_rules
from demur.observe.alerts.rule import (
    AlertRule,
    SelectorField,
    AlertKind,
    DecisionSelector,
    ShareWhole,
)

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CORE = Registry.load()
CODE = DecisionSelector(SelectorField.CODE, "RCE_RISK")
DENY = DecisionSelector(SelectorField.VERDICT, "DENY")


class Scripted:
    """Tells the newest window, then the time before it, then whatever is older."""

    def __init__(self, *counts: DecisionCounts) -> None:
        self.counts = counts
        self.asked: list[tuple[datetime, datetime]] = []

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the next counts."""
        self.asked.append((since, until))
        return self.counts[min(len(self.asked), len(self.counts)) - 1]


def make(kind: AlertKind, selector: DecisionSelector | None = CODE, **more: Any) -> AlertRule:
    given: dict[str, Any] = {"window": HOUR, "before": HOUR, "minimum": 1, **more}
    return AlertRule("A1", kind, Severity.HIGH, description="d", selector=selector, **given)


def judged(rule: AlertRule, *counts: DecisionCounts) -> Alert:
    [alert] = evaluate_rules([rule], Scripted(*counts), NOW, CORE)
    return alert


@pytest.mark.parametrize(
    ("number", "state"), [(50, AlertState.QUIET), (51, AlertState.FIRING), (0, AlertState.QUIET)]
)
def test_a_count_fires_above_its_number(number: int, state: AlertState) -> None:
    alert = judged(make(AlertKind.COUNT, threshold=50), DecisionCounts(100, {"RCE_RISK": number}))

    assert (alert.state, alert.value) == (state, number)
    assert alert.message.startswith(f"RCE_RISK: {number} in the last hour, ")
    assert (alert.since, alert.until) == (NOW - HOUR, NOW)


def test_a_count_that_is_the_least_there_were_can_fire_and_is_never_quiet() -> None:
    rule = make(AlertKind.COUNT, threshold=50)

    assert (
        judged(rule, DecisionCounts(codes={"RCE_RISK": 51}, problem="gone")).state
        is AlertState.FIRING
    )
    alert = judged(rule, DecisionCounts(codes={"RCE_RISK": 50}, problem="gone"))
    assert (alert.state, alert.message) == (AlertState.UNJUDGED, "could not judge: gone")


def test_what_a_source_does_not_tell_is_not_judged() -> None:
    log = DecisionCounts(None, {}, {}, None, None)

    assert judged(make(AlertKind.COUNT, DENY), log).message.endswith("the source does not tell it")
    assert judged(make(AlertKind.SHARE), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.RATE_CHANGE, DENY), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.RATE_CHANGE), log).state is AlertState.UNJUDGED
    assert judged(make(AlertKind.SHARE, whole=ShareWhole.REFUSALS), log).state is AlertState.QUIET


@pytest.mark.parametrize(
    ("number", "whole", "state"),
    [
        (10, 100, AlertState.QUIET),
        (11, 100, AlertState.FIRING),
        (9, 9, AlertState.QUIET),  # fewer than the minimum
        (0, 0, AlertState.QUIET),
    ],
)
def test_a_share_fires_above_its_percentage_if_there_is_enough(
    number: int, whole: int, state: AlertState
) -> None:
    rule = make(AlertKind.SHARE, threshold=10, minimum=10)

    assert judged(rule, DecisionCounts(whole, {"RCE_RISK": number})).state is state


def test_a_share_can_be_one_of_refusals() -> None:
    codes = {"RCE_RISK": 1, "SECRET_LEAK": 1, "SUCCESS_MEMORY_SIMILAR_ALLOW": 98, "X_UNKNOWN": 2}
    alert = judged(
        make(AlertKind.SHARE, threshold=20, whole=ShareWhole.REFUSALS), DecisionCounts(None, codes)
    )

    assert (alert.state, alert.value) == (AlertState.FIRING, 25)
    assert alert.message == "RCE_RISK: 25 % of 4 refusals in the last hour, over 20 %"


def test_a_share_of_incomplete_counts_is_not_judged() -> None:
    alert = judged(make(AlertKind.SHARE), DecisionCounts(10, {"RCE_RISK": 10}, problem="gone"))

    assert alert.state is AlertState.UNJUDGED


@pytest.mark.parametrize(
    ("now", "before", "state", "value"),
    [
        ((20, 100), (10, 100), AlertState.FIRING, 2.0),
        ((19, 100), (10, 100), AlertState.QUIET, 1.9),
        ((40, 200), (20, 200), AlertState.FIRING, 2.0),
        ((20, 200), (20, 200), AlertState.QUIET, 1.0),  # more decisions alone change nothing
        ((20, 100), (0, 100), AlertState.FIRING, None),
        ((4, 10), (1, 100), AlertState.QUIET, None),  # too few now
        ((20, 100), (1, 4), AlertState.QUIET, None),  # too few before
    ],
)
def test_a_rate_fires_when_it_grew_by_its_factor(
    now: tuple[int, int], before: tuple[int, int], state: AlertState, value: float | None
) -> None:
    rule = make(AlertKind.RATE_CHANGE, DENY, threshold=2, minimum=5)
    alert = judged(
        rule, *(DecisionCounts(whole, verdicts={"DENY": number}) for number, whole in (now, before))
    )

    assert alert.state is state
    assert alert.value == value or alert.value == pytest.approx(value)


def test_a_rate_is_not_judged_if_either_time_is_not_known() -> None:
    rule = make(AlertKind.RATE_CHANGE, DENY, threshold=2)
    good = DecisionCounts(100, verdicts={"DENY": 50})

    for pair in ((good, unknown_counts("a")), (unknown_counts("a"), good)):
        assert judged(rule, *pair).message == "could not judge: a"


def test_a_rate_is_held_against_the_time_before_its_window() -> None:
    source = Scripted(DecisionCounts())
    evaluate_rules([make(AlertKind.RATE_CHANGE, DENY, before=24 * HOUR)], source, NOW, CORE)

    assert source.asked == [(NOW - HOUR, NOW), (NOW - 25 * HOUR, NOW - HOUR)]


def test_an_unknown_code_fires_only_while_it_is_new() -> None:
    rule = make(AlertKind.NEW_UNKNOWN_CODE, None)
    new = DecisionCounts(codes={"RCE_RISK": 1, "A_NEW_ONE": 2, "B_NEW_ONE": 7, "OLD_ONE": 3})

    alert = judged(rule, new, DecisionCounts(codes={"OLD_ONE": 1}))

    assert (alert.state, alert.value) == (AlertState.FIRING, 2)
    assert "knows B_NEW_ONE (7), A_NEW_ONE (2), seen" in alert.message
    assert judged(rule, new, new).state is AlertState.QUIET


def test_many_unknown_codes_are_not_all_named() -> None:
    codes = {f"NEW_{number}": 1 for number in range(7)}

    alert = judged(
        make(AlertKind.NEW_UNKNOWN_CODE, None), DecisionCounts(codes=codes), DecisionCounts()
    )

    assert "NEW_4 (1) and 2 more" in alert.message


def test_unknown_codes_are_not_judged_quiet_from_incomplete_counts() -> None:
    rule = make(AlertKind.NEW_UNKNOWN_CODE, None)

    assert judged(rule, unknown_counts("gone"), DecisionCounts()).state is AlertState.UNJUDGED
    assert judged(rule, DecisionCounts(), unknown_counts("gone")).message == "could not judge: gone"


def test_a_rule_that_must_hold_for_some_time_waits() -> None:
    rule = make(AlertKind.COUNT, threshold=0, hold=timedelta(minutes=50))
    many, none = DecisionCounts(codes={"RCE_RISK": 1}), DecisionCounts()

    assert judged(rule, many).state is AlertState.FIRING
    alert = judged(rule, many, many, none)
    assert alert.state is AlertState.QUIET
    assert alert.message.startswith("not for 50 minutes yet: RCE_RISK: 1 in")
    assert judged(rule, many, unknown_counts("gone")).state is AlertState.UNJUDGED
    assert judged(rule, none).state is AlertState.QUIET


def test_a_rule_is_asked_at_moments_spread_over_its_time() -> None:
    source = Scripted(DecisionCounts(codes={"RCE_RISK": 1}))
    evaluate_rules([make(AlertKind.COUNT, hold=timedelta(minutes=50))], source, NOW, CORE)

    ends = [NOW - until for _, until in source.asked]
    assert ends == [timedelta(minutes=10 * step) for step in range(6)]
