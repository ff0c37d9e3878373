"""The lane of heavy work: a few threads, each with a process for what keeps a processor busy.

The event loop decides, and heavy calls leave it: a thread reads the body, decides and stores, and
its process runs the guards. What a call costs is charged to its key.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from demur.gate.guard_run import GuardFailure, GuardResult
from demur.service.heavy_work import WorkContext, WorkSetup, check_event
from demur.service.limits import WorkBudgets, WorkerPool
from demur.service.work_process import HeavyJob, WorkFailedError, WorkProcess

P = ParamSpec("P")
T = TypeVar("T")
_THREADS_WITHOUT_PROCESSES = 2
# Half of them are how many agents with one key can call at once. `timeout_s` bounds how long they
# wait, and the budgets bound what they cost.
_MAX_JOBS = 1024


class WorkLane:
    """Runs heavy calls on threads. `context` serves where there are no processes."""

    def __init__(
        self,
        context: WorkContext,
        budgets: WorkBudgets,
        *,
        setup: WorkSetup | None = None,
        processes: int = 0,
    ) -> None:
        # A connection cannot be handed to another program on Windows.
        count = processes if setup is not None and os.name == "posix" else 0
        # Whether the processes can open the store: one in memory is not theirs.
        self.reads_store = bool(count) and setup is not None and setup.names_store
        self._context = context._replace(is_stopped=self._is_stopped)
        self._budgets = budgets
        self._processes = [WorkProcess(setup) for _ in range(count) if setup is not None]
        self._unused: SimpleQueue[WorkProcess] = SimpleQueue()
        for process in self._processes:
            self._unused.put(process)
        self._pool = WorkerPool(
            "heavy", threads=count or _THREADS_WITHOUT_PROCESSES, max_jobs=_MAX_JOBS
        )
        # The job of each thread, and its process.
        self._local = threading.local()
        self._jobs: set[HeavyJob] = set()

    def start(self) -> None:
        """Start the processes, so that the first call does not wait for them."""
        for process in self._processes:
            process.start()

    async def run(self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function for a key on a thread of the lane, and return its result.

        A caller that is cancelled stops the work.

        Raises:
            ProblemError: There is too much heavy work already.
        """
        job = HeavyJob()
        self._jobs.add(job)
        call = partial(function, *args, **kwargs)
        try:
            return await self._pool.run_for(key, self._work, key, job, call)
        except asyncio.CancelledError:
            job.stop()
            raise
        finally:
            self._jobs.discard(job)

    def _work(self, key: str, job: HeavyJob, call: Callable[[], T]) -> T:
        began = time.thread_time()
        self._local.job = job
        try:
            return call()
        finally:
            del self._local.job
            self._budgets.charge(key, cpu_s=job.cpu_s + time.thread_time() - began)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return what a function of `heavy_work` returns, called in the process of this thread.

        Raises:
            CancelledError: The job of this thread was stopped.
            WorkFailedError: The process gave no result.
        """
        job: HeavyJob | None = getattr(self._local, "job", None)
        if job is None or not self._processes:
            return function(self._context, *args)
        if not hasattr(self._local, "process"):
            # There are as many processes as threads.
            self._local.process = self._unused.get_nowait()
        result: T = self._local.process.run(job, function, *args)
        return result

    def _is_stopped(self) -> bool:
        job: HeavyJob | None = getattr(self._local, "job", None)
        return job is not None and job.stopped_at is not None

    def run_guard(
        self, surface: str, event: Any, fields: dict[str, Any] | None = None
    ) -> GuardResult:
        """Run a built-in guard; without a process that answers, it gave no verdict."""
        # INVARIANT: a guard whose process fails gives no verdict, so the call is refused.
        try:
            return self.call(check_event, surface, event, fields)
        except WorkFailedError as error:
            return GuardResult(failure=GuardFailure("failure", error.problem))

    def close(self) -> None:
        """End the processes, and with them the work under way."""
        for job in list(self._jobs):
            job.stop()
        self._pool.close()
        for process in self._processes:
            process.end()
