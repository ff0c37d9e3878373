"""The file of a store is removed or replaced under a running demur: nothing is allowed then."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from faults.conftest import PATIENCE_S, REQUEST, Report
from faults.writer import POLICY
from support.gates import refund
from support.service_process import Process, folder_of, started

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.verify import verify_chain

if TYPE_CHECKING:
    from demur.model.record import DecisionRecord


def files_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}*"))


def move_files(path: Path, folder: Path) -> None:
    """Move the files of a store, the database first: the rest is of no use without it."""
    folder.mkdir(exist_ok=True)
    for file in files_of(path):
        file.rename(folder / file.name)


class Caller:
    """A thread that decides until it is stopped."""

    def __init__(self, gate: Gate) -> None:
        self.records: list[DecisionRecord] = []
        self._gate = gate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._decide)
        self._thread.start()

    def _decide(self) -> None:
        while not self._stop.is_set():
            self.records.append(self._gate.decide(REQUEST))

    def await_verdict(self, verdict: Verdict) -> None:
        """Wait for ten more decisions with a verdict."""
        start, patience = len(self.records), time.monotonic() + PATIENCE_S
        while sum(record.verdict is verdict for record in self.records[start:]) < 10:
            assert time.monotonic() < patience
            time.sleep(0.005)

    def stop(self) -> None:
        """Let the thread end."""
        self._stop.set()
        self._thread.join(PATIENCE_S)


@contextmanager
def running_caller(path: Path) -> Iterator[Caller]:
    with Gate(parse_policy(POLICY), open_store(path)) as gate:
        caller = Caller(gate)
        try:
            yield caller
        finally:
            caller.stop()


@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="short"), pytest.param(40, id="full", marks=pytest.mark.slow)]
)
def test_files_that_go_away_and_come_back_lose_nothing(
    tmp_path: Path, rounds: int, report_counts: Report
) -> None:
    path, elsewhere = tmp_path / "demur.db", tmp_path / "elsewhere"
    with running_caller(path) as caller:
        for _ in range(rounds):
            caller.await_verdict(Verdict.ALLOW)
            move_files(path, elsewhere)
            caller.await_verdict(Verdict.ABSTAIN)
            assert not path.exists()
            # The database comes last, because its log has to be there when it is opened.
            for file in sorted(elsewhere.iterdir(), reverse=True):
                file.rename(tmp_path / file.name)
        caller.await_verdict(Verdict.ALLOW)
    with open_store(path) as store:
        stored = [record.decision_id for record in store.find_records()]
        verification = verify_chain(store.backend)

    refused = [record for record in caller.records if record.verdict is not Verdict.ALLOW]
    assert {record.reason_codes for record in refused} == {("STORAGE_UNAVAILABLE",)}
    assert verification.holds, verification.breaks
    report_counts([one.decision_id for one in caller.records if one not in refused], stored)


def test_a_store_that_replaces_another_under_a_running_demur_is_not_used(
    tmp_path: Path, report_counts: Report
) -> None:
    path, other, elsewhere = tmp_path / "demur.db", tmp_path / "other.db", tmp_path / "elsewhere"
    open_store(other).close()
    with running_caller(path) as caller:
        caller.await_verdict(Verdict.ALLOW)
        move_files(path, elsewhere)
        other.rename(path)
        caller.await_verdict(Verdict.ABSTAIN)
        caller.stop()
        assert caller.records[-1].verdict is Verdict.ABSTAIN
    with open_store(elsewhere / path.name) as store:
        stored = [record.decision_id for record in store.find_records()]

    allowed = [one.decision_id for one in caller.records if one.verdict is Verdict.ALLOW]
    report_counts(allowed, stored)


def await_status(process: Process, path: str, status: int) -> None:
    """Wait until a path answers with a status."""
    patience = time.monotonic() + PATIENCE_S
    while httpx.get(f"{process.url}{path}", timeout=60).status_code != status:
        assert time.monotonic() < patience
        time.sleep(0.05)


def test_a_service_whose_store_was_removed_neither_decides_nor_is_ready(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with started(folder) as process:

        def decide() -> httpx.Response:
            body = {"request": refund(20)}
            return httpx.post(f"{process.url}/v1/decide", json=body, timeout=60)

        assert decide().status_code == 200
        await_status(process, "/ready", 200)
        move_files(folder / "demur.db", folder / "elsewhere")
        refused = decide()
        await_status(process, "/ready", 503)
        assert not (folder / "demur.db").exists()
        for file in sorted((folder / "elsewhere").iterdir(), reverse=True):
            file.rename(folder / file.name)
        await_status(process, "/ready", 200)
        assert decide().status_code == 200

    assert refused.status_code == 503
    assert refused.json()["code"] == "STORAGE_UNAVAILABLE"
    assert "somebody removed or replaced" in (folder / "stderr.txt").read_text(encoding="utf-8")
