"""A bounded pool of threads for one kind of work."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.service.problem import ProblemError

__all__ = ["Pool", "busy"]

P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    """Runs `threads` jobs at a time and accepts `max_jobs` in all, running ones included.

    A job counts until its thread has finished it, even if its caller no longer waits.
    """

    def __init__(self, name: str, *, threads: int, most: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"demur-{name}")
        self._most = most
        self._lock = Lock()
        self._there = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool rejects another job."""
        return self._there >= self._most

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a thread, and return its result.

        Raises:
            ProblemError: The pool is full or closed.
        """
        with self._lock:
            if self.is_full:
                raise busy()
            self._there += 1
        try:
            job = self._threads.submit(function, *args, **kwargs)
        except RuntimeError:
            self._left(None)
            raise ProblemError(
                503, ReasonCode.INTERNAL_ERROR, "the service is shutting down"
            ) from None
        job.add_done_callback(self._left)
        return await asyncio.wrap_future(job)

    def _left(self, _: Future[Any] | None) -> None:
        with self._lock:
            self._there -= 1

    def close(self) -> None:
        """Start no more jobs, and wait for those that run."""
        self._threads.shutdown(cancel_futures=True)


def busy() -> ProblemError:
    """Return the error for a service that is overloaded for the moment."""
    return ProblemError(
        503,
        ReasonCode.RATE_LIMIT,
        "service overloaded",
        headers={"retry-after": "1"},
    )
