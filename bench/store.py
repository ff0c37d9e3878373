"""What durability costs, and what a store is like when it is large: SQLite, on this disk.

Waiting for a disk is most of a durable decision, and disks are moody: every durable row
stands beside plain writes of the same bytes, taken in turns with it.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from deciding import asked, small_policy
from large import large
from peers import have
from processes import memory, processes
from table import Samples, Table, amount

from demur.gate.gate import Gate
from demur.store.opening import open_store

WARMING = 60
SINGLE = 400
CALLERS = 64
EACH = 20
BATCH = 100
ROUNDS = 7


def main() -> int:
    """Print the table; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dir", help="where the databases of the run go (default: a temporary one)"
    )
    parser.add_argument("--big", type=int, default=100_000, help="decisions in the large store")
    parser.add_argument("--decisions", type=int, default=200_000, help="decisions for memory")
    options = parser.parse_args()
    if not have("lumyn"):
        print("lumyn is not installed: its row is left out")
    table = Table("what", "demur", "beside")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        durable(table, Path(folder))
        together(table, Path(folder))
        processes(table, Path(folder))
        memory(table, Path(folder), options.decisions)
        large(table, Path(folder), options.big)
    print(f"aims not met: {table.missed}")
    return 1 if table.missed else 0


def durable(table: Table, folder: Path) -> None:
    """Measure one caller that waits for the disk, beside plain writes of the same bytes."""
    with (
        Gate(small_policy(), open_store(folder / "full.db")) as gate,
        (folder / "plain").open("ab", buffering=0) as plain,
    ):
        # The log has its full size then, as it has in a store that is in use.
        for _ in range(WARMING):
            gate.decide_many(asked(BATCH))
        ours, theirs = [], []
        for request in asked(SINGLE):
            start = time.perf_counter()
            record = gate.decide(request)
            ours.append(time.perf_counter() - start)
            raw = record.open_bytes() + (record.sealed or b"")
            start = time.perf_counter()
            plain.write(raw)
            os.fdatasync(plain.fileno())
            theirs.append(time.perf_counter() - start)
    mine, other = Samples(tuple(ours)), Samples(tuple(theirs))
    for name, value, beside in (
        ("median", mine.median, other.median),
        ("mean", mine.mean, other.mean),
    ):
        table.row(
            f"SQLite full, one caller, against write + fdatasync, {name}",
            amount(value),
            amount(beside),
            ratio=value / beside,
            at_most=1.3 if name == "median" else None,
        )


def together(table: Table, folder: Path) -> None:
    """Measure many callers that share commits, beside one."""
    with Gate(small_policy(), open_store(folder / "together.db")) as gate:
        alone, tasks, threads, batches = [], [], [], []
        for _ in range(ROUNDS):
            alone.append(rate(lambda: [gate.decide(one) for one in asked(BATCH)], BATCH))
            tasks.append(rate(lambda: asyncio.run(by_tasks(gate)), CALLERS * EACH))
            threads.append(rate(lambda: by_threads(gate), CALLERS * EACH))
            batches.append(rate(lambda: gate.decide_many(asked(BATCH)), BATCH))
    one = statistics.median(alone)
    for name, rates, aim in (
        (f"SQLite full, {CALLERS} tasks (adecide), against one caller", tasks, 6),
        (f"SQLite full, {CALLERS} threads, against one caller", threads, 6),
        (f"SQLite full, decide_many({BATCH}), against one caller", batches, None),
    ):
        many = statistics.median(rates)
        table.row(name, f"{many:,.0f}/s", f"{one:,.0f}/s", ratio=many / one, at_least=aim)
    table.row(
        f"SQLite full, decide_many({BATCH}), a decision", amount(1 / statistics.median(batches))
    )


def rate(work: Callable[[], object], decisions: int) -> float:
    """Return how many decisions a second some work makes."""
    start = time.perf_counter()
    work()
    return decisions / (time.perf_counter() - start)


async def by_tasks(gate: Gate) -> None:
    """Decide as many tasks of one event loop."""

    async def caller() -> None:
        for request in asked(EACH):
            await gate.adecide(request)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def by_threads(gate: Gate) -> None:
    """Decide as many threads."""

    def caller() -> None:
        for request in asked(EACH):
            gate.decide(request)

    started = [threading.Thread(target=caller) for _ in range(CALLERS)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
