"""Several workers decide into one store, and nothing is lost, refused or decided twice."""

import threading
from collections import Counter
from pathlib import Path

import httpx
import pytest
from support.gates import refund
from support.service_process import folder_of, started

from demur.store.opening import open_store
from demur.store.verify import verify_chain


def decided(url: str, clients: int, each: int) -> list[str]:
    """Return the ids that clients were answered, each asking for the same requests."""
    answered: list[str] = []

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            for number in range(each):
                request = refund(20, request_id=f"r{number}")
                found = http.post("/v1/decide", json={"request": request})
                assert found.status_code == 200, found.text
                answered.append(found.json()["decision_id"])

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered


def checked(folder: Path, store_url: str | Path, each: int) -> None:
    with started(folder, "--workers", 2) as process:
        answered = decided(process.url, 4, each)

    assert len(answered) == 4 * each
    assert set(Counter(answered).values()) == {4}
    with open_store(store_url) as store:
        assert {record.decision_id for record in store.find_records()} == set(answered)
        assert verify_chain(store.backend).holds


def test_workers_share_a_sqlite_file(tmp_path: Path) -> None:
    checked(folder_of(tmp_path), tmp_path / "demur.db", 25)


def test_workers_share_a_postgresql_database(tmp_path: Path, postgres_url: str) -> None:
    folder = folder_of(tmp_path)
    config = folder / "demur.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(f'store = "{postgres_url}"\n{text}', encoding="utf-8")

    checked(folder, postgres_url, 25)


@pytest.mark.slow
def test_workers_share_a_sqlite_file_for_long(tmp_path: Path) -> None:
    checked(folder_of(tmp_path), tmp_path / "demur.db", 1000)
