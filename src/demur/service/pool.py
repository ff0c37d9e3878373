"""Threads for one kind of work, so many and no more, so that no kind keeps another waiting."""

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
    """Works on `threads` jobs at a time and lets `most` be there, those that run included.

    A job is there until its thread is done with it, also when nobody waits for it any more.
    """

    def __init__(self, name: str, *, threads: int, most: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"demur-{name}")
        self._most = most
        self._lock = Lock()
        self._there = 0

    @property
    def is_full(self) -> bool:
        """Whether one job more would be turned away."""
        return self._there >= self._most

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function gives that would keep the event loop waiting.

        Raises:
            ProblemError: Too much is waiting already, or this is the end.
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
        """Begin nothing more, and wait for what runs."""
        self._threads.shutdown(cancel_futures=True)


def busy() -> ProblemError:
    """Return the error for what cannot be done now, but soon."""
    return ProblemError(
        503,
        ReasonCode.RATE_LIMIT,
        "the service has more to do than it can",
        headers={"retry-after": "1"},
    )
