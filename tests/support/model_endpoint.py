"""A server that speaks like a model: it sends the replies that a test sets, and keeps requests."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

__all__ = [
    "EndpointRequest",
    "ModelEndpoint",
    "RawReply",
    "chat_reply",
    "llama_guard_reply",
    "model_endpoint",
]

# A JSON reply, or a status with headers and a body.
Reply = Any
Answer = Callable[["EndpointRequest"], Reply]


class EndpointRequest(NamedTuple):
    """What an endpoint was asked."""

    path: str
    headers: Mapping[str, str]
    body: Any


class RawReply(NamedTuple):
    """A reply that is not 200 with JSON; status 0 keeps silent, and -1 breaks the connection."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class ModelEndpoint(ThreadingHTTPServer):
    """Answers each request, and keeps it."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _EndpointHandler)
        self.answer = answer
        self.requests: list[EndpointRequest] = []
        self.connections = 0
        self.release = threading.Event()

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _EndpointHandler(BaseHTTPRequestHandler):
    server: ModelEndpoint
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; without this, the second waits for an acknowledgement.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        """Answer."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        names = {name.lower(): value for name, value in self.headers.items()}
        request = EndpointRequest(self.path, names, json.loads(raw))
        self.server.requests.append(request)
        reply = self.server.answer(request)
        if not isinstance(reply, RawReply):
            reply = RawReply(200, json.dumps(reply).encode())
        if reply.status == 0:
            self.server.release.wait(30)
        if reply.status <= 0:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet."""


@contextmanager
def model_endpoint(answer: Answer | Reply) -> Iterator[ModelEndpoint]:
    """Yield an endpoint that answers by a function of the request, or always the same."""
    function = answer if callable(answer) else lambda _request: answer
    with ModelEndpoint(function) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.release.set()
            server.shutdown()
            thread.join()


def chat_reply(content: str, **more: Any) -> dict[str, Any]:
    """Return the reply of a chat completion."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "guard",
        "choices": [choice],
        "usage": {"prompt_tokens": 200, "completion_tokens": 4, "total_tokens": 204},
    }


def llama_guard_reply(request: EndpointRequest) -> dict[str, Any]:
    """Return what Llama Guard says about the last message; it knows two words."""
    text = request.body["messages"][-1]["content"].lower()
    found = [name for name, word in (("S1", "quux"), ("S10", "plugh")) if word in text]
    return chat_reply("\n\nunsafe\n" + ",".join(found) if found else "\n\nsafe")
