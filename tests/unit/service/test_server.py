import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gates import gate_over, refund
from support.service_process import Listening, folder_of, listening, send_raw, started

from demur.errors import InputError
from demur.listener import listener_url
from demur.service.app import build_app
from demur.service.server import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    ApiServer,
    BoundedProtocol,
    bind_listener,
    connection_limit,
    serve,
)
from demur.service.service import Service
from demur.service.settings import ServiceSettings


def test_an_address_in_use_is_an_error_with_a_remedy() -> None:
    with bind_listener(ServiceSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            bind_listener(ServiceSettings(port=port))

    assert caught.value.where == f"127.0.0.1:{port}"
    assert "--port" in str(caught.value.help)


def test_an_unknown_host_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot listen"):
        bind_listener(ServiceSettings(host="nowhere.invalid"))


def test_an_address_is_shown_as_browsers_take_it() -> None:
    with bind_listener(ServiceSettings(port=0)) as listener:
        assert listener_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    if socket.has_ipv6:
        with bind_listener(ServiceSettings(host="::1", port=0)) as listener:
            assert listener_url(listener).startswith("http://[::1]:")


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "kept"),
    [
        (1024, 4096, 20_000, 3840),
        (1024, -1, 20_000, 20_000),
        (-1, -1, 20_000, 20_000),
        (10_000, 10_000, 100, 100),
        (100, 100, 50, 1),
    ],
)
def test_as_many_connections_as_there_may_be_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, kept: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)

    assert connection_limit(ServiceSettings(most_connections=wanted)) == kept


def test_other_systems_have_no_such_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")

    assert connection_limit(ServiceSettings(most_connections=7)) == 7


def test_a_service_in_a_thread_decides_over_a_real_socket() -> None:
    with listening() as running, httpx.Client(base_url=f"http://127.0.0.1:{running.port}") as http:
        answered = http.post("/v1/decide", json={"request": refund(500)})

        assert answered.json()["verdict"] == "ESCALATE"
        assert "date" in answered.headers


def test_a_stopping_service_reports_not_ready_before_it_ends() -> None:
    service = Service(gate_over(None))
    settings = ServiceSettings(port=0, drain_s=0.6)
    ready = threading.Event()
    with bind_listener(settings) as listener:
        server = ApiServer(build_app(service), settings, listener, lambda _: ready.set())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert ready.wait(30)
        url = listener_url(listener)
        assert httpx.get(f"{url}/ready").status_code == 200
        server.handle_exit(signal.SIGTERM, None)
        assert httpx.get(f"{url}/ready").status_code == 503
        assert httpx.get(f"{url}/health").status_code == 200
        thread.join(30)

    assert not thread.is_alive()
    assert service.closing


def test_a_second_word_ends_it_at_once() -> None:
    service = Service(gate_over(None))
    settings = ServiceSettings(port=0, drain_s=60.0)
    with bind_listener(settings) as listener:
        server = ApiServer(build_app(service), settings, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        server.stop()
        assert not server.should_exit
        server.stop()
        thread.join(30)
    service.close()

    assert server.force_exit
    assert not thread.is_alive()


def test_signals_reach_the_server_and_are_spent() -> None:
    service, settings = Service(gate_over(None)), ServiceSettings(port=0)
    before = signal.getsignal(signal.SIGTERM)
    told: list[str] = []

    def tell(url: str) -> None:
        told.append(url)
        signal.raise_signal(signal.SIGINT)

    serve(build_app(service), settings, on_started=tell)

    assert len(told) == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_started_request_is_finished_and_stored(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, drain_s=0.2, grace_s=10)
    with started(folder) as process:
        head = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        body = b'{"request": {"action": {"type": "x"}}}'
        with socket.create_connection(("127.0.0.1", process.port), timeout=20) as connection:
            connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:10])
            time.sleep(0.2)
            process.tell(signal.SIGTERM)
            time.sleep(0.6)
            with pytest.raises(OSError, match=r"refused|reset"):
                socket.create_connection(("127.0.0.1", process.port), timeout=5).recv(1)
            connection.sendall(body[10:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")

        assert process.wait() == 0


GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
CLOSE = b"connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Listening]:
    with listening(head_timeout_s=0.4, keep_alive_s=0.4, body_timeout_s=0.4) as running:
        yield running


def test_a_call_is_answered_over_a_real_socket(service: Listening) -> None:
    answered = send_raw(service.port, GET + CLOSE)

    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answered.endswith(b'"}')


def test_calls_in_one_go_are_answered_in_order(service: Listening) -> None:
    answered = send_raw(service.port, (GET + b"\r\n") * 3 + GET + CLOSE)

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
def test_a_malformed_http_request_is_a_problem_with_a_code(
    service: Listening, sent: bytes, status: int
) -> None:
    answered = send_raw(service.port, sent)

    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert b'"code":"REQUEST_INVALID"' in answered
    assert b"content-type: application/problem+json\r\n" in answered
    assert b"connection: close\r\n" in answered
    assert b"nosniff" in answered


def test_a_head_without_an_end_is_cut_off(service: Listening) -> None:
    answered = send_raw(service.port, GET + b"x: ", *[b"a" * 30_000] * 5, pause_s=0.02)

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
    answered = send_raw(service.port, *sent, pause_s=0.05)

    assert b"<still open>" not in answered
    assert time.monotonic() - began < 5


def test_a_trickling_body_times_out(service: Listening) -> None:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n"
    )
    answered = send_raw(service.port, head, *[b" "] * 20, pause_s=0.05)

    assert answered.startswith(b"HTTP/1.1 408 ")


def test_a_body_in_chunks_is_read(service: Listening) -> None:
    body = b'{"request": {"action": {"type": "x"}}}'
    sent = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        + b"0\r\n\r\n"
    )

    assert send_raw(service.port, sent).startswith(b"HTTP/1.1 200 ")


def test_a_stream_is_answered_while_it_is_sent(service: Listening) -> None:
    head = (
        b"POST /v1/enforce/answer/stream HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    )

    def chunk(line: bytes) -> bytes:
        return b"%x\r\n%s\n\r\n" % (len(line) + 1, line)

    sentence = b'{"text": "The shop opens at nine and closes at five. "}'
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        connection.sendall(head + chunk(b"{}"))
        answered = b""
        for _ in range(40):
            connection.sendall(chunk(sentence))
        while b"event: text" not in answered:
            answered += connection.recv(65536)
        assert b"event: result" not in answered
        connection.sendall(b"0\r\n\r\n")
        while got := connection.recv(65536):
            answered += got

    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answered.count(b"opens at nine") == 40
    assert answered.count(b"event: result") == 1


def test_a_client_that_still_sends_gets_the_refusal_of_its_stream(service: Listening) -> None:
    head = (
        b"POST /v1/enforce/answer/stream HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    lines = b"{}\n" + b'{"text": "Use the key AKIAQ3EGX7PLM2NV4KTS for now. "}\n' * 40
    more = b"80000\r\n" + b"x" * 0x80000 + b"\r\n0\r\n\r\n"
    answered = send_raw(service.port, head + b"%x\r\n%s\r\n" % (len(lines), lines), more)

    assert b"SECRET_LEAK" in answered
    assert answered.count(b"event: result") == 1
    assert b"<reset>" not in answered


def test_a_body_without_an_end_is_cut_off(service: Listening) -> None:
    head = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    answered = send_raw(service.port, head, *[b"40000\r\n" + b"x" * 0x40000 + b"\r\n"] * 8)

    assert answered.startswith(b"HTTP/1.1 413 ") or answered == b"<reset>"


def test_a_client_that_does_not_read_is_disconnected(service: Listening) -> None:
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


def test_a_client_that_reads_late_gets_every_response(service: Listening) -> None:
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
            assert send_raw(running.port, GET + CLOSE).startswith(b"HTTP/1.1 200 ")
        kept = len(running.server.server_state.connections)
        assert is_closed(silent[0])
        assert not is_closed(silent[-1])
        for one in silent:
            one.close()

    assert kept <= 5
