"""Clients that connect and say next to nothing do not stop the service."""

import resource
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from support.service_process import folder_of, started

HALF = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@contextmanager
def many_files() -> Iterator[int]:
    """Raise how many files this process may open; yield how many that are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("clients", "room"),
    [
        pytest.param(300, 20_000, id="short"),
        pytest.param(300, 100, id="more than there is room for", marks=pytest.mark.slow),
        pytest.param(10_000, 20_000, id="full", marks=pytest.mark.slow),
        pytest.param(10_000, 2_000, id="full, little room", marks=pytest.mark.slow),
    ],
)
def test_slow_clients_do_not_stop_health(tmp_path: Path, clients: int, room: int) -> None:
    settings = {"head_timeout_s": 300.0, "body_timeout_s": 300.0, "most_connections": room}
    with (
        many_files() as files,
        started(folder_of(tmp_path, **settings)) as process,
        ExitStack() as held,
    ):
        took: list[float] = []
        for number in range(min(clients, files - 500)):
            # Addresses of loopback have ports of their own; one has not enough for many.
            source = (f"127.0.{number // 20_000}.{1 + number % 200}", 0)
            one = held.enter_context(
                socket.create_connection(("127.0.0.1", process.port), 30, source_address=source)
            )
            # Silent, in the middle of a head, and in the middle of a body.
            one.sendall((b"", HALF, HALF + b"content-length: 900\r\n\r\n{")[number % 3])
            if number % 100 == 99:
                took.append(_health(process.url))
        took += [_health(process.url) for _ in range(20)]

    assert statistics.median(took) < 1.0


def _health(url: str) -> float:
    began = time.monotonic()
    assert httpx.get(f"{url}/health", timeout=30).status_code == 200
    return time.monotonic() - began
