import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.service.limits import LoginLimiter, RateBuckets, WorkerPool
from demur.service.problem import ProblemError


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_burst_passes_and_the_next_one_waits() -> None:
    clock = Clock()
    buckets = RateBuckets(10, 3, monotonic=clock)

    assert [buckets.wait_for("a") for _ in range(3)] == [0.0] * 3
    assert buckets.wait_for("a") == pytest.approx(0.1)
    assert buckets.wait_for("b") == 0.0
    clock.now += 0.11
    assert buckets.wait_for("a") == 0.0


def test_there_are_no_more_buckets_than_allowed() -> None:
    clock = Clock()
    buckets = RateBuckets(10, 3, max_keys=2, monotonic=clock)

    assert [buckets.wait_for(key) for key in "abca"] == [0.0, 0.0, 0.1, 0.0]
    clock.now += 0.11
    # One who owes nothing makes room, one who does not.
    assert [buckets.wait_for(key) for key in "cd"] == [0.0, 0.1]


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=80),
)
def test_no_key_gets_more_than_its_share(rate: int, burst: int, pauses: list[float]) -> None:
    """INVARIANT: a key never calls more often than its burst and its rate allow."""
    clock = Clock()
    buckets = RateBuckets(rate, burst, monotonic=clock)
    admitted: list[float] = []
    for pause in pauses:
        clock.now += pause
        if not buckets.wait_for("key"):
            admitted.append(clock.now)
    for first, begin in enumerate(admitted):
        for count, end in enumerate(admitted[first:], 1):
            assert count <= burst + (end - begin) * rate + 1e-6


def tried(logins: LoginLimiter, address: str, times: int) -> int:
    """Return how often somebody was let try."""
    count = 0
    for _ in range(times):
        try:
            logins.count_attempt(address)
            count += 1
        except ProblemError as error:
            count += error.status != 429
    return count


def test_an_address_has_its_share_and_gets_more_in_time() -> None:
    clock = Clock()
    logins = LoginLimiter(monotonic=clock)

    assert tried(logins, "10.0.0.1", 30) == 20
    assert tried(logins, "10.0.0.2", 5) == 5
    with pytest.raises(ProblemError) as caught:
        logins.count_attempt("10.0.0.1")
    assert caught.value.headers == {"retry-after": "1"}
    clock.now += 3
    assert tried(logins, "10.0.0.1", 30) == 3


def test_all_addresses_together_have_a_share() -> None:
    logins = LoginLimiter(monotonic=Clock())

    assert sum(tried(logins, f"10.0.0.{number}", 5) for number in range(100)) == 100


@pytest.mark.parametrize(
    "addresses",
    [[f"2001:db8::{number:x}" for number in range(30)], ["", "somewhere", "localhost"] * 10],
)
def test_addresses_that_one_can_choose_from_are_one(addresses: list[str]) -> None:
    logins = LoginLimiter(monotonic=Clock())

    assert sum(tried(logins, address, 1) for address in addresses) == 20


def test_jobs_beyond_the_limit_are_rejected_until_a_thread_is_free() -> None:
    pool = WorkerPool("test", threads=1, max_jobs=2)
    go_on = threading.Event()

    async def fill() -> None:
        jobs = [asyncio.create_task(pool.run(go_on.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert pool.is_full
        with pytest.raises(ProblemError) as caught:
            await pool.run(lambda: True)
        assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})
        # One that runs stays, one that only waits goes.
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        assert pool._jobs == 1
        go_on.set()
        assert await pool.run(lambda: True)

    asyncio.run(fill())
    assert pool._jobs == 0
    pool.close()


def test_a_job_error_reaches_its_caller_and_frees_the_slot() -> None:
    pool = WorkerPool("test", threads=1, max_jobs=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(pool.run(lambda: 1 // 0))
    pool.close()


def test_nothing_begins_after_the_end() -> None:
    pool = WorkerPool("test", threads=1, max_jobs=1)
    pool.close()
    with pytest.raises(ProblemError, match="shutting down"):
        asyncio.run(pool.run(lambda: True))

    assert not pool.is_full
