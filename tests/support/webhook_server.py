"""A webhook that tests can break: it answers what it is told to, and stores what it received."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["SECRET_PATH", "Hook", "RudeHandler", "hook"]

SECRET_PATH = "/services/T000/B000/hush"


class Hook(ThreadingHTTPServer):
    """Answers each request with the next of its answers, and stores what it received."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *answers: int | tuple[int, dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.deliveries: list[tuple[str, bytes]] = []
        self.received = threading.Semaphore(0)
        self.release = threading.Event()

    @property
    def url(self) -> str:
        """The secret address."""
        return f"http://127.0.0.1:{self.server_address[1]}{SECRET_PATH}"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        """Answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.deliveries.append((str(self.headers["Content-Type"]), body))
        self.server.received.release()
        answer = self.server.answers.pop(0) if self.server.answers else 200
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        if status == 0:
            self.server.release.wait(10)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet."""


@contextmanager
def hook(*answers: int | tuple[int, dict[str, str]]) -> Iterator[Hook]:
    """Yield a webhook; 0 as an answer keeps silent, and what is left unsaid is 200."""
    with Hook(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.release.set()
            server.shutdown()
            thread.join()


class RudeHandler(_Handler):
    """Speaks no HTTP."""

    def do_POST(self) -> None:
        """Answer nonsense."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"nonsense\r\n\r\n")
