"""Split a run over many machines with Ray; its folder is like that of any other run.

A machine receives rows and the name of the target, and sends answers back, so the machines need
no shared disk. Killing the run loses the parts that are in flight.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.errors import InputError, MissingExtraError
from demur.evals.run import RunProgress, answer_row, run_concurrently
from demur.evals.run_folder import EvalRun, PendingRun, begin_run
from demur.evals.suite import EvalSuite
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer, decode_answer, encode_answer
from demur.evals.targets import open_target
from demur.gate.clock import Clock, system_clock


class RunPart(NamedTuple):
    """A part of a run for one machine: its encoded rows, and the target to ask."""

    rows: bytes
    spec: str
    options: Mapping[str, Any]
    concurrency: int


# Runs a function on parts, and yields the encoded answers of each part as it finishes.
PartEngine = Callable[[Callable[[RunPart], bytes], Iterator[RunPart]], Iterator[bytes]]


def answer_part(part: RunPart) -> bytes:
    """Return the answers to the rows of a part, one per line."""
    rows = msgspec.json.decode(part.rows, type=list[EvalRow])
    return b"\n".join(map(encode_answer, asyncio.run(_answer_rows(rows, part))))


def run_distributed(
    suite: EvalSuite,
    spec: str,
    options: Mapping[str, Any],
    folder: Path | str,
    *,
    engine: PartEngine,
    parts_at_once: int = 4,
    part_size: int = 500,
    concurrency: int = 16,
    limit: int | None = None,
    seed: int | None = None,
    clock: Clock = system_clock,
    progress: RunProgress | None = None,
) -> EvalRun:
    """Run a suite in parts on an engine, and return the run; it can be resumed like any other.

    Parts that run at the same time share a limit on requests per second.

    Raises:
        RunError: The folder holds another run, or cannot be used.
    """
    if parts_at_once < 1 or part_size < 1:
        raise InputError("`parts_at_once` and `part_size` must be at least 1")
    shared = dict(options)
    if shared.get("rate"):
        shared["rate"] = float(shared["rate"]) / parts_at_once
    target = open_target(spec, **options)
    try:
        with begin_run(suite, target, Path(folder), limit=limit, seed=seed, clock=clock) as work:
            encoded = map(msgspec.json.encode, iter(lambda: list(islice(work.rows, part_size)), []))
            parts = (RunPart(rows, spec, shared, concurrency) for rows in encoded)
            _collect_answers(work, engine(answer_part, parts), progress or RunProgress())
            return work.finish_run(clock())
    finally:
        asyncio.run(target.close())


def ray_engine(parts_at_once: int = 4) -> PartEngine:
    """Return an engine that runs parts as Ray tasks, on a cluster or on this machine.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        problem = "a distributed run needs the `ray` package"
        raise MissingExtraError(problem, help="pip install ray") from error

    def run(function: Callable[[RunPart], bytes], parts: Iterator[RunPart]) -> Iterator[bytes]:
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        task = ray.remote(function)
        under_way = [task.remote(part) for part in islice(parts, parts_at_once)]
        while under_way:
            done, under_way = ray.wait(under_way, num_returns=1)
            # Only the parts in flight are in memory, however many there are.
            under_way += [task.remote(part) for part in islice(parts, len(done))]
            yield from ray.get(done)

    return run


def _collect_answers(work: PendingRun, done: Iterator[bytes], progress: RunProgress) -> None:
    progress.begin(work.total, work.total - work.left)
    try:
        rows = {row.id: row for row in work.run.iter_rows()}
        for lines in done:
            for answer in map(decode_answer, lines.splitlines()):
                work.file.append_answer(answer)
                progress.add_answer(rows[answer.row_id], answer)
            work.file.sync()
    finally:
        progress.end()


async def _answer_rows(rows: list[EvalRow], part: RunPart) -> list[TargetAnswer]:
    target = open_target(part.spec, **part.options)
    answers: list[TargetAnswer] = []

    async def ask(row: EvalRow) -> None:
        answers.append(await answer_row(target, row))

    try:
        await run_concurrently(ask, iter(rows), part.concurrency)
    finally:
        await target.close()
    return answers
