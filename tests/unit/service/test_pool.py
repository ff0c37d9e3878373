import asyncio
import threading

import pytest

from demur.service.pool import WorkerPool
from demur.service.problem import ProblemError


def test_what_does_not_fit_is_turned_away_until_a_thread_is_done() -> None:
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


def test_an_error_reaches_whoever_waits_and_leaves_room() -> None:
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
