"""A few threads for calls that may hang, each with a timeout.

A thread cannot be killed from outside. A call that hangs keeps its thread; the number of threads
is bounded, and they do not keep the process from exiting.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

__all__ = ["WorkerThreads"]

_T = TypeVar("_T")
# A thread that is idle for this long ends.
_IDLE_S = 30.0


class _WorkerJob(Generic[_T]):
    """One call: waiting, given up, or done."""

    def __init__(self, call: Callable[[], _T], notify: Callable[[], None]) -> None:
        self._call = call
        self._tell = notify
        self._context = contextvars.copy_context()
        self._result: _T | None = None
        self._error: BaseException | None = None
        self.given_up = False

    def give_up(self) -> None:
        """Abandon the job: it will not start any more, and its references are released."""
        self.given_up = True
        self._call = _return_nothing

    def run(self) -> None:
        call = self._call
        if self.given_up:
            return
        try:
            self._result = self._context.run(call)
        except BaseException as error:  # noqa: BLE001 - the caller raises it, not this thread
            self._error = error
        self._tell()

    def result(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value] # it ran, so it is there


class WorkerThreads:
    """At most `max_threads` threads, started on demand. Survives a fork."""

    def __init__(self, max_threads: int = 4) -> None:
        self._most = max_threads
        self._reset_threads()

    def _reset_threads(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_WorkerJob[object]] = SimpleQueue()
        self._threads = 0
        self._idle = 0

    def run(self, call: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `call` returns, or raise what it raises.

        Raises:
            TimeoutError: It took longer, or no thread was free in that time.
        """
        done = threading.Event()
        job = _WorkerJob(call, done.set)
        self._enqueue_job(job)
        if not done.wait(timeout_s):
            job.give_up()
            raise TimeoutError
        return job.result()

    async def arun(self, call: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `call` returns, like `run`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def tell() -> None:
            # The loop may be closed by now; then nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        job = _WorkerJob(call, tell)
        self._enqueue_job(job)
        try:
            await asyncio.wait_for(done.wait(), timeout_s)
        finally:
            job.give_up()
        return job.result()

    def _enqueue_job(self, job: "_WorkerJob[_T]") -> None:
        if self._process != os.getpid():
            # Threads do not survive a fork, but their count does, and so may a held lock.
            self._reset_threads()
        with self._lock:
            if not self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._run_jobs, name="demur-guard", daemon=True).start()
            else:
                self._idle = max(0, self._idle - 1)
            self._jobs.put(job)  # type: ignore[arg-type] # each job has its own result type

    def _run_jobs(self) -> None:
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
            del job  # release its references while this thread waits for the next
            with self._lock:
                self._idle += 1


def _return_nothing() -> Any:
    """Replace the call of a job that was given up."""
