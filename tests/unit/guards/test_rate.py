import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import InputError, InputTypeError
from demur.guards import rate
from demur.guards.rate import RateConfig, RateLimit, RateState, RateUse, apply_limit
from demur.model.finding import Action, Finding
from demur.testing import assert_guard_contract

LIMITS = st.builds(
    RateLimit,
    count=st.integers(1, 1000),
    per_s=st.sampled_from([0.5, 1, 7, 60, 3600]),
    burst=st.none() | st.integers(1, 50),
)
# How long after the use before, in milliseconds, and what it costs.
USES = st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 20)), max_size=60)


@given(LIMITS, USES, st.sampled_from([0.0, 1e4, 1.75e9]))
def test_no_stretch_of_time_admits_more_than_burst_and_rate(
    limit: RateLimit, uses: list[tuple[int, int]], begin: float
) -> None:
    """Hold any uses at any times to the limit.

    INVARIANT: in any stretch of time, at most the burst plus what the rate allows is admitted.
    """
    state, now = RateState(), 0
    admitted: list[tuple[int, int]] = []
    for gap, cost in uses:
        now += gap
        reckoning = apply_limit(limit, state, begin + now / 1000, cost)
        state = reckoning.state
        if reckoning.admitted:
            admitted.append((now, cost))

    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            stretch = Fraction(admitted[last][0] - admitted[first][0], 1000)
            total = sum(cost for _, cost in admitted[first : last + 1])
            rate = Fraction(limit.count) / Fraction(limit.per_s)
            slack = Fraction(1, 1000) + rate * Fraction(1, 10**6)
            assert total <= limit.max_burst + rate * stretch + slack


@given(LIMITS, st.integers(1, 50), st.floats(0, 1000), st.floats(0, 1e6))
def test_a_caller_that_waits_for_retry_after_is_admitted(
    limit: RateLimit, cost: int, level: float, now: float
) -> None:
    state = RateState(level=level, at_s=now)
    reckoning = apply_limit(limit, state, now, cost)

    if not reckoning.admitted and reckoning.retry_after is not None:
        assert apply_limit(limit, state, now + reckoning.retry_after, cost).admitted


@given(LIMITS, st.integers(1, 2000))
def test_a_refused_use_costs_nothing(limit: RateLimit, cost: int) -> None:
    full = RateState(level=limit.max_burst, at_s=5)
    reckoning = apply_limit(limit, full, 5, cost)

    assert not reckoning.admitted
    assert reckoning.state is full


def test_a_burst_is_admitted_whole_and_then_one_an_interval() -> None:
    limit = RateLimit(count=10, per_s=60, burst=3)
    state = RateState()
    waits = []
    for _ in range(4):
        reckoning = apply_limit(limit, state, 100, 1)
        state = reckoning.state
        waits.append(reckoning.retry_after)

    assert waits == [0, 0, 0, 6.001]
    assert not apply_limit(limit, state, 105.99, 1).admitted
    assert apply_limit(limit, state, 106, 1).admitted


def test_no_wait_helps_what_is_larger_than_the_burst() -> None:
    reckoning = apply_limit(RateLimit(count=5, per_s=1), RateState(), 0, 6)

    assert not reckoning.admitted
    assert reckoning.retry_after is None


def test_a_clock_that_went_back_gives_nothing_away() -> None:
    limit = RateLimit(count=1, per_s=10)
    state = apply_limit(limit, RateState(), 100, 1).state
    reckoning = apply_limit(limit, state, 40, 1)

    assert not reckoning.admitted
    assert reckoning.retry_after == pytest.approx(70, abs=0.01)
    assert apply_limit(limit, state, 110, 1).admitted


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"count": 0, "per_s": 1}, InputError),
        ({"count": 1.5, "per_s": 1}, InputTypeError),
        ({"count": True, "per_s": 1}, InputTypeError),
        ({"count": 1, "per_s": 0}, InputError),
        ({"count": 1, "per_s": math.nan}, InputError),
        ({"count": 1, "per_s": "1"}, InputTypeError),
        ({"count": 1, "per_s": 1, "burst": 0}, InputError),
        ({"count": 1, "per_s": 1, "unit": 3}, InputTypeError),
    ],
)
def test_an_invalid_limit_is_refused(settings: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        RateLimit(**settings)  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, "1", True])
def test_an_invalid_state_is_refused(bad: object) -> None:
    with pytest.raises((InputError, InputTypeError)):
        RateState(level=bad)  # type: ignore[arg-type] # that is the point


def test_a_limit_has_a_name_of_its_own() -> None:
    assert RateLimit(count=60, per_s=60).name == "requests:60/60/60"
    assert RateLimit(count=90, per_s=0.5, burst=7, unit="tokens").name == "tokens:90/0.5/7"


LIMIT = RateLimit(count=10, per_s=60)
FULL = RateState(level=10, at_s=50)


def use(**more: object) -> RateUse:
    return RateUse(key="user:1", limit=LIMIT, **more)  # type: ignore[arg-type] # as given


def found(event: RateUse, config: RateConfig | None = None) -> list[Finding]:
    return list(rate.check(event, config or RateConfig()))


def test_a_use_within_the_limit_passes() -> None:
    assert found(use(now_s=50)) == []
    assert found(use(now_s=50, cost=10)) == []
    assert found(use(now_s=110, state=FULL)) == []


def test_too_much_says_how_long_to_wait() -> None:
    [finding] = found(use(now_s=50, state=FULL))

    assert finding.code == "RATE_LIMIT"
    assert finding.surface == "rate"
    assert finding.action is Action.BLOCK
    assert finding.detail == "more than 10 requests in 60 s"
    assert finding.evidence == {
        "retry_after": 6.001,
        "limit": 10,
        "window": 60,
        "unit": "requests",
    }


def test_a_cost_that_no_wait_would_admit_exceeds_the_budget() -> None:
    [finding] = found(use(cost=11))

    assert finding.code == "BUDGET_EXCEEDED"
    assert finding.evidence == {"resource": "requests", "used": 11, "budget": 10}


def test_a_finding_does_not_show_the_key() -> None:
    for event in (use(now_s=50, state=FULL), use(cost=11)):
        assert "user:1" not in repr(found(event))


def test_the_config_sets_the_action_of_a_finding() -> None:
    [finding] = found(use(now_s=50, state=FULL), RateConfig(action=Action.WARN))

    assert finding.action is Action.WARN


def test_a_unit_that_cannot_be_printed_is_not() -> None:
    limit = RateLimit(count=1, per_s=1, unit="a\nb")
    [finding] = found(RateUse(key="k", limit=limit, cost=2))

    assert finding.evidence["resource"] == "units"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cost": -1}, InputError),
        ({"cost": 2**40}, InputError),
        ({"cost": 1.0}, InputTypeError),
        ({"cost": True}, InputTypeError),
        ({"now_s": math.inf}, InputError),
    ],
)
def test_an_invalid_use_is_refused(fields: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        use(**fields)


def test_an_event_of_another_kind_is_refused() -> None:
    with pytest.raises(InputTypeError, match="RateUse"):
        found("user:1")  # type: ignore[arg-type] # that is the point
    with pytest.raises(InputTypeError, match="key"):
        RateUse(key=1, limit=LIMIT)  # type: ignore[arg-type] # that is the point


def test_it_keeps_the_contract_of_guards() -> None:
    assert_guard_contract(
        rate, [use(), use(cost=11), use(state=FULL, now_s=50), use(now_s=-5, state=FULL), "key"]
    )
