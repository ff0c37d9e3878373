"""Killed under load: every decision that was acknowledged is there, and the chain verifies."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.conftest import Report

from demur.store.opening import open_store
from demur.store.verify import verify_chain

WRITER = Path(__file__).with_name("writer.py")
Writer = subprocess.Popen[str]


def start(
    url: Path | str, *, tenant: str = "acme", durability: str = "full", most: int = 0
) -> Writer:
    """Start a process that decides until it is killed, or `most` times."""
    command = [sys.executable, str(WRITER), str(url), tenant, durability, str(most)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: Writer) -> list[str]:
    """Return the ids that a process acknowledged before it ended."""
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    process.wait()
    # A line that was cut off in the middle was not said.
    return [line.split()[0] for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(50, id="full", marks=pytest.mark.slow)]
)
def test_records_acknowledged_before_a_kill_are_stored(
    tmp_path: Path, rounds: int, report_counts: Report
) -> None:
    path = tmp_path / "demur.db"
    acknowledged: list[str] = []
    for number in range(rounds):
        process = start(path)
        assert process.stdout is not None
        # On a busy machine the sleep alone may end before the first decision.
        first = process.stdout.readline()
        time.sleep((number * 37 % 100) / 400)
        process.send_signal(signal.SIGKILL)
        acknowledged += [first.split()[0], *finish(process)]

    with open_store(path) as store:
        stored = [record.decision_id for record in store.find_records()]
        verification = verify_chain(store.backend)

    assert len(acknowledged) >= rounds
    assert verification.holds, verification.breaks
    report_counts(acknowledged, stored)


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, id="short"), pytest.param(10, id="full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_four_writers_killed_at_once_lose_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, rounds: int, report_counts: Report
) -> None:
    postgres = kind == "postgresql"
    url = request.getfixturevalue("postgres_url") if postgres else tmp_path / "demur.db"
    acknowledged: list[str] = []
    for _ in range(rounds):
        processes = [start(url) for _ in range(4)]
        for process in processes:
            assert process.stdout is not None
            acknowledged.append(process.stdout.readline().split()[0])
        for process in processes:
            process.send_signal(signal.SIGKILL)
        acknowledged += [one for process in processes for one in finish(process)]
    with open_store(url) as store:
        stored = [record.decision_id for record in store.find_records()]
        verification = verify_chain(store.backend)

    assert "ABSTAIN" not in acknowledged
    assert verification.holds, verification.breaks
    report_counts(acknowledged, stored)


@pytest.mark.parametrize(
    "most", [pytest.param(50, id="short"), pytest.param(2000, id="full", marks=pytest.mark.slow)]
)
def test_four_processes_lose_nothing_and_refuse_nothing(tmp_path: Path, most: int) -> None:
    path = tmp_path / "demur.db"
    processes = [start(path, durability="normal", most=most) for _ in range(4)]
    returned = [one for process in processes for one in finish(process)]

    with open_store(path) as store:
        stored = {record.decision_id for record in store.find_records()}
        verification = verify_chain(store.backend)

    assert "ABSTAIN" not in returned
    assert len(returned) == 4 * most
    assert stored == set(returned)
    assert verification.holds, verification.breaks


def test_heads_kept_elsewhere_show_records_lost_with_a_damaged_log(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    process = start(path)
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    finish(process)
    copies = tmp_path / "copies"
    copies.mkdir()
    for file in (path, Path(f"{path}-wal")):
        shutil.copy(file, copies)
    with open_store(copies / path.name) as store:
        heads = store.list_heads()
        whole = verify_chain(store.backend, heads=heads)
    log = Path(f"{path}-wal")
    damaged = bytearray(log.read_bytes())
    damaged[-3000] ^= 1
    log.write_bytes(damaged)

    # SQLite drops the log from the damaged place on, and the shorter chain has no break.
    with open_store(path) as store:
        alone, beside = verify_chain(store.backend), verify_chain(store.backend, heads=heads)

    assert whole.holds
    assert alone.records < whole.records
    assert alone.holds
    assert not beside.holds
