"""A process stops in the middle of a write: its locks are taken from it, or others are refused."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.conftest import PATIENCE_S, REQUEST, Report, decide_allowed
from faults.stopping_writer import RECORD
from faults.writer import POLICY
from support.store_records import decision_id, make_record

from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.store import Store
from demur.store.verify import verify_chain

SCRIPT = Path(__file__).with_name("stopping_writer.py")
STEPS = ("lock_heads", "append_rows")


class StoppedWriter:
    """A process that has stopped inside a write; `finish` lets it go on."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1]), *sys.path])},
        )
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), self.process.communicate()

    @property
    def is_stopped(self) -> bool:
        """Whether it has not run since."""
        state = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        return state.rpartition(")")[2].split()[0] == "T"

    def finish(self) -> str:
        """Return what it says about its record."""
        self.process.send_signal(signal.SIGCONT)
        return self.process.communicate(timeout=120)[0].strip()


@contextmanager
def stopped_writer(url: str | Path, *step: str) -> Iterator[StoppedWriter]:
    writer = StoppedWriter(url, *step)
    try:
        yield writer
    finally:
        writer.process.kill()
        writer.process.communicate()


def stored_ids(store: Store) -> list[str]:
    return [record.decision_id for record in store.find_records()]


@pytest.mark.parametrize("step", [*STEPS, "lock_heads older"])
def test_postgresql_frees_the_chain_of_a_writer_that_stopped(
    postgres_url: str, step: str, report_counts: Report
) -> None:
    # Only the server can end the wait: the writer is stopped, and its socket is open.
    with open_store(postgres_url, deadline_s=None, busy_timeout_s=120) as store:
        store.put(make_record(1))
        with stopped_writer(postgres_url, *step.split()) as writer:
            store.put(make_record(2))
            assert writer.is_stopped
            assert writer.finish() == "refused"
        stored = stored_ids(store)
        assert verify_chain(store.backend).holds

    assert RECORD.decision_id not in stored
    report_counts([decision_id(1), decision_id(2)], stored)


@pytest.mark.parametrize("step", STEPS)
def test_sqlite_refuses_until_a_writer_that_stopped_goes_on(
    tmp_path: Path, step: str, report_counts: Report
) -> None:
    path = tmp_path / "demur.db"
    with Gate(parse_policy(POLICY), open_store(path, deadline_s=0.3)) as gate:
        assert gate.store is not None
        first = decide_allowed(gate)
        with stopped_writer(path, step) as writer:
            refused = gate.decide(REQUEST)
            assert writer.is_stopped
            assert writer.finish() == "stored"
        last = decide_allowed(gate)
        stored = stored_ids(gate.store)
        assert verify_chain(gate.store.backend).holds

    assert refused.reason_codes == ("STORAGE_UNAVAILABLE",)
    report_counts([first.decision_id, RECORD.decision_id, last.decision_id], stored)


def test_a_killed_writer_that_had_stopped_leaves_nothing_behind(
    tmp_path: Path, report_counts: Report
) -> None:
    path = tmp_path / "demur.db"
    with open_store(path) as store:
        store.put(make_record(1))
        with stopped_writer(path, "append_rows"):
            pass
        store.put(make_record(2))
        stored = stored_ids(store)
        assert verify_chain(store.backend).holds

    assert stored == [decision_id(1), decision_id(2)]
    report_counts(stored, stored)


class BusyWriter:
    """A process that decides on and on, and what it acknowledged."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, str(SCRIPT.with_name("writer.py")), url, "acme", "normal", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.acknowledged: list[str] = []
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = line.split()
            if line.endswith("\n") and len(found) == 2 and found[0] != "ABSTAIN":
                with self._came:
                    self.acknowledged.append(found[0])
                    self._came.notify_all()

    def await_more(self, count: int) -> None:
        """Wait for so many more decisions."""
        with self._came:
            aim = len(self.acknowledged) + count
            assert self._came.wait_for(lambda: len(self.acknowledged) >= aim, PATIENCE_S)

    def close(self) -> None:
        """Kill it, and read what it still said."""
        self.process.kill()
        self._thread.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, id="short"), pytest.param(12, id="full", marks=pytest.mark.slow)]
)
def test_writers_that_freeze_in_turn_neither_stop_others_nor_lose_anything(
    postgres_url: str, rounds: int, report_counts: Report
) -> None:
    open_store(postgres_url).close()
    writers = [BusyWriter(postgres_url) for _ in range(3)]
    try:
        for writer in writers:
            writer.await_more(1)
        for number in range(rounds):
            frozen = writers[number % 3]
            frozen.process.send_signal(signal.SIGSTOP)
            for writer in writers:
                if writer is not frozen:
                    writer.await_more(5)
            frozen.process.send_signal(signal.SIGCONT)
            frozen.await_more(1)
    finally:
        for writer in writers:
            writer.close()
    with open_store(postgres_url) as store:
        stored = stored_ids(store)
        verification = verify_chain(store.backend)

    assert verification.holds, verification.breaks
    report_counts([one for writer in writers for one in writer.acknowledged], stored)
