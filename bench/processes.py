"""Processes of their own: several that write one SQLite file, and one that decides for long."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deciding import TENANTS, asked, small_policy
from peers import Lumyn, have
from table import Table
from workload import rules

from demur.gate.gate import Gate
from demur.store.opening import open_store
from demur.store.sqlite import Durability

__all__ = ["memory", "processes"]

_PROCESSES = 4
_BY_PROCESS = 500
_BATCH = 100


def processes(table: Table, folder: Path) -> None:
    """Measure processes that write one file, which none of them found there."""
    theirs = raced(folder / "lumyn-many", lumyn_process) if have("lumyn") else None
    for durability, work in (("normal", normal_process), ("full", full_process)):
        path = folder / f"many-{durability}.db"
        found = raced(path, work)
        with open_store(path) as store:
            stored = {record.decision_id for record in store.find_records()}
        if set(found.ids) != stored or found.abstained:
            sys.exit(
                f"{len(found.ids)} ids were returned, {len(stored)} are stored, "
                f"{found.abstained} decisions were ABSTAIN"
            )
        beside = theirs if durability == "normal" else None
        table.row(
            f"SQLite {durability}, {_PROCESSES} processes, one fresh file"
            + (", against lumyn" if beside else ""),
            f"{found.rate:,.0f}/s",
            f"{beside.rate:,.0f}/s" if beside else "",
            ratio=found.rate / beside.rate if beside else None,
            at_least=6 if beside else None,
        )
        table.row("  ids returned = ids stored, ABSTAIN", f"{len(stored):,}", f"{found.abstained}")


class Raced:
    """What processes that wrote together report."""

    def __init__(self, reports: list[tuple[float, float, list[str], int]]) -> None:
        began, ended = min(r[0] for r in reports), max(r[1] for r in reports)
        self.ids = [one for report in reports for one in report[2]]
        self.abstained = sum(report[3] for report in reports)
        self.rate = len(self.ids) / (ended - began)


def raced(path: Path, work: Callable[..., None]) -> Raced:
    """Run a worker in several processes that begin at the same moment."""
    context = multiprocessing.get_context("spawn")
    start, reports = context.Barrier(_PROCESSES), context.SimpleQueue()
    workers = [context.Process(target=work, args=(path, start, reports)) for _ in range(_PROCESSES)]
    for worker in workers:
        worker.start()
    gathered = [reports.get() for _ in workers]
    for worker in workers:
        worker.join()
    return Raced(gathered)


def normal_process(path: Path, start: Any, reports: Any) -> None:
    """Decide in a process of its own, durable as the peer is."""
    _process(path, start, reports, "normal")


def full_process(path: Path, start: Any, reports: Any) -> None:
    """Decide in a process of its own, durable against a power cut."""
    _process(path, start, reports, "full")


def _process(path: Path, start: Any, reports: Any, durability: Durability) -> None:
    policy, waiting = small_policy(), asked(_BY_PROCESS)
    start.wait()
    began = time.monotonic()
    with Gate(policy, open_store(path, durability=durability)) as gate:
        made = [gate.decide(request) for request in waiting]
        ended = time.monotonic()
    abstained = sum(record.verdict == "ABSTAIN" for record in made)
    reports.put((began, ended, [record.decision_id for record in made], abstained))


def lumyn_process(path: Path, start: Any, reports: Any) -> None:
    """Let the peer decide in a process of its own."""
    lumyn, waiting = Lumyn(rules(10), path), asked(_BY_PROCESS)
    start.wait()
    began = time.monotonic()
    made = [lumyn.reused(request) for request in waiting]
    ended = time.monotonic()
    abstained = sum(record["verdict"] == "ABSTAIN" for record in made)
    reports.put((began, ended, [record["decision_id"] for record in made], abstained))


def memory(table: Table, folder: Path, decisions: int) -> None:
    """Measure the resident memory of a process that decides for a long time."""
    context = multiprocessing.get_context("spawn")
    for name, path in (("no store", None), ("SQLite normal", folder / "memory.db")):
        reports = context.SimpleQueue()
        worker = context.Process(target=long_running, args=(path, decisions, reports))
        worker.start()
        early, late = reports.get()
        worker.join()
        table.row(
            f"resident memory after {decisions:,} decisions, {name}, against 10 %",
            f"{late / 2**20:.1f} MiB",
            f"{early / 2**20:.1f} MiB",
            ratio=late / early,
            at_most=1.1,
        )


def long_running(path: Path | None, decisions: int, reports: Any) -> None:
    """Decide, and report the resident memory after a tenth and at the end."""
    sizes = []
    with Gate(
        small_policy(), None if path is None else open_store(path, durability="normal")
    ) as gate:
        for _ in range(10):
            for _ in range(decisions // 10 // _BATCH):
                for request in asked(_BATCH, TENANTS):
                    gate.decide(request)
            sizes.append(resident())
    reports.put((sizes[0], sizes[-1]))


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
