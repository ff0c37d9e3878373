"""Run one guard and hold it to its contract: the result is always a list of findings.

A guard that raises, hangs or returns something forbidden gave no verdict. Its findings until then
count; the failure is reported separately, so that the pipeline can fail closed or open. Guards with
a timeout run in a few worker threads.
"""

import asyncio
import contextvars
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, one_line, shorten
from demur.gate.clock import Clock
from demur.gate.monitor import Activation, Monitor
from demur.gate.rate import LimiterUnavailableError
from demur.guards.builtin import find_rule_codes
from demur.guards.contract import Guard, event_text, finding_problem
from demur.model.finding import Action, Finding
from demur.scan.cache import LoadingDeferredError
from demur.scorers.contract import ScorerFailureCause

# More findings of one kind say nothing new, and cost memory.
MAX_FINDINGS = 1000
_MAX_NOTE_LENGTH = 120
_STRICTNESS = (Action.BLOCK, Action.ESCALATE, Action.WARN)
_log = logging.getLogger("demur")
# Errors of demur quote values in backticks.
_QUOTED = re.compile(r"`([^`]*)`")

FailureCause = ScorerFailureCause


class GuardFailure(NamedTuple):
    """Why a guard gave no verdict: the cause, a short note, and help."""

    cause: FailureCause
    note: str
    help: str = ""


class GuardResult(NamedTuple):
    """The findings of a guard, and why it failed, if it did."""

    findings: tuple[Finding, ...] = ()
    failure: GuardFailure | None = None


NO_FINDINGS = GuardResult()


def run_guard(guard: Guard, event: Any, config: Any, *, registry: Registry) -> GuardResult:
    """Return what the guard finds in the event. Nothing that the guard raises leaves here.

    Not even `SystemExit` does: only a `KeyboardInterrupt` and the cancellation of the running
    task, which come from outside, are raised, and that rules must be compiled first, where this
    thread must not.
    """
    found: list[Finding] = []
    try:
        failure = _collect_findings(guard, event, config, registry, found)
    except LimiterUnavailableError as error:
        failure = GuardFailure(
            "unreachable", shorten_note(error.problem), shorten_note(error.help or "")
        )
    except DemurError as error:
        # Most often a wrong setting; its message may quote the event.
        place, text = f"{error.where}: " if error.where else "", event_text(event)
        note = f"it raised {type(error).__name__}: {place}{error.problem}"
        notes = (shorten_note(_withhold_quotes(one, text)) for one in (note, error.help or ""))
        failure = GuardFailure("failure", *notes)
    except (KeyboardInterrupt, LoadingDeferredError):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        # The message of an error may quote what must not be stored.
        failure = GuardFailure("failure", f"it raised {type(error).__name__}")
    return GuardResult(tuple(found), failure) if found or failure else NO_FINDINGS


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _withhold_quotes(words: str, text: str | None) -> str:
    """Return words without quotations of the text; without a text, no quotation is kept."""
    return _QUOTED.sub(lambda m: "`…`" if text is None or m[1] in text else m[0], words)


def _collect_findings(
    guard: Guard, event: Any, config: Any, registry: Registry, found: list[Finding]
) -> GuardFailure | None:
    findings: Any = guard.check(event, config)
    if not isinstance(findings, Iterable) or isinstance(findings, str | bytes | Mapping):
        if iscoroutine(findings):
            findings.close()
        return GuardFailure("failure", shorten_note(f"it returned a `{type(findings).__name__}`"))
    text, surface, codes = event_text(event), guard.SURFACE, guard.CODES
    counts = dict.fromkeys(Action, 0)
    for one in findings:
        if isinstance(one, Finding) and one.code not in codes:
            # The operator's own rules may have other codes than the guard itself.
            codes = (*guard.CODES, *find_rule_codes(config))
        problem = finding_problem(one, surface=surface, codes=codes, text=text, registry=registry)
        if problem is not None:
            return GuardFailure("failure", shorten_note(problem))
        counts[one.action] += 1
        if counts[one.action] <= MAX_FINDINGS:
            found.append(one)
    return None


def unavailable_finding(
    name: str, surface: str, failure: GuardFailure, timeout_s: float | None
) -> Finding:
    """Return the finding that refuses because a guard gave no verdict."""
    evidence: dict[str, Any] = {"guard": name, "cause": failure.cause, "on": surface}
    evidence |= {"timeout": timeout_s} if failure.cause == "timeout" else {}
    evidence |= {"help": failure.help} if failure.help else {}
    return Finding(
        code=ReasonCode.GUARDRAIL_UNAVAILABLE,
        surface=Surface.RUNTIME,
        detail=shorten_note(f"the guard `{name}` gave no verdict: {failure.note}"),
        evidence=evidence,
    )


def shorten_note(text: str) -> str:
    """Return a note about a failure in one line of bounded length."""
    return shorten(one_line(text), _MAX_NOTE_LENGTH)


class GuardRunReport(NamedTuple):
    """Reports one run of one guard to a monitor."""

    monitor: Monitor | None
    surface: str
    name: str
    is_shadow: bool
    clock: Clock
    milliseconds: float

    def count_run(self, findings: list[Finding]) -> None:
        """Report the run with the strictest action of its findings."""
        if self.monitor is not None:
            surface, name = self.surface, self.name
            strictest = min((_STRICTNESS.index(f.action) for f in findings), default=None)
            action = "" if strictest is None else str(_STRICTNESS[strictest])
            self._call_monitor(partial(self.monitor.count_run, surface, name, action))
            # `record_duration` is optional: only monitors that measure durations have it.
            record = getattr(self.monitor, "record_duration", None)
            if record is not None:
                self._call_monitor(partial(record, surface, name, self.milliseconds / 1000))

    def report_activation(
        self,
        code: str,
        action: str,
        show: Callable[[], str] = str,
        *,
        note: str = "",
        shadow: bool = False,
    ) -> None:
        """Report one finding or failure; `show` makes its preview."""
        if self.monitor is not None:
            activation = (str(code), str(action), show, note)
            record = partial(self._record_activation, self.monitor, *activation, shadow=shadow)
            self._call_monitor(record)

    def _record_activation(
        self,
        monitor: Monitor,
        code: str,
        action: str,
        show: Callable[[], str],
        note: str,
        *,
        shadow: bool,
    ) -> None:
        activation = Activation(
            time=self.clock(),
            surface=self.surface,
            guard=self.name,
            code=code,
            action=action,
            preview=show(),
            milliseconds=round(self.milliseconds, 3),
            shadow=shadow or self.is_shadow,
            note=note,
        )
        monitor.record(activation)

    @staticmethod
    def _call_monitor(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 - a monitor may raise anything
            _log.exception("the guard monitor failed")


_T = TypeVar("_T")
# A thread that is idle for this long ends.
_IDLE_S = 30.0


class _WorkerJob(Generic[_T]):
    """One call: waiting, given up, or done."""

    def __init__(self, call: Callable[[], _T], notify: Callable[[], None]) -> None:
        self._call = call
        self._notify = notify
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
        self._notify()

    def result(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value] # it ran, so it is there


class PendingCall(Generic[_T]):
    """A call that a worker thread makes."""

    def __init__(self, job: _WorkerJob[_T], done: threading.Event) -> None:
        self._job, self._done = job, done

    @property
    def is_done(self) -> bool:
        """Whether the call returned or raised."""
        return self._done.is_set()

    def give_up(self) -> None:
        """Abandon the call: if it did not start yet, it never will."""
        self._job.give_up()

    def wait(self, timeout_s: float) -> _T:
        """Return what the call returns, or raise what it raises.

        Raises:
            TimeoutError: It takes longer, or no thread was free in that time.
        """
        if not self._done.wait(timeout_s):
            self._job.give_up()
            raise TimeoutError
        return self._job.result()


class WorkerThreads:
    """At most `max_threads` threads, started on demand. Survives a fork."""

    def __init__(self, max_threads: int = 4) -> None:
        self.max_threads = max_threads
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
        return self.start(call).wait(timeout_s)

    def start(self, call: Callable[[], _T]) -> PendingCall[_T]:
        """Make a call in a worker thread, and return at once."""
        done = threading.Event()
        job = _WorkerJob(call, done.set)
        self._enqueue_job(job)
        return PendingCall(job, done)

    async def arun(self, call: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `call` returns, like `run`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def notify() -> None:
            # The loop may be closed by now; then nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        job = _WorkerJob(call, notify)
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
            if not self._idle and self._threads < self.max_threads:
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
