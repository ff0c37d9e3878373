"""A local server that answers the Claude CLI like the API does, by a script, and listens.

The CLIs are the real ones, of the Agent SDK and of npm; only the model is played.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

__all__ = ["CLI", "VERSIONS", "ClaudeApi", "ask", "claude_api", "find_cli", "say"]

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
_PACKAGES = Path(__file__).parents[2] / "requirements" / "claude-code"
_PINNED: dict[str, str] = json.loads((_PACKAGES / "package.json").read_text())["dependencies"]
# The one that the SDK brings, and those that npm installs.
VERSIONS = ("bundled", *(spec.rpartition("@")[2] for spec in _PINNED.values()))
_MODEL = "claude-sonnet-4-5"

Block = dict[str, Any]


def find_cli(version: str) -> Path:
    """Return the program of a version of Claude Code; skip the test where it is not installed."""
    if version == "bundled":
        return CLI
    for program in _PACKAGES.glob("node_modules/**/claude-code-*/claude"):
        package = json.loads(program.with_name("package.json").read_text())
        if package["version"] == version and "musl" not in package["name"]:
            return program
    return pytest.skip(f"no Claude Code {version}: `make test-claude-code` installs it")


def say(text: str) -> list[Block]:
    """Return a turn in which the model says something."""
    return [{"type": "text", "text": text}]


def ask(*calls: tuple[str, Mapping[str, Any]], turn: int = 0) -> list[Block]:
    """Return a turn in which the model asks for tools."""
    return [
        {"type": "tool_use", "id": f"toolu_{turn}_{place}", "name": name, "input": dict(given)}
        for place, (name, given) in enumerate(calls)
    ]


class ClaudeApi(ThreadingHTTPServer):
    """Says what it was told to, turn by turn; `heard` keeps the messages of each request."""

    daemon_threads = True

    def __init__(self, turns: Sequence[list[Block]]) -> None:
        self.turns = list(turns)
        self.heard: list[list[dict[str, Any]]] = []
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def environment(self, home: Path) -> dict[str, str]:
        """Return what makes the CLI ask here and leave no trace outside of `home`."""
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "ANTHROPIC_API_KEY": "none",
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def turn(self, request: Mapping[str, Any]) -> tuple[str, list[Block]]:
        """Return the id and the blocks of the next answer."""
        with self._lock:
            place = len(self.heard)
            # A request without tools is about something else, such as a title.
            if not request.get("tools"):
                return f"msg_aside_{place}", say("aside")
            self.heard.append(list(request["messages"]))
            blocks = self.turns[place] if place < len(self.turns) else say("done")
        return f"msg_{place}", blocks

    def said_after(self, turn: int) -> str:
        """Return everything that was sent after some turns, as text."""
        return "\n".join(_texts(self.heard[turn:]))


@contextmanager
def claude_api(turns: Sequence[list[Block]] | ClaudeApi) -> Iterator[ClaudeApi]:
    """Yield a server that is up."""
    with turns if isinstance(turns, ClaudeApi) else ClaudeApi(turns) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ClaudeApi

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("text/plain", b"")

    def do_GET(self) -> None:
        self._send("text/plain", b"")

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        request = json.loads(self.rfile.read(size) or b"{}")
        name, blocks = self.server.turn(request)
        if request.get("stream"):
            lines = (
                f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"
                for one in _events(name, blocks)
            )
            self._send("text/event-stream", "".join(lines).encode())
        else:
            whole = {**_message(name), "content": blocks, "stop_reason": _stop(blocks)}
            self._send("application/json", json.dumps(whole).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _message(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": _MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _stop(blocks: Sequence[Block]) -> str:
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


def _events(name: str, blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message(name)}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start: Block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _stop(blocks), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
