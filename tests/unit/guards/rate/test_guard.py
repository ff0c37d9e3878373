import math

import pytest

from demur.errors import InputError, InputTypeError
from demur.guards.rate import guard as rate
from demur.guards.rate.guard import RateConfig, RateUse
from demur.guards.rate.limits import RateLimit, RateState
from demur.model.finding import Action, Finding
from demur.testing import assert_guard_contract

LIMIT = RateLimit(count=10, per_s=60)
FULL = RateState(level=10, at_s=50)


def use(**more: object) -> RateUse:
    return RateUse(key="user:1", limit=LIMIT, **more)  # type: ignore[arg-type] # as given


def found(event: RateUse, config: RateConfig | None = None) -> list[Finding]:
    return list(rate.check(event, config or RateConfig()))


def test_what_is_within_the_limit_passes() -> None:
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


def test_what_no_wait_would_admit_is_no_matter_of_rate() -> None:
    [finding] = found(use(cost=11))

    assert finding.code == "BUDGET_EXCEEDED"
    assert finding.evidence == {"resource": "requests", "used": 11, "budget": 10}


def test_the_key_is_not_told() -> None:
    for event in (use(now_s=50, state=FULL), use(cost=11)):
        assert "user:1" not in repr(found(event))


def test_the_config_says_what_is_asked_for() -> None:
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
def test_what_is_no_use_is_refused(fields: dict[str, object], error: type[Exception]) -> None:
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
