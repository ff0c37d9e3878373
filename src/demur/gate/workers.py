"""A few threads for work that may hang: it is waited for so long and no longer.

A thread cannot be ended from outside. What hangs keeps its thread, there are never more than
a few, and they do not keep the process from ending.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

__all__ = ["Workers"]

_T = TypeVar("_T")
# A thread that had nothing to do for so long ends.
_IDLE_S = 30.0


class _Job(Generic[_T]):
    """One call: waiting, given up, or done."""

    def __init__(self, call: Callable[[], _T], tell: Callable[[], None]) -> None:
        self._call = call
        self._tell = tell
        self._context = contextvars.copy_context()
        self._result: _T | None = None
        self._error: BaseException | None = None
        self.given_up = False

    def give_up(self) -> None:
        """Leave it: what has not begun never will, and what it would have needed is let go."""
        self.given_up = True
        self._call = _nothing

    def run(self) -> None:
        call = self._call
        if self.given_up:
            return
        try:
            self._result = self._context.run(call)
        except BaseException as error:  # noqa: BLE001 - it belongs to who asked, not to this thread
            self._error = error
        self._tell()

    def result(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value] # it ran, so it is there


class Workers:
    """At most `most` threads, started when they are needed. Safe to carry over a fork."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job[object]] = SimpleQueue()
        self._threads = 0
        self._idle = 0

    def run(self, call: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `call` returns, or raise what it raises.

        Raises:
            TimeoutError: It took longer, or all threads were taken for so long.
        """
        done = threading.Event()
        job = _Job(call, done.set)
        self._put(job)
        if not done.wait(timeout_s):
            job.give_up()
            raise TimeoutError
        return job.result()

    async def arun(self, call: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `call` returns, like `run`; the event loop runs on meanwhile."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def tell() -> None:
            # A call that outlives its loop finds nobody to tell.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        job = _Job(call, tell)
        self._put(job)
        try:
            await asyncio.wait_for(done.wait(), timeout_s)
        finally:
            job.give_up()
        return job.result()

    def _put(self, job: "_Job[_T]") -> None:
        if self._process != os.getpid():
            # Threads do not survive a fork; the count of them does, and so may a taken lock.
            self._begin()
        with self._lock:
            if not self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name="demur-guard", daemon=True).start()
            else:
                self._idle = max(0, self._idle - 1)
            self._jobs.put(job)  # type: ignore[arg-type] # whatever it returns goes to who asked

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    if self._jobs.empty():
                        self._threads -= 1
                        self._idle = max(0, self._idle - 1)
                        return
                continue
            job.run()
            del job  # what it held is not kept while this thread waits for the next
            with self._lock:
                self._idle += 1


def _nothing() -> Any:
    """Stand in for the call of a job that was given up."""
