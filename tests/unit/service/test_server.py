import resource
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
from gates import gate_over, refund
from listening import folder_of, listening, started

from demur.errors import InputError
from demur.listener import listener_url
from demur.service.app import build_app
from demur.service.server import ApiServer, bind_listener, connection_limit, serve
from demur.service.service import Service
from demur.service.settings import ServiceSettings


def test_an_address_that_is_taken_is_told_with_a_way_out() -> None:
    with bind_listener(ServiceSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            bind_listener(ServiceSettings(port=port))

    assert caught.value.where == f"127.0.0.1:{port}"
    assert "--port" in str(caught.value.help)


def test_a_host_that_is_nowhere_is_told() -> None:
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


def test_a_service_that_is_told_to_stop_says_so_first_and_then_ends() -> None:
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


def test_what_was_begun_is_finished_and_kept(tmp_path: Path) -> None:
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
