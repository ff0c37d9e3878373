"""Clients over HTTP before servers that a test plays."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

from demur.errors import InputError
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.http_app import McpHttpApp
from demur.integrations.mcp_proxy.judge import ProxyRules, make_judge
from demur.integrations.mcp_proxy.sessions import ProxySessions
from support.mcp_messages import reply, request

__all__ = ["BOTH", "HELLO", "Answer", "SampleServer", "Site"]

BOTH = "application/json, text/event-stream"
HELLO = request(
    "initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t"}
)


class SampleServer:
    """A server that answers at once, unless it is asked to `wait`; it may speak unasked.

    `greets` is whether it takes a client; None leaves it waiting. While `reads` is not set, it
    takes nothing at all. It does not answer requests of the method `silent`.
    """

    on_pause: Any = None

    def __init__(self, *, greets: bool | None = True, silent: str = "wait") -> None:
        self._says: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.greets = greets
        self.silent = silent
        self.heard: list[Any] = []
        self.closed = False
        self.stirred = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    async def until(self, done: Callable[[], Any]) -> None:
        """Wait for something to be heard, or for the end."""
        async with asyncio.timeout(60):
            while not done():
                self.stirred.clear()
                await self.stirred.wait()

    async def send(self, line: bytes) -> None:
        """Answer."""
        await self.reads.wait()
        message = json.loads(line)
        self.heard.append(message)
        self.stirred.set()
        if message.get("method") == "initialize" and self.greets is None:
            return
        if message.get("method") == "initialize" and not self.greets:
            error = {"code": 1, "message": "no"}
            self.say({"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif (
            "id" in message
            and "method" in message
            and message["method"] not in {"wait", self.silent}
        ):
            self.say(reply(message["id"], {"to": message["method"]}))

    def say(self, message: Any) -> None:
        """Say something."""
        self._says.put_nowait(json.dumps(message).encode())

    def die(self) -> None:
        """Be gone."""
        self._says.put_nowait(None)

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Say it all."""
        while (line := await self._says.get()) is not None:
            yield line

    async def close(self) -> int:
        """End."""
        self.closed = True
        self.stirred.set()
        self.die()
        return 0


class Answer:
    """What an application answered: a status, headers, and what came piece by piece."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = asyncio.Event()
        self.left = asyncio.Event()
        self.changed = asyncio.Event()

    @property
    def events(self) -> list[Any]:
        """The messages that came as events."""
        lines = self.body.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    @property
    def error(self) -> Any:
        """The error in the body."""
        return json.loads(self.body)["error"]

    async def until(self, done: Callable[[], Any]) -> None:
        """Wait for something to come."""
        async with asyncio.timeout(60):
            while not done():
                self.changed.clear()
                await self.changed.wait()

    async def take(self, message: Any) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            if not message["more_body"]:
                self.ended.set()
        self.changed.set()


class Site:
    """A front, its sessions and the servers behind them; time passes when a test says so."""

    def __init__(
        self,
        *,
        most: int = 3,
        greets: bool | None = True,
        patience_s: float = 60,
        silent: str = "wait",
        **settings: Any,
    ) -> None:
        self.servers: list[SampleServer] = []
        self.notes: list[str] = []
        self.now = 0.0
        self.broken = False
        numbers = count(1)

        async def opened() -> SampleServer:
            if self.broken:
                raise InputError("cannot start the server", where="/secret/place")
            self.servers.append(SampleServer(greets=greets, silent=silent))
            return self.servers[-1]

        judge = make_judge(None, "toy", ProxyRules())
        self.sessions = ProxySessions(
            opened,
            lambda run: ConnectionGuard(judge._replace(run=run), notify=self.notes.append),
            new_id=lambda: f"session-{next(numbers)}",
            notify=self.notes.append,
            max_sessions=most,
            idle_s=60,
            timeout_s=patience_s,
            monotonic=lambda: self.now,
        )
        self.front = McpHttpApp(self.sessions, **settings)
        self._calls: set[asyncio.Task[None]] = set()

    def call(
        self,
        method: str,
        body: Any = None,
        *,
        raw: Any = None,
        path: str = "/mcp",
        **more: Any,
    ) -> Answer:
        """Return the answer to a call, which comes by and by."""
        headers: dict[str, Any] = {
            "host": "127.0.0.1:9",
            "accept": BOTH,
            "content-type": "application/json",
        }
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        pairs = [(n.encode(), v.encode()) for n, v in headers.items() if v is not None]
        scope = {"type": "http", "method": method, "path": path, "headers": pairs}
        sent = json.dumps(body).encode() if raw is None else raw
        parts: list[dict[str, Any]] = [{"type": "http.request", "body": sent, "more_body": False}]
        answer = Answer()

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop(0)
            await answer.left.wait()
            return {"type": "http.disconnect"}

        task = asyncio.ensure_future(self.front(scope, receive, answer.take))
        self._calls.add(task)
        return answer

    async def post(self, body: Any, session: str | None = None, **more: Any) -> Answer:
        """Return the whole answer to a message."""
        named = {} if session is None else {"mcp_session_id": session}
        answer = self.call("POST", body, **named, **more)
        async with asyncio.timeout(60):
            await answer.ended.wait()
        return answer

    async def greet(self) -> str:
        """Return the name of a new session."""
        return (await self.post(HELLO)).headers["mcp-session-id"]

    async def close(self) -> None:
        """End all, and show what went wrong."""
        await self.sessions.close()
        async with asyncio.timeout(60):
            await asyncio.gather(*self._calls)
