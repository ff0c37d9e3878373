"""Killed or stopped under HTTP load: every decision that was answered is there."""

import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from support.gates import refund
from support.service_process import Process, folder_of, started

from demur.store.opening import open_store
from demur.store.verify import verify_chain

CLIENTS = 8


class Load:
    """Clients that decide until the service is gone, and note what they were answered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered: list[str] = []
        self.refused: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._decide) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _decide(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as http:
            while not self._stop.is_set():
                try:
                    answered = http.post("/v1/decide", json={"request": refund(20)})
                except httpx.HTTPError:
                    return
                if answered.status_code == 200:
                    self.answered.append(answered.json()["decision_id"])
                else:
                    self.refused.append(answered.status_code)

    def join(self) -> None:
        """Wait for all clients to notice."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def burdened(process: Process, decisions: int) -> Load:
    """Return the load once so many decisions were answered."""
    load = Load(process.url)
    patience = time.monotonic() + 60
    while len(load.answered) < decisions:
        assert time.monotonic() < patience
        time.sleep(0.005)
    return load


def kept(folder: Path, answered: list[str]) -> None:
    """Check that everything that was answered is stored, and the chain holds."""
    with open_store(folder / "demur.db") as store:
        missing = [one for one in answered if store.get(one) is None]
        verification = verify_chain(store.backend)

    assert missing == []
    assert len(set(answered)) == len(answered)
    assert verification.holds, verification.breaks
    assert verification.records >= len(answered)


@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="short"), pytest.param(30, id="full", marks=pytest.mark.slow)]
)
def test_a_killed_service_keeps_what_it_answered(tmp_path: Path, rounds: int) -> None:
    folder = folder_of(tmp_path)
    answered: list[str] = []
    for number in range(rounds):
        with started(folder) as process:
            load = burdened(process, 40 + number * 13 % 50)
            process.tell(signal.SIGKILL)
            load.join()
            answered += load.answered

    kept(folder, answered)


@pytest.mark.slow
def test_killed_workers_keep_what_they_answered(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with started(folder, "--workers", 3) as process:
        load = burdened(process, 200)
        process.tell(signal.SIGKILL)
        load.join()

    kept(folder, load.answered)


def test_a_stopping_service_answers_every_accepted_request(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, drain_s=0.2)
    with started(folder) as process:
        load = burdened(process, 50)
        process.tell(signal.SIGTERM)
        assert process.wait() == 0
        load.join()

    assert load.refused == []
    kept(folder, load.answered)
    with open_store(folder / "demur.db") as store:
        assert sum(1 for _ in store.find_records()) == len(load.answered)


def test_a_second_signal_stops_at_once_and_loses_nothing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, drain_s=60)
    with started(folder) as process:
        load = burdened(process, 50)
        process.tell(signal.SIGTERM)
        time.sleep(0.2)
        began = time.monotonic()
        process.tell(signal.SIGTERM)
        process.wait()
        took = time.monotonic() - began
        load.join()

    assert took < 20
    kept(folder, load.answered)
