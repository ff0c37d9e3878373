import asyncio
import time

from demur.evals.targets.pace import RequestPace


async def turns(pace: RequestPace, count: int) -> float:
    began = time.monotonic()
    await asyncio.gather(*(pace.wait_turn() for _ in range(count)))
    return time.monotonic() - began


def test_requests_are_spread_over_time() -> None:
    assert asyncio.run(turns(RequestPace(100), 11)) >= 0.099


def test_without_a_limit_nobody_waits() -> None:
    pace = RequestPace(None)

    assert asyncio.run(turns(pace, 1000)) < 1
    assert pace._next == 0
