"""Several processes at one database, and processes that die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.store_records import decision_id

from demur.store.opening import open_store
from demur.store.verify import verify_chain

TESTS = Path(__file__).parents[2]
WRITER = """
import sys
from demur.store.opening import open_store
from support.store_records import make_record

path, start, count, durability = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with open_store(path, durability=durability) as store:
    for number in range(start, start + count):
        record = make_record(number, tenant=f"t{number % 2}", request_id=f"r-{number % 1000}")
        stored = store.put(record)
        print(stored.record.decision_id, stored.duplicate, flush=True)
"""
OPENER = """
import sys, time
from demur.store.opening import open_store

start = float(sys.argv[2])
while time.monotonic() < start:
    pass
open_store(sys.argv[1]).close()
"""


def begin(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Return what processes printed; none of them may have failed."""
    answers = [process.communicate(timeout=60) for process in processes]
    assert [error for _, error in answers] == [""] * len(processes)
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [out for out, _ in answers]


def test_a_fresh_database_can_be_opened_by_many_at_once(path: Path) -> None:
    for attempt in range(2):
        fresh = path.with_name(f"fresh-{attempt}.db")
        start = time.monotonic() + 0.7
        ended([begin(OPENER, fresh, start) for _ in range(4)])
        with open_store(fresh) as store:
            assert store.count_rows()["records"] == 0


def test_four_processes_write_one_chain(path: Path) -> None:
    count = 40
    texts = ended([begin(WRITER, path, n * 1000, count, "normal") for n in range(4)])
    lines = [line.split() for text in texts for line in text.splitlines()]

    with open_store(path) as store:
        stored = {record.decision_id for record in store.find_records()}
        assert {name for name, _ in lines} == stored
        assert len(lines) == 4 * count
        assert [duplicate for _, duplicate in lines].count("False") == len(stored) == count
        assert verify_chain(store.backend).records == count
        assert verify_chain(store.backend).holds


@pytest.mark.parametrize("after", [1, 7])
def test_a_killed_writer_loses_nothing_that_it_confirmed(path: Path, after: int) -> None:
    writer = begin(WRITER, path, 0, 1000, "full")
    assert writer.stdout is not None
    confirmed = [writer.stdout.readline().split()[0] for _ in range(after)]
    os.kill(writer.pid, signal.SIGKILL)
    # `communicate` would drop the lines that `readline` has read ahead.
    with writer:
        rest = writer.stdout.read()
    confirmed += [line.split()[0] for line in rest.splitlines() if len(line.split()) == 2]

    with open_store(path) as store:
        stored = [record.decision_id for record in store.find_records()]
        assert stored[: len(confirmed)] == confirmed
        assert len(stored) - len(confirmed) <= 1
        assert verify_chain(store.backend).holds
        number = len(stored)
        assert stored == [decision_id(n) for n in range(number)]
