import asyncio
import contextvars
import os
import threading
import time
from typing import Any

import pytest
from support.sample_guards import finding, guard, raising, seeing

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.gate.guard_run import (
    MAX_FINDINGS,
    GuardFailure,
    GuardResult,
    WorkerThreads,
    run_guard,
    unavailable_finding,
)
from demur.gate.rate import LimiterUnavailableError
from demur.model.finding import Action, Finding, Span

CORE = Registry.load()


def looked(one: Any, event: Any = "some text") -> GuardResult:
    return run_guard(one, event, None, registry=CORE)


def test_running_a_guard_returns_its_findings() -> None:
    seen = finding(detail="x", evidence={"rule": "R"})

    assert looked(seeing(seen)) == GuardResult((seen,))
    assert looked(seeing()) == GuardResult()


def test_a_list_will_do() -> None:
    assert looked(guard(lambda _e, _c: [finding()])).findings == (finding(),)


def test_a_guard_that_raises_keeps_what_it_found_and_its_words_to_itself() -> None:
    result = looked(raising(RuntimeError("the password is swordfish"), [finding()]))

    assert result.findings == (finding(),)
    assert result.failure == GuardFailure("failure", "it raised RuntimeError")


def test_a_limiter_that_cannot_be_reached_says_so() -> None:
    result = looked(raising(LimiterUnavailableError("Redis cannot be reached: TimeoutError")))

    assert result.failure == GuardFailure("unreachable", "Redis cannot be reached: TimeoutError")


async def _later() -> list[Finding]:
    return []


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (lambda: None, "it returned a `NoneType`"),
        (lambda: 3, "it returned a `int`"),
        (_later, "it returned a `coroutine`"),
        (lambda: ["RCE_RISK"], "a `str` is no finding"),
        (lambda: [finding("MADE_UP")], "the code `MADE_UP` is not registered"),
        (lambda: [finding(["x"])], "the code `['x']` is not registered"),  # type: ignore[arg-type] # that is the point
        (lambda: [finding("RATE_LIMIT")], "the code `RATE_LIMIT` is not one of its `CODES`"),
        (lambda: [finding(surface=Surface.OUTPUT)], "the surface is `output`, not `input`"),
        (lambda: [finding(action="stop")], "the action is `stop`"),
        (lambda: [finding(start=3, end=10)], "the span ends at 10, and the text at 9"),
        (lambda: [finding(span=(1, 2))], "a `tuple` is no span"),
        (
            lambda: [finding(detail="x" * 121)],
            "the detail must be a text of at most 120 characters",
        ),
        (lambda: [finding(detail=None)], "the detail must be a text of at most 120 characters"),
        (
            lambda: [finding(evidence={"at": object()})],
            "the evidence is not plain JSON: ",
        ),
        (lambda: [finding(evidence=[1])], "the evidence must be a mapping"),
        (
            lambda: [finding(evidence={"x": "y" * 70_000})],
            "the evidence takes more than 65536 bytes",
        ),
    ],
)
def test_rubbish_is_no_verdict(said: Any, note: str) -> None:
    result = looked(guard(lambda _e, _c: said()))

    assert result.findings == ()
    assert result.failure is not None
    assert result.failure.cause == "failure"
    assert result.failure.note.startswith(note[:60])


def test_an_event_without_a_text_has_no_end_for_spans() -> None:
    assert looked(seeing(finding(start=3, end=10)), event=object()).failure is None


def test_findings_beyond_measure_are_dropped_but_the_strict_ones_stay() -> None:
    many = [finding(action=Action.WARN)] * (MAX_FINDINGS + 500)
    result = looked(seeing(*many, finding(action=Action.BLOCK)))

    assert len(result.findings) == MAX_FINDINGS + 1
    assert result.findings[-1].action is Action.BLOCK


def test_a_guard_without_verdict_is_a_finding() -> None:
    late = unavailable_finding(
        "acme", "output", GuardFailure("timeout", "it took longer than 2 s"), 2.0
    )

    assert late.code == "GUARDRAIL_UNAVAILABLE"
    assert late.surface == "runtime"
    assert late.evidence == {"guard": "acme", "cause": "timeout", "on": "output", "timeout": 2.0}
    assert late.detail == "the guard `acme` gave no verdict: it took longer than 2 s"
    assert not CORE[late.code].decided
    broken = unavailable_finding(
        "x" * 300, "input", GuardFailure("failure", "it raised OSError"), None
    )
    assert len(broken.detail) == 120
    assert "timeout" not in broken.evidence


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()])
def test_a_guard_that_ends_the_program_gave_no_verdict(error: BaseException) -> None:
    result = looked(raising(error, [finding()]))

    assert result.findings == (finding(),)
    assert result.failure == GuardFailure("failure", f"it raised {type(error).__name__}")


def test_a_keyboard_interrupt_in_a_guard_reaches_the_caller() -> None:
    with pytest.raises(KeyboardInterrupt):
        looked(raising(KeyboardInterrupt()))
    assert Span(start=0, end=1) == finding().span
    asyncio.run(_later())


def test_the_cancellation_of_a_task_passes() -> None:
    async def task(*, cancel: bool) -> GuardResult:
        running = asyncio.current_task()
        assert running is not None
        if cancel:
            running.cancel()
        return looked(raising(asyncio.CancelledError()))

    result = asyncio.run(task(cancel=False))
    assert result.failure == GuardFailure("failure", "it raised CancelledError")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(task(cancel=True))


def test_a_demur_error_in_a_guard_is_shown_with_its_help() -> None:
    error = InputError("there is no mode `loud`", where="mode", help="`quiet` or `plain`")
    result = looked(raising(error))
    assert result.failure == GuardFailure(
        "failure", "it raised InputError: mode: there is no mode `loud`", "`quiet` or `plain`"
    )

    found = unavailable_finding("acme", "input", result.failure, None)
    assert found.detail.endswith(
        "gave no verdict: it raised InputError: mode: there is no mode `loud`"
    )
    assert found.evidence["help"] == "`quiet` or `plain`"


def test_an_error_does_not_quote_the_event() -> None:
    error = InputError("cannot use `swordfish`, only `other`", help="not `swordfish`")
    known = looked(raising(error), event="the password is swordfish").failure
    unknown = looked(raising(error), event=object()).failure

    assert known == GuardFailure(
        "failure", "it raised InputError: cannot use `…`, only `other`", "not `…`"
    )
    assert unknown == GuardFailure(
        "failure", "it raised InputError: cannot use `…`, only `…`", "not `…`"
    )


def test_a_worker_thread_returns_the_result() -> None:
    workers = WorkerThreads()

    assert [workers.run(lambda n=n: n * n, 5) for n in range(5)] == [0, 1, 4, 9, 16]  # type: ignore[misc] # a default binds it


def test_a_worker_thread_passes_on_the_exception() -> None:
    with pytest.raises(ZeroDivisionError):
        WorkerThreads().run(lambda: 1 / 0, 5)


def test_a_run_waits_no_longer_than_its_timeout() -> None:
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


def test_a_call_that_timed_out_before_it_began_is_not_run() -> None:
    workers = WorkerThreads(max_threads=1)
    free, done = threading.Event(), []
    with pytest.raises(TimeoutError):
        workers.run(free.wait, 0.02)
    with pytest.raises(TimeoutError):
        workers.run(lambda: done.append(1), 0.02)
    free.set()
    workers.run(lambda: None, 5)

    assert done == []


def test_a_worker_thread_runs_in_the_context_of_the_caller() -> None:
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


def test_the_thread_count_of_another_process_is_ignored() -> None:
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
