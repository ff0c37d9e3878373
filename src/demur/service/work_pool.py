"""The pool of heavy work: a few threads, each with a process for what keeps a processor busy.

The event loop decides, and heavy calls leave it: a thread reads the body, decides and stores, and
its process runs the guards, at a lower priority than deciding. What a call costs is charged to its
key. A process has one job at a time. A job whose caller no longer waits is interrupted; a process
that does not obey is killed and replaced. Processes end with the worker that started them.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock
from typing import Any, NoReturn, ParamSpec, TypeVar

from demur.errors import DemurError
from demur.gate.guard_run import GuardFailure, GuardResult
from demur.service.heavy_work import (
    WorkContext,
    WorkSetup,
    build_context,
    check_event,
    warm_guard,
)
from demur.service.limits import WorkBudgets, WorkerPool

P = ParamSpec("P")
T = TypeVar("T")
_THREADS_WITHOUT_PROCESSES = 2
# Half of them are how many agents with one key can call at once. `timeout_s` bounds how long they
# wait, and the budgets bound what they cost.
_MAX_JOBS = 1024
# How much a process yields to others: 19 would be the most.
_NICENESS = 10
_TICK_S = 0.1
# A process that is still busy this long after it was interrupted is killed.
_KILL_AFTER_S = 2.0
# Loading and compiling takes about this long, and whoever ends a process pays for the next one.
_START_CPU_S = 1.0


class WorkFailedError(DemurError, RuntimeError):
    """A job gave no result."""


class HeavyJob:
    """One job of a key: how much processor time it took in processes, and whether to stop."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.stopped_at: float | None = None
        self._lock = Lock()
        self._process: WorkProcess | None = None

    def stop(self) -> None:
        """Interrupt the job."""
        with self._lock:
            self.stopped_at = time.monotonic()
            if self._process is not None:
                self._process.interrupt()

    def attach(self, process: "WorkProcess | None") -> None:
        """Note the process that works on the job, or that none does.

        Raises:
            CancelledError: The job is to stop.
        """
        with self._lock:
            self._process = process
            if process is not None and self.stopped_at is not None:
                self._process = None
                raise asyncio.CancelledError


class WorkProcess:
    """A process, started when it is first needed. Used by one thread at a time."""

    def __init__(self, setup: WorkSetup) -> None:
        self._setup = setup
        self._lock = Lock()
        self._ended = False
        # It has loaded, and so does not die of a signal.
        self._is_ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self) -> None:
        """Start the process, unless it runs. It loads on its own."""
        with self._lock:
            runs = self._process is not None and self._process.poll() is None
            if runs or self._ended:
                return
            if self._connection is not None:
                self._connection.close()
            ours, theirs = _make_pipe()
            # `-P`: never import from the folder that the service was started in.
            module = "demur.service.work_pool"
            command = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
            try:
                # In a session of its own, so that Ctrl-C does not reach it.
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    command, pass_fds=(theirs.fileno(),), start_new_session=True
                )
            finally:
                theirs.close()
            self._connection = ours
            self._is_ready = False
            ours.send(self._setup)

    def run(self, job: HeavyJob, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function of `heavy_work` returns, called in the process.

        Raises:
            CancelledError: The job was stopped.
            WorkFailedError: The process gave no result.
            DemurError: The function raised it.
        """
        try:
            self.start()
            job.attach(self)
            try:
                kind, value, cpu_s = self._exchange(job, (function, args))
            finally:
                job.attach(None)
        except (OSError, EOFError, pickle.PickleError) as error:
            self.close()
            job.cpu_s += _START_CPU_S
            raise WorkFailedError("a process that checks large texts ended early") from error
        job.cpu_s += cpu_s
        if kind == "stopped":
            raise asyncio.CancelledError
        if kind == "raised":
            raise value
        if kind == "failed":
            raise WorkFailedError(f"the work raised {value}")
        return value

    def _exchange(self, job: HeavyJob, message: Any) -> tuple[str, Any, float]:
        connection = self._connection
        if connection is None:
            raise EOFError
        while not self._is_ready:
            if connection.poll(_TICK_S):
                connection.recv()
                self._is_ready = True
            elif job.stopped_at is not None:
                raise asyncio.CancelledError
        connection.send(message)
        while not connection.poll(_TICK_S):
            if job.stopped_at is None:
                continue
            # The first signal may have come before the job began.
            self.interrupt()
            if time.monotonic() > job.stopped_at + _KILL_AFTER_S:
                self.close()
                job.cpu_s += _KILL_AFTER_S + _START_CPU_S
                raise asyncio.CancelledError
        return connection.recv()  # type: ignore[no-any-return]

    def interrupt(self) -> None:
        """Have the process give up its job."""
        if self._process is not None and self._is_ready:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End the process for good."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """End the process; the next job starts another."""
        with self._lock:
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.wait()


def _make_pipe() -> tuple[Connection, Connection]:
    # Imported here: the module takes long to load, and not every service needs it.
    from multiprocessing import Pipe  # noqa: PLC0415 - see above

    return Pipe()


class HeavyWorkPool:
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
        """Run a function for a key on a thread of the pool, and return its result.

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


class _JobLoop:
    """Does the jobs that come over a connection, one after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._working = False

    def interrupt(self, *_: object) -> None:
        """Leave the job, if there is one: guards let only this error through."""
        if self._working:
            raise KeyboardInterrupt

    def run(self) -> None:
        """Work until the other side closes."""
        context = build_context(self._connection.recv())
        self._connection.send(None)
        for surface in context.pipeline.surfaces:
            if not self._connection.poll():
                warm_guard(context, surface)
        while True:
            self._connection.send(self._do(context, *self._connection.recv()))

    def _do(
        self, context: WorkContext, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[str, Any, float]:
        began = time.process_time()
        reply: tuple[str, Any]
        try:
            self._working = True
            reply = "done", function(context, *args)
        except KeyboardInterrupt:
            reply = "stopped", None
        except DemurError as error:
            reply = "raised", error
        except BaseException as error:  # noqa: BLE001 - its text may quote the work
            reply = "failed", type(error).__name__
        finally:
            self._working = False
        return *reply, time.process_time() - began


def main() -> NoReturn:
    """Work on what comes over the connection whose file descriptor is the argument."""
    with suppress(OSError):
        os.nice(_NICENESS)
    with Connection(int(sys.argv[1])) as connection, suppress(EOFError, ConnectionError):
        loop = _JobLoop(connection)
        signal.signal(signal.SIGINT, loop.interrupt)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loop.run()
    sys.exit(0)


if __name__ == "__main__":
    main()
