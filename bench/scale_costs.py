"""What one decision costs its service and its PostgreSQL: the inputs of `scale_simulation.py`.

Costs are processor time, which a busy machine changes less than waiting times. A transaction holds
the heads of its chains while the server computes.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from deciding import asked, small_policy
from table import Table

from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.store.opening import open_store
from demur.store.store import Store

ROOT = Path(__file__).resolve().parents[1]
BATCH, TENANTS = 256, 64
WARMING, FLUSHES = 3, 200
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The seconds of processors that a transaction takes."""

    client: float
    server: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="a server (default: one of our own)")
    parser.add_argument("--records", type=int, default=10_240, help="records of each kind")
    options = parser.parse_args()
    table = Table("what", "measured", "")
    table.row("decide, without a store: CPU", microseconds(decide_cost(options.records)))
    with (
        server(options.postgres) as url,
        open_store(url) as store,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        show_transactions(table, store, watcher, options.records)
    table.row("the disk confirms a write of 8 KB, at least", microseconds(flush_time()))


def show_transactions(
    table: Table, store: Store, watcher: psycopg.Connection, records: int
) -> None:
    """Print what a transaction costs, and what each record and each tenant in it adds."""
    single = measure_transactions(store, watcher, 1, records // 10, tenants=1)
    before = written_bytes(watcher)
    many = measure_transactions(store, watcher, BATCH, records // BATCH, tenants=1)
    wal, kept = (now - then for now, then in zip(written_bytes(watcher), before, strict=True))
    mixed = measure_transactions(store, watcher, BATCH, records // BATCH, tenants=TENANTS)
    for name in Cost._fields:
        one, of_one, of_many = (getattr(cost, name) for cost in (single, many, mixed))
        each = (of_one - one) / (BATCH - 1)
        head = (of_many - of_one) / (TENANTS - 1)
        table.row(f"PostgreSQL, CPU of {name}: a transaction", microseconds(one - each - head))
        table.row("  each tenant in it", microseconds(head))
        table.row("  each record in it", microseconds(each))
    number = records // BATCH * BATCH + WARMING * BATCH
    table.row("PostgreSQL, a record: bytes of the log (WAL)", f"{wal / number:,.0f}")
    table.row("PostgreSQL, a record: bytes kept, with indexes", f"{kept / number:,.0f}")


def flush_time() -> float:
    """Return the shortest time in which this disk confirms a write."""
    taken = []
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        for _ in range(FLUSHES):
            start = time.perf_counter()
            file.write(bytes(8192))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return min(taken)


def decide_cost(decisions: int) -> float:
    """Return the processor time of a decision that is not stored."""
    with Gate(small_policy()) as gate:
        for request in asked(500, TENANTS):
            gate.decide(request)
        waiting = asked(decisions, TENANTS)
        start = time.process_time()
        for request in waiting:
            gate.decide(request)
        return (time.process_time() - start) / decisions


def measure_transactions(
    store: Store, watcher: psycopg.Connection, size: int, number: int, *, tenants: int
) -> Cost:
    """Return what a transaction of `size` records takes, in the mean of `number`."""
    prepared = batches(size, number + WARMING, tenants)
    for batch in prepared[:WARMING]:
        store.put_many(batch)
    client, own = time.process_time(), server_seconds(watcher)
    for batch in prepared[WARMING:]:
        store.put_many(batch)
    client, own = time.process_time() - client, server_seconds(watcher) - own
    return Cost(client / number, own / number)


def batches(size: int, number: int, tenants: int) -> list[Sequence[DecisionRecord]]:
    """Return records that no store holds yet, in groups."""
    with Gate(small_policy()) as gate:
        made = [gate.decide(request) for request in asked(size * number, tenants)]
    return [made[at : at + size] for at in range(0, len(made), size)]


def server_seconds(watcher: psycopg.Connection) -> float:
    """Return the processor time of all processes of the server."""
    [[pid]] = watcher.execute("SELECT pg_backend_pid()").fetchall()
    parent = process_fields(pid)[3]
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = process_fields(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[3] == parent or path.name == parent:
            total += int(fields[13]) + int(fields[14])
    return total / _TICKS


def process_fields(pid: int) -> list[str]:
    """Return the fields of a process that Linux keeps."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    # The name may hold spaces.
    return ["", "", *text.rpartition(")")[2].split()]


def written_bytes(watcher: psycopg.Connection) -> tuple[int, int]:
    """Return the bytes of WAL that were written, and the bytes of the database."""
    watcher.execute("CHECKPOINT")
    [row] = watcher.execute(
        "SELECT (pg_current_wal_lsn() - '0/0')::bigint, pg_database_size(current_database())"
    ).fetchall()
    return int(row[0]), int(row[1])


def microseconds(seconds: float) -> str:
    """Return a time in microseconds."""
    return f"{seconds * 1e6:.0f} µs"


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """Yield the address of a server that syncs its log, by default one that ends with the run."""
    if url is not None:
        yield url
        return
    sys.path.append(str(ROOT / "tests"))
    from support.postgres_server import running_server  # noqa: PLC0415 - found only now

    with running_server("-c", "fsync=on") as started:
        yield started.new_database()


if __name__ == "__main__":
    main()
