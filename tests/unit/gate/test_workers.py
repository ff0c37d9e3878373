import asyncio
import contextvars
import os
import threading
import time

import pytest

from demur.gate.workers import WorkerThreads


def test_what_was_called_comes_back() -> None:
    workers = WorkerThreads()

    assert [workers.run(lambda n=n: n * n, 5) for n in range(5)] == [0, 1, 4, 9, 16]  # type: ignore[misc] # a default binds it


def test_what_was_raised_comes_back() -> None:
    with pytest.raises(ZeroDivisionError):
        WorkerThreads().run(lambda: 1 / 0, 5)


def test_nobody_waits_longer_than_told() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        WorkerThreads().run(lambda: time.sleep(6), 0.05)

    assert time.monotonic() - began < 5


def test_threads_are_used_again() -> None:
    workers = WorkerThreads()
    names = {workers.run(threading.get_ident, 5) for _ in range(20)}

    assert len(names) <= 2


def test_there_are_never_more_threads_than_allowed() -> None:
    workers = WorkerThreads(max_threads=2)
    free = threading.Event()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            workers.run(free.wait, 0.02)
    hung = [thread for thread in threading.enumerate() if thread.name == "demur-guard"]
    mine = len([thread for thread in hung if thread.is_alive()])
    free.set()

    assert workers._threads == 2
    assert mine >= 2
    assert workers.run(lambda: "again", 5) == "again"


def test_what_was_given_up_before_it_began_is_not_done() -> None:
    workers = WorkerThreads(max_threads=1)
    free, done = threading.Event(), []
    with pytest.raises(TimeoutError):
        workers.run(free.wait, 0.02)
    with pytest.raises(TimeoutError):
        workers.run(lambda: done.append(1), 0.02)
    free.set()
    workers.run(lambda: None, 5)

    assert done == []


def test_it_knows_the_context_of_who_asked() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("mary")

    assert WorkerThreads().run(who.get, 5) == "mary"


def test_it_can_be_awaited() -> None:
    async def main() -> list[object]:
        workers = WorkerThreads(max_threads=2)
        answers = await asyncio.gather(*(workers.arun(lambda: 7, 5) for _ in range(20)))
        with pytest.raises(ZeroDivisionError):
            await workers.arun(lambda: 1 / 0, 5)
        with pytest.raises(TimeoutError):
            await workers.arun(lambda: time.sleep(0.2), 0.02)
        return list(answers)

    assert asyncio.run(main()) == [7] * 20
    # The last call outlives its loop.
    time.sleep(0.3)


def test_what_another_process_counted_does_not_count() -> None:
    workers = WorkerThreads(max_threads=1)
    workers._threads, workers._process = 1, -1

    assert workers.run(lambda: 1, 5) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this machine")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_it_survives_a_fork() -> None:
    workers = WorkerThreads(max_threads=1)
    assert workers.run(lambda: 1, 5) == 1
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            os.write(writing, str(workers.run(lambda: 2, 5)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 10)
    os.close(reading)
    os.waitpid(child, 0)

    assert told == b"2"
