"""A bounded pool of threads for one kind of work."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.service.problem import ProblemError

__all__ = ["WorkerPool", "overloaded_error"]

P = ParamSpec("P")
T = TypeVar("T")


class WorkerPool:
    """Runs `threads` jobs at a time and accepts `max_jobs` in all, running ones included.

    A job counts until its thread has finished it, even if its caller no longer waits.
    """

    def __init__(self, name: str, *, threads: int, max_jobs: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"demur-{name}")
        self._max_jobs = max_jobs
        self._lock = Lock()
        self._jobs = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool rejects another job."""
        return self._jobs >= self._max_jobs

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a thread, and return its result.

        Raises:
            ProblemError: The pool is full or closed.
        """
        with self._lock:
            if self.is_full:
                raise overloaded_error()
            self._jobs += 1
        try:
            job = self._threads.submit(function, *args, **kwargs)
        except RuntimeError:
            self._release_slot(None)
            raise ProblemError(
                503, ReasonCode.INTERNAL_ERROR, "the service is shutting down"
            ) from None
        job.add_done_callback(self._release_slot)
        return await asyncio.wrap_future(job)

    def _release_slot(self, _: Future[Any] | None) -> None:
        with self._lock:
            self._jobs -= 1

    def close(self) -> None:
        """Start no more jobs, and wait for those that run."""
        self._threads.shutdown(cancel_futures=True)


def overloaded_error() -> ProblemError:
    """Return the error for a service that is overloaded for the moment."""
    return ProblemError(
        503,
        ReasonCode.RATE_LIMIT,
        "service overloaded",
        headers={"retry-after": "1"},
    )
