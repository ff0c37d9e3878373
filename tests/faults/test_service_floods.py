"""Strangers who knock and logs that are large do not stop deciding, nor the end."""

import gzip
import signal
import statistics
import threading
import time
from base64 import b32encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

import httpx
import pytest
from support.gates import refund
from support.service_app import add_key
from support.service_process import Process, folder_of, started

from demur.store.opening import open_store

UPLOAD = {"content-type": "multipart/form-data; boundary=edge", "accept": "text/html"}


@contextmanager
def meanwhile(
    clients: int, work: Callable[[httpx.Client, int], object], url: str
) -> Iterator[None]:
    """Have clients do something over and over."""
    stop = threading.Event()

    def one(number: int) -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            while not stop.is_set():
                try:
                    work(http, number)
                except httpx.HTTPError:
                    time.sleep(0.05)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(90)


def decided(process: Process, key: str | None, times: int, others: Sequence[object]) -> int:
    """Return how many answers `others` got during a decision, as a median.

    Answers are counted instead of seconds, because a busy machine slows everyone down.
    """
    answers = []
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=process.url, timeout=300, headers=headers) as http:
        for number in range(times):
            before = len(others)
            # A request id has the store read, and a new connection the door asked.
            request = refund(20, request_id=f"flood-{number}")
            assert http.post("/v1/decide", json={"request": request}).status_code == 200
            answers.append(len(others) - before)
            time.sleep(0.05)
    return statistics.median_high(answers)


def long_log() -> bytes:
    """Return a form with a log that takes a minute to count, and is small when it is packed."""
    lines = b"".join(b"REFUSED: ZZ_%08X: x\n" % number for number in range(200_000))
    packed = gzip.compress(lines, 1)
    head = b'--edge\r\nContent-Disposition: form-data; name="log"; filename="a.gz"\r\n\r\n'
    # Gzip members one after the other are one file.
    return head + packed * 60 + b"\r\n--edge--\r\n"


@pytest.mark.parametrize(
    "clients", [pytest.param(40, id="short"), pytest.param(200, id="full", marks=pytest.mark.slow)]
)
def test_invented_keys_at_the_login_do_not_stop_decisions(tmp_path: Path, clients: int) -> None:
    folder = folder_of(tmp_path)
    with open_store(folder / "demur.db") as store:
        key = add_key(store, "acme")
    numbers = count()
    statuses: list[int] = []

    def knock(http: httpx.Client, _: int) -> None:
        made_up = b32encode(sha256(b"%d" % next(numbers)).digest()).decode().lower().rstrip("=")
        answered = http.post("/login", data={"key": f"demur_aaaaaaaa_{made_up}"})
        statuses.append(answered.status_code)

    with started(folder) as process, meanwhile(clients, knock, process.url):
        overtaken = decided(process, key, 20, statuses)
        in_time = httpx.post(f"{process.url}/login", data={"key": key}, timeout=300)

    assert set(statuses) <= {401, 429}
    # A decision takes a few turns, and each client may be answered once in each of them.
    assert overtaken < 25 * clients
    assert in_time.status_code == 303


def test_slow_log_scans_do_not_stop_decisions_and_time_out(tmp_path: Path) -> None:
    body = long_log()
    answered: list[int] = []

    def upload(http: httpx.Client, _: int) -> None:
        answered.append(http.post("/triage", content=body, headers=UPLOAD).status_code)

    with (
        started(folder_of(tmp_path, timeout_s=2.0)) as process,
        meanwhile(4, upload, process.url),
    ):
        overtaken = decided(process, None, 25, answered)

    assert overtaken < 4
    assert set(answered) == {503}


def test_a_log_that_takes_long_does_not_put_off_the_end(tmp_path: Path) -> None:
    body = long_log()
    folder = folder_of(tmp_path, drain_s=0.0, grace_s=0.5, timeout_s=120.0)

    answered: list[int] = []

    def upload(http: httpx.Client, _: int) -> None:
        answered.append(http.post("/triage", content=body, headers=UPLOAD).status_code)

    with started(folder) as process, meanwhile(3, upload, process.url):
        process.tell(signal.SIGTERM)
        assert process.wait() == 0

    # The end did not wait until a log was counted.
    assert 200 not in answered
