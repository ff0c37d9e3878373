import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.redis_server import RedisServer

from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.rate import LocalLimiter, RateGuard, RateRequest, RedisLimiter, open_limiter
from demur.guards import rate
from demur.guards.rate import RateConfig, RateLimit
from demur.model.finding import Action

TEN = RateLimit(count=10, per_s=60)


class Moving:
    """A clock of seconds that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def admitted(limiter: LocalLimiter, key: str, *limits: RateLimit, cost: int = 1) -> bool:
    taken = limiter.take_units(key, limits, cost)
    return not any(list(rate.check(use, RateConfig())) for use in taken.uses)


def test_it_admits_the_limit_and_no_more() -> None:
    limiter = LocalLimiter(clock=Moving())

    assert sum(admitted(limiter, "a", TEN) for _ in range(30)) == 10
    assert sum(admitted(limiter, "b", TEN) for _ in range(30)) == 10


def test_used_units_come_back_with_time() -> None:
    clock = Moving()
    limiter = LocalLimiter(clock=clock)
    assert sum(admitted(limiter, "a", TEN) for _ in range(30)) == 10
    clock.now += 12

    assert sum(admitted(limiter, "a", TEN) for _ in range(30)) == 2


def test_of_several_limits_all_count_a_use_or_none() -> None:
    limiter = LocalLimiter(clock=Moving())
    tokens = RateLimit(count=100, per_s=60, unit="tokens")

    assert sum(admitted(limiter, "a", TEN, tokens, cost=4) for _ in range(9)) == 2
    # What was refused by one limit was not counted by the other.
    assert admitted(limiter, "a", tokens, cost=92)
    assert admitted(limiter, "a", TEN, cost=2)
    assert not admitted(limiter, "a", TEN)


def test_closed_it_has_forgotten() -> None:
    limiter = LocalLimiter(clock=Moving())
    limiter.take_units("a", [TEN])
    limiter.close()

    assert len(limiter) == 0


def test_it_says_where_it_counts() -> None:
    assert LocalLimiter().take_units("a", [TEN]).counted == "process"


def test_many_threads_get_no_more_than_one_would() -> None:
    limiter = LocalLimiter(clock=Moving())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    counts = [0] * 8
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        counts[number] = sum(admitted(limiter, "a", TEN) for _ in range(200))

    try:
        _in_threads(work)
    finally:
        sys.setswitchinterval(before)

    assert sum(counts) == 10


def _in_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_many_invented_keys_do_not_flush_a_limit() -> None:
    limiter = LocalLimiter(max_keys=50, clock=Moving())
    assert sum(admitted(limiter, "caller", TEN) for _ in range(10)) == 10
    for number in range(500):
        limiter.take_units(f"key {number}", [TEN])

    assert len(limiter) == 50
    assert not admitted(limiter, "caller", TEN)


def test_without_an_idle_key_a_new_one_is_not_counted() -> None:
    clock = Moving()
    limiter = LocalLimiter(max_keys=2, clock=clock)
    limiter.take_units("a", [TEN])
    limiter.take_units("b", [TEN], cost=10)
    refused = limiter.take_units("c", [TEN])

    assert refused.full == 6.0
    assert len(limiter) == 2
    assert limiter.take_units("b", [RateLimit(count=5, per_s=1)]).full is None
    clock.now += 6
    assert limiter.take_units("c", [TEN]).full is None
    assert limiter.take_units("a", [TEN]).full == 6.0


def test_a_key_that_is_in_use_outlives_its_first_use() -> None:
    clock = Moving()
    limiter = LocalLimiter(max_keys=2, clock=clock)
    limiter.take_units("a", [TEN])
    clock.now += 5
    limiter.take_units("a", [TEN])
    limiter.take_units("b", [TEN], cost=10)
    clock.now += 2

    assert limiter.take_units("c", [TEN]).full == 5.0
    assert limiter.take_units("a", []).uses == ()
    clock.now += 5
    assert admitted(limiter, "c", TEN)
    assert len(limiter) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(1, 10), st.floats(0, 30)), max_size=40
    )
)
def test_no_key_begins_anew_before_it_ran_empty(uses: list[tuple[str, int, float]]) -> None:
    """INVARIANT: a key that still has counts is never dropped, however many keys there are."""
    clock = Moving()
    small, large = LocalLimiter(max_keys=3, clock=clock), LocalLimiter(clock=clock)
    for key, cost, pause in uses:
        clock.now += pause
        here = small.take_units(key, [TEN], cost)
        if here.full is None:
            there = large.take_units(key, [TEN], cost)
            assert here.uses[0].state.level == there.uses[0].state.level or (
                here.uses[0].state.level == 0
                and there.uses[0].state.level <= (clock.now - there.uses[0].state.at_s) / 6 + 1e-9
            )
        assert len(small) <= 3


def test_keys_that_ran_empty_go_first() -> None:
    clock = Moving()
    limiter = LocalLimiter(clock=clock)
    for number in range(100):
        admitted(limiter, f"old {number}", TEN)
    clock.now += 3600
    for number in range(100):
        admitted(limiter, f"new {number}", TEN)

    assert len(limiter) == 100


def test_an_invalid_use_is_not_counted() -> None:
    limiter = LocalLimiter()

    with pytest.raises(InputError, match="costs from 0"):
        limiter.take_units("a", [TEN], cost=-5)
    with pytest.raises(InputTypeError):
        limiter.take_units(None, [TEN])  # type: ignore[arg-type] # that is the point
    with pytest.raises(InputError, match="at least one key") as caught:
        LocalLimiter(max_keys=0)
    assert caught.value.where == "max_keys"
    assert len(limiter) == 0


TWO = RateLimit(count=2, per_s=3600)
TOKENS = RateLimit(count=100, per_s=3600, unit="tokens")


def test_asking_is_using() -> None:
    guard = RateGuard(TWO)
    found = [list(guard.check("user:1")) for _ in range(3)]

    assert [len(each) for each in found] == [0, 0, 1]
    assert found[2][0].evidence["counted"] == "process"
    assert found[2][0].evidence["retry_after"] > 0
    assert list(guard.check(RateRequest(key="user:2"))) == []


def test_each_exceeded_limit_is_a_finding() -> None:
    guard = RateGuard(TWO, TOKENS)
    found = list(guard.check(RateRequest(key="user:1", cost=200)))

    assert [one.code for one in found] == ["BUDGET_EXCEEDED", "BUDGET_EXCEEDED"]
    assert [one.evidence["resource"] for one in found] == ["requests", "tokens"]


def test_the_config_sets_the_action_of_a_finding() -> None:
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
    assert not RateGuard(TWO, limiter=limiter).is_degraded
    limiter.is_degraded = True
    assert RateGuard(TWO, limiter=limiter).is_degraded
    assert not RateGuard(TWO).is_degraded


def test_an_invalid_rate_guard_or_request_is_refused() -> None:
    with pytest.raises(InputError, match="needs a limit"):
        RateGuard()
    with pytest.raises(InputTypeError, match="RateRequest"):
        list(RateGuard(TWO).check(3))  # type: ignore[arg-type] # that is the point


def test_a_limiter_is_opened_by_its_address(redis_server: RedisServer) -> None:
    assert isinstance(open_limiter(), LocalLimiter)
    shared = open_limiter(redis_server.url, on_failure="local")
    assert isinstance(shared, RedisLimiter)
    [use] = shared.take_units("a", [TWO]).uses
    shared.close()

    assert use.state.level == 0


def test_without_the_client_redis_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(MissingExtraError) as caught:
        open_limiter("redis://localhost")
    assert caught.value.help == "pip install 'demur[redis]'"
