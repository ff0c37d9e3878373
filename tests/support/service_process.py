"""Services that really listen: in a thread of the test, or as processes of their own."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from demur.service.app import build_app
from demur.service.server import ApiServer, bind_listener
from demur.service.service import Service
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store
from support.gates import TEXT, gate_over

__all__ = ["Listening", "Process", "folder_of", "listening", "send_raw", "started"]

_PATIENCE_S = 60
# The command line, run by this interpreter.
_COMMAND = """
import sys
from demur.cli.main import main
sys.exit(main())
"""


class Listening(NamedTuple):
    """A service that listens in a thread."""

    port: int
    service: Service
    server: ApiServer


@contextmanager
def listening(**settings: Any) -> Iterator[Listening]:
    """Yield a service that listens on a free port of this machine, and end it."""
    chosen = ServiceSettings(port=0, drain_s=0.0, **settings)
    ready = threading.Event()
    with gate_over(open_store(":memory:")) as gate, bind_listener(chosen) as listener:
        service = Service(gate, chosen)
        server = ApiServer(build_app(service), chosen, listener, lambda _: ready.set())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert ready.wait(_PATIENCE_S)
            yield Listening(listener.getsockname()[1], service, server)
        finally:
            server.stop()
            thread.join(_PATIENCE_S)
            assert not thread.is_alive()


def send_raw(port: int, *parts: bytes, pause_s: float = 0.0, wait_s: float = 10.0) -> bytes:
    """Return everything that is answered to some bytes, until the other side closes or waits."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause_s)
        except OSError:
            pass  # it was closed on us; what was said before counts
        answered = b""
        try:
            while got := connection.recv(65536):
                answered += got
        except TimeoutError:
            answered += b"<still open>"
        except ConnectionError:
            answered += b"<reset>"
        return answered


class Process:
    """A process that serves."""

    def __init__(self, folder: Path, *words: object, **environment: str) -> None:
        command = [sys.executable, "-c", _COMMAND, "serve", "--json", *map(str, words)]
        self._errors = (folder / "stderr.txt").open("wb")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], _PATIENCE_S)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            self.close()
            raise AssertionError((folder / "stderr.txt").read_text())
        self.url: str = json.loads(line)["url"]
        self.port = int(self.url.rpartition(":")[2])

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return how it ended."""
        return self.process.wait(_PATIENCE_S)

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


def folder_of(path: Path, **settings: Any) -> Path:
    """Return a working folder with a policy and settings; keywords are the service's own."""
    path.mkdir(exist_ok=True)
    (path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    # A busy machine is no outage of the store.
    text = "\n".join(["deadline_s = 120.0", "[service]", *lines, ""])
    (path / "demur.toml").write_text(text, encoding="utf-8")
    return path


@contextmanager
def started(folder: Path, *words: object, **environment: str) -> Iterator[Process]:
    """Yield a process that serves a folder on a free port, and end it."""
    process = Process(folder, "--port", "0", *words, **environment)
    try:
        yield process
    finally:
        process.close()
