import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from listening import Listening, listening, talk

from demur.service.protocol import MAX_HEAD_BYTES, MAX_HEADERS, BoundedProtocol

GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
CLOSE = b"connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Listening]:
    with listening(head_timeout_s=0.4, keep_alive_s=0.4, body_timeout_s=0.4) as running:
        yield running


def test_a_call_is_answered_over_a_real_socket(service: Listening) -> None:
    answered = talk(service.port, GET + CLOSE)

    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answered.endswith(b'"}')


def test_calls_in_one_go_are_answered_in_order(service: Listening) -> None:
    answered = talk(service.port, (GET + b"\r\n") * 3 + GET + CLOSE)

    assert answered.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (GET + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", 400),
        (GET + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", 400),
        (GET + b"x: a\0b\r\n\r\n", 400),
        (GET + b"x: " + b"a" * (MAX_HEAD_BYTES + 10) + b"\r\n\r\n", 431),
        (GET + b"x: a\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431),
        (b"GET /" + b"a" * (MAX_HEAD_BYTES + 10) + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_what_is_no_call_is_a_problem_with_a_code(
    service: Listening, sent: bytes, status: int
) -> None:
    answered = talk(service.port, sent)

    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert b'"code":"REQUEST_INVALID"' in answered
    assert b"content-type: application/problem+json\r\n" in answered
    assert b"connection: close\r\n" in answered
    assert b"nosniff" in answered


def test_a_head_without_an_end_is_cut_off(service: Listening) -> None:
    answered = talk(service.port, GET + b"x: ", *[b"a" * 30_000] * 5, pause_s=0.02)

    assert answered.startswith(b"HTTP/1.1 431 ") or answered == b"<reset>"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((), id="nothing"),
        pytest.param((b"GET /hea",), id="half a head"),
        pytest.param(tuple(b"x: y\r\n" for _ in range(20)), id="a head in drops"),
        pytest.param(tuple(b"\r\n" for _ in range(20)), id="empty lines"),
        pytest.param((GET + b"\r\n", *(b"\r\n" for _ in range(20))), id="empty lines after a call"),
        pytest.param((GET + b"\r\n",), id="nothing after a call"),
        pytest.param((GET + b"\r\n", b"GET /"), id="half a head after a call"),
    ],
)
def test_nobody_keeps_a_connection_by_saying_little(
    service: Listening, sent: tuple[bytes, ...]
) -> None:
    began = time.monotonic()
    answered = talk(service.port, *sent, pause_s=0.05)

    assert b"<still open>" not in answered
    assert time.monotonic() - began < 5


def test_a_body_in_drops_is_given_up(service: Listening) -> None:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n"
    )
    answered = talk(service.port, head, *[b" "] * 20, pause_s=0.05)

    assert answered.startswith(b"HTTP/1.1 408 ")


def test_a_body_in_chunks_is_read(service: Listening) -> None:
    body = b'{"request": {"action": {"type": "x"}}}'
    sent = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        + b"0\r\n\r\n"
    )

    assert talk(service.port, sent).startswith(b"HTTP/1.1 200 ")


def test_a_body_without_an_end_is_cut_off(service: Listening) -> None:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    answered = talk(service.port, head, *[b"40000\r\n" + b"x" * 0x40000 + b"\r\n"] * 8)

    assert answered.startswith(b"HTTP/1.1 413 ") or answered == b"<reset>"


def test_whoever_does_not_listen_is_let_go(service: Listening) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect(("127.0.0.1", service.port))
        connection.settimeout(5)
        call = b"GET /v1/codes HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for _ in range(100):
            connection.sendall(call)
        patience = time.monotonic() + 10
        while service.server.server_state.connections and time.monotonic() < patience:
            time.sleep(0.05)

        assert not service.server.server_state.connections


def test_whoever_listens_late_gets_everything(service: Listening) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        calls = 60
        connection.sendall(b"GET /v1/codes HTTP/1.1\r\nhost: localhost\r\n\r\n" * calls)
        time.sleep(0.2)
        answered = b""
        while answered.count(b"HTTP/1.1 200 OK") < calls or not answered.endswith(b"}"):
            got = connection.recv(65536)
            assert got
            answered += got


@pytest.mark.parametrize(("left", "hung_up"), [(0, False), (9, True)])
def test_an_idle_connection_ends_also_if_its_answer_was_not_read(left: int, hung_up: bool) -> None:
    told: list[str] = []

    class Transport:
        def get_write_buffer_size(self) -> int:
            """Return what was not read."""
            return left

        def is_closing(self) -> bool:
            """Say no."""
            return False

        def close(self) -> None:
            """Note it."""
            told.append("closed")

    class Idle(BoundedProtocol):
        def __init__(self) -> None:
            self.transport: Any = Transport()

        def hang_up(self) -> None:
            """Note it."""
            told.append("hung up")

    Idle().timeout_keep_alive_handler()

    assert told == ["hung up" if hung_up else "closed"]


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.5)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_the_one_that_was_silent_for_longest_makes_room() -> None:
    with listening(most_connections=5, head_timeout_s=30.0) as running:
        silent = []
        for _ in range(12):
            silent.append(socket.create_connection(("127.0.0.1", running.port), timeout=5))
            assert talk(running.port, GET + CLOSE).startswith(b"HTTP/1.1 200 ")
        kept = len(running.server.server_state.connections)
        assert is_closed(silent[0])
        assert not is_closed(silent[-1])
        for one in silent:
            one.close()

    assert kept <= 5
