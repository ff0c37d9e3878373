import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from demur.service.key_book import KeyCache


class Shelf:
    """What is stored, and how often somebody looked."""

    def __init__(self, **page: int) -> None:
        self.page = page
        self.reads = 0
        self.broken = False

    def __call__(self) -> dict[str, int]:
        """Return what is stored."""
        self.reads += 1
        if self.broken:
            raise RuntimeError("gone")
        return dict(self.page)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.now += seconds


def book(shelf: Callable[[], dict[str, int]], clock: Clock, memory_s: float = 2.0) -> KeyCache[int]:
    return KeyCache(shelf, memory_s=memory_s, pause_s=0.5, monotonic=clock, sleep=clock.sleep)


def test_nothing_is_known_before_the_first_look() -> None:
    shelf = Shelf(a=1)
    keys = book(shelf, Clock())

    assert keys.get_cached("a") is None
    assert asyncio.run(keys.look_up("a")) == 1
    assert keys.get_cached("a") == 1
    assert shelf.reads == 1


def test_what_is_known_is_forgotten_in_time() -> None:
    clock = Clock()
    keys = book(Shelf(a=1), clock)
    asyncio.run(keys.look_up("a"))
    clock.now += 1.9
    assert keys.get_cached("a") == 1

    clock.now += 0.2
    assert keys.get_cached("a") is None


def test_a_flood_of_unknown_keys_reads_the_book_at_a_bounded_rate() -> None:
    clock, shelf = Clock(), Shelf()
    keys = book(shelf, clock)
    for number in range(20):
        assert asyncio.run(keys.look_up(f"made-up-{number}")) is None
        clock.now += 0.1

    assert shelf.reads == 20
    assert clock.slept == pytest.approx([0.4] * 19)


def test_a_store_that_fails_is_not_asked_more_often() -> None:
    clock, shelf = Clock(), Shelf(a=1)
    shelf.broken = True
    keys = book(shelf, clock)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            asyncio.run(keys.look_up("a"))
    shelf.broken = False

    assert asyncio.run(keys.look_up("a")) == 1
    assert clock.slept == [0.5, 0.5, 0.5]


def test_a_reading_that_began_after_the_question_answers_it() -> None:
    clock, shelf = Clock(), Shelf(a=1)
    keys = book(shelf, clock)
    keys._read_keys(clock.now)
    keys._read_keys(clock.now)

    assert shelf.reads == 1


def test_all_who_ask_at_once_wait_for_one_reading() -> None:
    shelf = Shelf(a=1)
    began, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, int]:
        began.set()
        assert go_on.wait(10)
        return shelf()

    keys = KeyCache(slow, memory_s=2.0, pause_s=0.0)

    async def ask() -> list[int | None]:
        asking = [asyncio.create_task(keys.look_up("a")) for _ in range(50)]
        await asyncio.sleep(0)
        assert await asyncio.to_thread(began.wait, 10)
        go_on.set()
        return await asyncio.gather(*asking)

    assert asyncio.run(ask()) == [1] * 50
    assert shelf.reads <= 2


def test_a_key_made_while_the_book_was_being_read_is_found() -> None:
    shelf = Shelf()
    began, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, int]:
        page = shelf()
        began.set()
        assert go_on.wait(10)
        return page

    keys = KeyCache(slow, memory_s=2.0, pause_s=0.0)

    async def ask() -> int | None:
        first = asyncio.create_task(keys.look_up("other"))
        assert await asyncio.to_thread(began.wait, 10)
        shelf.page["new"] = 7
        second = asyncio.create_task(keys.look_up("new"))
        await asyncio.sleep(0)
        go_on.set()
        assert await first is None
        return await second

    assert asyncio.run(ask()) == 7


def test_one_who_gives_up_does_not_stop_the_others() -> None:
    def slow() -> dict[str, int]:
        time.sleep(0.05)
        return {"a": 1}

    keys = KeyCache(slow, memory_s=2.0)

    async def ask() -> int | None:
        hasty = asyncio.create_task(keys.look_up("a"))
        patient = asyncio.create_task(keys.look_up("a"))
        await asyncio.sleep(0)
        hasty.cancel()
        return await patient

    assert asyncio.run(ask()) == 1


def test_an_error_reaches_whoever_waits() -> None:
    shelf = Shelf()
    shelf.broken = True
    keys = KeyCache(shelf, memory_s=2.0)

    with pytest.raises(RuntimeError, match="gone"):
        asyncio.run(keys.look_up("a"))


def test_a_loop_that_ends_meanwhile_leaves_nothing_behind() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)

    async def leave() -> None:
        reading = asyncio.create_task(keys.look_up("a"))
        await asyncio.sleep(0)
        assert keys._reading is not None
        keys._reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(leave())

    assert asyncio.run(keys.look_up("a")) == 1


def test_a_book_is_empty_only_as_long_as_it_is_good() -> None:
    clock, shelf = Clock(), Shelf()
    keys = book(shelf, clock)
    assert not keys.is_cached_empty()
    assert asyncio.run(keys.is_empty())
    assert keys.is_cached_empty()

    clock.now += 2.0
    assert not keys.is_cached_empty()
    shelf.page["a"] = 1
    assert not asyncio.run(keys.is_empty())
    assert not keys.is_cached_empty()


def test_a_book_is_read_while_everything_else_waits() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)
    go_on = threading.Event()

    async def ask() -> int | None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        others = [asyncio.create_task(asyncio.to_thread(go_on.wait, 10)) for _ in range(3)]
        try:
            async with asyncio.timeout(5):
                return await keys.look_up("a")
        finally:
            go_on.set()
            await asyncio.gather(*others)

    assert asyncio.run(ask()) == 1
    keys.close()


class Ended(asyncio.Future[None]):
    """A reading that has ended, and was not cleared away yet."""

    looks = 0

    def done(self) -> bool:
        """Return that it has ended, but not for ever."""
        self.looks += 1
        assert self.looks < 100
        return True


def test_a_reading_that_has_just_ended_is_not_waited_for() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)

    async def ask() -> int | None:
        keys._reading = ended = Ended()
        ended.add_done_callback(keys._finish_reading)
        ended.set_result(None)
        return await keys.look_up("a")

    assert asyncio.run(ask()) == 1
    keys.close()
