"""How fast an eval runs: against an endpoint that takes 50 ms, beside what it could be at best.

    python bench/evals.py

The endpoint is the test server, in a process of its own. At best, as many answers come in its
latency as rows are under way. Memory is what a run adds to that of the suite.
"""

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from demur.evals.run import run_suite
from demur.evals.suite import EvalSuite, make_suite
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget
from demur.evals.targets import open_target

sys.path.insert(0, str(Path(__file__).parent))

from table import Table

LATENCY_MS = 50.0
AT_ONCE = 64
ROWS = 8_000
RECORDED = 100_000


def suite_of(count: int) -> EvalSuite:
    """Return a suite of made-up rows."""
    rows = (
        EvalRow(id=f"row-{number}", prompt=f"Say the number {number} in words.", label="legitimate")
        for number in range(count)
    )
    return make_suite("bench", rows)


async def seconds(suite: EvalSuite, target: EvalTarget, folder: Path, at_once: int) -> float:
    """Return how long a run takes, without the time to start the target."""
    try:
        await target.answer(suite.rows[0])
        start = time.perf_counter()
        await run_suite(suite, target, folder, concurrency=at_once)
        return time.perf_counter() - start
    finally:
        await target.close()


def throughput(table: Table, folder: Path, *, stream: bool) -> None:
    """Print the answers a second from a slow endpoint, beside the best there could be."""
    suite = suite_of(ROWS)
    target = open_target(
        "demur-testing-server", persona="echo", latency_ms=LATENCY_MS, stream=stream
    )
    before = time.process_time()
    taken = asyncio.run(seconds(suite, target, folder, AT_ONCE))
    own = (time.process_time() - before) / ROWS
    reached, best = ROWS / taken, AT_ONCE / (LATENCY_MS / 1000)
    how = ", as a stream" if stream else ""
    what = f"{ROWS} rows, {LATENCY_MS:g} ms, {AT_ONCE} at once{how} ({own * 1e6:.0f} µs a row)"
    table.row(what, f"{reached:.0f}/s", f"{best:.0f}/s", ratio=reached / best, at_least=0.9)


def memory(table: Table, folder: Path) -> None:
    """Print what a run over many rows adds to the memory of the process."""
    suite = suite_of(RECORDED)
    target = open_target("python:bench_answer:answer")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = asyncio.run(seconds(suite, target, folder, AT_ONCE))
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    table.row(f"{RECORDED} rows of a coroutine function", f"{RECORDED / taken:.0f}/s")
    table.row("memory that run adds, in MB", f"{added:.0f}", ratio=added, at_most=50)


def main() -> int:
    """Print the table; the status says whether an aim was missed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "bench_answer.py").write_text(
            "async def answer(prompt):\n    return 'Here it is.'\n", encoding="utf-8"
        )
        sys.path.insert(0, place)
        table = Table("evals", "demur", "at best")
        # First, since the most memory that was ever used is what can be read.
        memory(table, folder / "many")
        throughput(table, folder / "plain", stream=False)
        throughput(table, folder / "stream", stream=True)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
