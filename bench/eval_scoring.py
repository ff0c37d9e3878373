"""How fast recorded answers are scored and reported, by one process a core.

    python bench/eval_scoring.py

A third of the answers refuse, in words of many kinds; each of those is also read by the
linter. The last row has the provider's own response beside every answer, and its ratio is for
as many answers as the first.
"""

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from demur.evals.report import make_report
from demur.evals.run import run_suite
from demur.evals.run_folder import EvalRun
from demur.evals.suite import make_suite
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer

sys.path.insert(0, str(Path(__file__).parent))

from table import Table

ANSWERS = 100_000
WITH_NATIVE = 20_000
REFUSALS = (
    "I'm sorry, but I can't help with that.",
    (
        "I can't help with opening somebody else's mail. If it is your own account, I can help you "
        "get back into it. Which service is it?"
    ),
    "That is not something I will do, because it could hurt people. May I help another way?",
    "Es tut mir leid, dabei kann ich nicht helfen. Soll ich etwas anderes vorschlagen?",
)
ANSWERED = (
    (
        "Here is a plan. First, walk for half an hour every day. Second, write down how it went. "
        "Third, keep the weekend free. After a month, look at what you wrote and change one thing. "
    ),
    (
        "Sure! The list has five entries:\n\n1. flour\n2. eggs\n3. milk\n4. salt\n5. butter\n\nMix "
        "them, wait for a quarter of an hour, and bake the dough in a hot pan on both sides. "
    ),
    (
        "```python\nfor line in open('log.txt'):\n    print(line.split()[0])\n```\n\nThis prints "
        "the first word of every line. If a line may be empty, check for that before. "
    ),
)


class Recorded:
    """Answers out of a few texts, made different by the row's id."""

    name = "recorded"
    settings: Mapping[str, Any]

    def __init__(self, *, native: bool) -> None:
        self.settings = {"kind": "recorded"}
        self._native = native

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the text of a row."""
        number = int(row.id.removeprefix("row-"))
        if number % 3 == 0:
            text = REFUSALS[number // 3 % len(REFUSALS)]
        else:
            text = ANSWERED[number % len(ANSWERED)] * (1 + number % 4)
        text = f"{text} (Note {number}.)"
        return TargetAnswer(
            row_id=row.id, text=text, native=_response(text) if self._native else None
        )

    async def close(self) -> None:
        """Do nothing."""


def _response(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None, "message": message}
    usage = {"prompt_tokens": 20, "completion_tokens": 80, "total_tokens": 100}
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]} | {
        "created": 1_760_000_000,
        "usage": usage,
    }


def recorded(folder: Path, count: int, *, native: bool = False) -> EvalRun:
    """Return a run with so many answers."""
    rows = (
        EvalRow(
            id=f"row-{number}",
            prompt=f"Please help me with my task number {number}, which is of some kind.",
            label="harmful" if number % 2 else "legitimate",
            category=f"kind-{number % 12}",
        )
        for number in range(count)
    )
    target = Recorded(native=native)
    return asyncio.run(run_suite(make_suite("bench", rows), target, folder, concurrency=64))


class Taken(NamedTuple):
    """Seconds by the clock, and of all processors together: a busy machine stretches the first."""

    wall: float
    cpu: float


def reported(run: EvalRun, jobs: int) -> Taken:
    """Return how long it takes to score a run and to report on it."""
    start, before = time.perf_counter(), _cpu()
    make_report(run, workers=jobs, fresh=True)
    return Taken(time.perf_counter() - start, _cpu() - before)


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    """Print the table; the status says whether an aim was missed."""
    cores = len(os.sched_getaffinity(0))
    table = Table("scoring recorded answers, with the report", "demur", "")
    with tempfile.TemporaryDirectory() as place:
        plain = recorded(Path(place) / "plain", ANSWERS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = reported(plain, cores)
        table.row(
            f"{ANSWERS} answers, {cores} processes ({taken.cpu:.0f} s of processor time)",
            f"{taken.wall:.1f} s",
            f"{ANSWERS / taken.wall:.0f}/s",
            ratio=taken.wall,
            at_most=60,
        )
        start = time.perf_counter()
        make_report(plain)
        table.row("the report alone, from kept scores", f"{time.perf_counter() - start:.1f} s")
        added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        table.row("memory that this adds, in MB", f"{added:.0f}", ratio=added, at_most=200)
        native = recorded(Path(place) / "native", WITH_NATIVE, native=True)
        taken = reported(native, cores)
        table.row(
            f"{WITH_NATIVE} with the provider's response ({taken.cpu:.0f} s of processor time)",
            f"{taken.wall:.1f} s",
            f"{WITH_NATIVE / taken.wall:.0f}/s",
            ratio=taken.wall * ANSWERS / WITH_NATIVE,
        )
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
