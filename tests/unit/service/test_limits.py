import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.service.limits import (
    LoginLimiter,
    RateBuckets,
    SharedRateBuckets,
    WorkBudgets,
    WorkerPool,
)
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


def is_refused(budgets: WorkBudgets, key: str = "key") -> int:
    """Return the seconds that a key has to wait, 0 if it is admitted."""
    try:
        budgets.require_left(key)
    except ProblemError as error:
        known = error.status == 429 and error.where in {"budget_bytes", "budget_cpu_s"}
        return int(error.headers["retry-after"]) if known else -1
    return 0


@given(
    st.lists(
        st.tuples(st.floats(0, 20), st.integers(0, 5000), st.floats(0, 20)), min_size=1, max_size=30
    )
)
def test_a_spent_budget_refuses_until_it_is_regained(
    work: list[tuple[float, int, float]],
) -> None:
    """INVARIANT: a key over its budget gets no answer but 429 until it has regained enough."""
    clock = Clock()
    budgets = WorkBudgets(10, max_bytes=1000, max_cpu_s=5, monotonic=clock)
    size, cpu_s = 0.0, 0.0
    for pause, sent, took in work:
        clock.now += pause
        size, cpu_s = max(0.0, size - pause * 100), max(0.0, cpu_s - pause * 0.5)
        assert (
            bool(is_refused(budgets)) == (size > 1000 + 1e-6 or cpu_s > 5 + 1e-6)
            or min(abs(size - 1000), abs(cpu_s - 5)) < 1e-6
        )
        budgets.charge("key", size=sent, cpu_s=took)
        size, cpu_s = size + sent, cpu_s + took
    for _ in range(2):
        clock.now += is_refused(budgets)
    assert not is_refused(budgets)


def test_budgets_are_kept_apart_and_only_those_in_use_are_kept() -> None:
    clock = Clock()
    budgets = WorkBudgets(10, max_bytes=1000, max_cpu_s=5, monotonic=clock)
    budgets.charge("loud", cpu_s=20)

    assert is_refused(budgets, "loud") == 30
    assert not is_refused(budgets, "quiet")
    assert budgets.is_busy("loud")
    assert not budgets.is_busy("quiet")
    clock.now += 60
    for number in range(20_000):
        budgets.charge(f"k{number}", size=1)
        clock.now += 1
    assert len(budgets._spent) <= 10_001


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


def test_keys_take_turns() -> None:
    pool = WorkerPool("test", threads=1, max_jobs=20)
    order: list[str] = []
    go_on = threading.Event()

    async def fill() -> None:
        jobs: list[asyncio.Task[Any]] = [asyncio.create_task(pool.run_for("loud", go_on.wait, 60))]
        jobs += [asyncio.create_task(pool.run_for("loud", order.append, "loud")) for _ in range(3)]
        jobs += [asyncio.create_task(pool.run_for("quiet", order.append, "quiet"))]
        await asyncio.sleep(0.01)
        go_on.set()
        await asyncio.gather(*jobs)

    asyncio.run(fill())
    pool.close()

    assert order == ["loud", "quiet", "loud", "loud"]


def test_one_key_never_has_all_threads_nor_most_of_the_jobs() -> None:
    pool = WorkerPool("test", threads=2, max_jobs=8)
    go_on = threading.Event()

    async def fill() -> None:
        held = [asyncio.create_task(pool.run_for("loud", go_on.wait, 60)) for _ in range(4)]
        await asyncio.sleep(0.01)
        with pytest.raises(ProblemError, match="overloaded"):
            await pool.run_for("loud", lambda: True)
        assert await pool.run_for("quiet", lambda: True)
        go_on.set()
        await asyncio.gather(*held)

    asyncio.run(fill())
    pool.close()
    assert (pool._jobs, pool._counts, pool._busy) == (0, {}, {})


@given(
    steps=st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["a", "b", "c"])), max_size=60),
    rate=st.integers(1, 5),
    burst=st.integers(1, 6),
)
def test_shared_rates_admit_what_those_of_one_process_do(
    steps: list[tuple[float, str]], rate: int, burst: int
) -> None:
    now = [100.0]
    own = RateBuckets(rate, burst, monotonic=lambda: now[0])
    with TemporaryDirectory() as folder:
        # Two workers take turns.
        workers = [
            SharedRateBuckets(Path(folder) / "rates", rate, burst, monotonic=lambda: now[0])
            for _ in range(2)
        ]
        for number, (pause, key) in enumerate(steps):
            now[0] += pause
            assert workers[number % 2].wait_for(key) == own.wait_for(key)
        for worker in workers:
            worker.close()


def test_a_key_without_a_free_slot_waits_until_another_is_idle(tmp_path: Path) -> None:
    now = [100.0]
    shared = SharedRateBuckets(tmp_path / "rates", 1, 5, slots=4, monotonic=lambda: now[0])
    waits = [shared.wait_for(f"key {number}") for number in range(5)]

    assert waits == [0, 0, 0, 0, 1]
    now[0] += 1.5
    assert shared.wait_for("key 4") == 0
    # The slot of a key that is in use is not given away.
    assert shared.wait_for("key 4") == 0
    shared.close()


COUNTING = """
import sys
from pathlib import Path
from demur.service.limits import SharedRateBuckets
shared = SharedRateBuckets(Path(sys.argv[1]), 1, 50, monotonic=lambda: 100.0)
print(sum(shared.wait_for("key") == 0 for _ in range(200)))
"""


def test_processes_admit_no_more_than_one_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNTING, str(tmp_path / "rates")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    admitted = [int(process.communicate()[0]) for process in started]

    assert sum(admitted) == 50
