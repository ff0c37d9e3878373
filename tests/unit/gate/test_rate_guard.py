import sys

import pytest
from redis_server import RedisServer

from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.limiter import LocalLimiter
from demur.gate.rate_guard import RateRequest, RateGuard, open_limiter
from demur.gate.redis_limiter import RedisLimiter
from demur.guards.rate.guard import RateConfig
from demur.guards.rate.limits import RateLimit
from demur.model.finding import Action

TWO = RateLimit(count=2, per_s=3600)
TOKENS = RateLimit(count=100, per_s=3600, unit="tokens")


def test_asking_is_using() -> None:
    guard = RateGuard(TWO)
    found = [list(guard.check("user:1")) for _ in range(3)]

    assert [len(each) for each in found] == [0, 0, 1]
    assert found[2][0].evidence["counted"] == "process"
    assert found[2][0].evidence["retry_after"] > 0
    assert list(guard.check(RateRequest(key="user:2"))) == []


def test_each_limit_that_is_passed_is_told() -> None:
    guard = RateGuard(TWO, TOKENS)
    found = list(guard.check(RateRequest(key="user:1", cost=200)))

    assert [one.code for one in found] == ["BUDGET_EXCEEDED", "BUDGET_EXCEEDED"]
    assert [one.evidence["resource"] for one in found] == ["requests", "tokens"]


def test_the_config_says_what_is_asked_for() -> None:
    guard = RateGuard(TWO)
    [found] = guard.check(RateRequest(key="a", cost=3), RateConfig(action=Action.WARN))

    assert found.action is Action.WARN


def test_a_full_limiter_refuses_a_new_key() -> None:
    guard = RateGuard(TWO, limiter=LocalLimiter(max_keys=1, clock=lambda: 5.0))
    assert list(guard.check("user:1")) == []
    [found] = guard.check("user:2")

    assert (found.code, found.action) == ("RATE_LIMIT", "block")
    assert found.evidence == {"limiter_full": True, "retry_after": 1800, "counted": "process"}
    assert list(guard.check("user:1")) == []


def test_it_is_as_blocking_and_degraded_as_its_limiter() -> None:
    limiter = RedisLimiter.from_url("redis://localhost:1")

    assert RateGuard(TWO, limiter=limiter).blocking
    assert not RateGuard(TWO).blocking
    assert not RateGuard(TWO, limiter=limiter).degraded
    limiter.degraded = True
    assert RateGuard(TWO, limiter=limiter).degraded
    assert not RateGuard(TWO).degraded


def test_what_is_no_rate_guard_is_refused() -> None:
    with pytest.raises(InputError, match="needs a limit"):
        RateGuard()
    with pytest.raises(InputTypeError, match="RateAsk"):
        list(RateGuard(TWO).check(3))  # type: ignore[arg-type] # that is the point


def test_a_limiter_is_opened_by_its_address(redis_server: RedisServer) -> None:
    assert isinstance(open_limiter(), LocalLimiter)
    shared = open_limiter(redis_server.url, on_failure="local")
    assert isinstance(shared, RedisLimiter)
    [use] = shared.take_units("a", [TWO]).uses
    shared.close()

    assert use.state.level == 0


def test_without_the_client_redis_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demur.gate.redis_limiter", None)

    with pytest.raises(MissingExtraError) as caught:
        open_limiter("redis://localhost")
    assert caught.value.help == "pip install 'demur[redis]'"
