"""A tiny model server on this machine, to test evals and clients without network or key.

It serves OpenAI-compatible chat completions, with and without streaming, and always gives the same
answer to the same prompt. Its personas refuse too much, too little, or about right. Requests choose
a fault by the name of the model.

    python -m demur.testing.model_server --persona over-refusing --port 8000
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self

from demur.errors import InputError
from demur.testing.model_personas import PERSONAS, Heard, check_persona
from demur.testing.model_replies import FAULTS, Reply, reply_to

__all__ = ["FAULTS", "PERSONAS", "ModelServer", "main"]

_LARGEST_HEAD = 65_536
_LARGEST_BODY = 10_000_000
_STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Too Large"}


class ModelServer:
    """The server as a context manager: it runs in a thread and listens at `url`.

    `latency_s` is the delay of each answer; `fault` is the fault of every answer, unless the
    requested model names another one. `requests` counts the requests.
    """

    def __init__(
        self,
        *,
        persona: str = "balanced",
        latency_s: float = 0.0,
        fault: str | None = None,
        port: int = 0,
    ) -> None:
        check_persona(persona)
        if fault is not None and fault not in FAULTS:
            raise InputError(f"unknown fault `{fault}`", help=f"one of {', '.join(FAULTS)}")
        self.persona = persona
        self.latency_s = latency_s
        self.fault = fault
        self.requests = 0
        self._seen: set[str] = set()
        self._port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Stop serving; may be called from any thread."""
        assert self._loop is not None
        assert self._stop is not None
        with contextlib.suppress(RuntimeError):  # it has stopped already
            self._loop.call_soon_threadsafe(self._stop.set)

    def _run(self, ready: "Future[None]") -> None:
        def listening() -> None:
            ready.set_result(None)

        try:
            asyncio.run(self.serve(listening))
        except OSError as error:
            ready.set_exception(error)

    async def serve(self, listening: Callable[[], None]) -> None:
        """Serve until stopped or cancelled; `listening` is called once `url` is reachable."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        open_now: set[_Connection] = set()
        server = await self._loop.create_server(
            lambda: _Connection(self, open_now), "127.0.0.1", self._port
        )
        self._port = server.sockets[0].getsockname()[1]
        listening()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for connection in tuple(open_now):
                connection.end()
            await server.wait_closed()

    def answer(self, raw: bytes) -> Reply:
        """Return the reply to the body of a request."""
        self.requests += 1
        try:
            asked = json.loads(raw)
            heard = _heard(asked)
        except (ValueError, TypeError, LookupError):
            return Reply.problem(400, "the body is no chat completion request")
        again = heard.prompt in self._seen
        self._seen.add(heard.prompt)
        return reply_to(heard, self.persona, fault=self.fault, again=again)


def _heard(asked: Any) -> Heard:
    words = [one["content"] for one in asked["messages"] if one["role"] == "user"]
    if not words or not isinstance(words[-1], str):
        raise ValueError
    hint = asked.get("metadata") or {}
    return Heard(
        prompt=words[-1],
        model=str(asked.get("model") or ""),
        label=str(hint.get("label", "")),
        stream=bool(asked.get("stream")),
    )


class _Connection(asyncio.Protocol):
    """One client connection; requests are answered one after the other."""

    def __init__(self, server: ModelServer, open_now: "set[_Connection]") -> None:
        self._server = server
        self._open_now = open_now
        self._held = b""
        self._busy: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_now.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the pending reply."""
        del exc
        self._open_now.discard(self)
        if self._busy is not None:
            self._busy.cancel()

    def end(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Buffer a request, and answer it once it is complete."""
        self._held += data
        if self._busy is None:
            self._next()

    def _next(self) -> None:
        head, found, rest = self._held.partition(b"\r\n\r\n")
        if not found:
            if len(head) > _LARGEST_HEAD:
                self.end()
            return
        size = _length(head)
        if size is None or size > _LARGEST_BODY:
            self._start(Reply.problem(413, "the body is too large, or has no length"), last=True)
        elif len(rest) >= size:
            self._held = rest[size:]
            self._start(self._reply(head, rest[:size]), last=False)

    def _reply(self, head: bytes, body: bytes) -> Reply:
        first = head.split(b"\r\n", 1)[0].split(b" ")
        if len(first) == 3 and first[:2] == [b"POST", b"/v1/chat/completions"]:
            return self._server.answer(body)
        return Reply.problem(404, "only POST /v1/chat/completions is served")

    def _start(self, reply: Reply, *, last: bool) -> None:
        self._busy = asyncio.get_running_loop().create_task(self._send(reply, last=last))

    async def _send(self, reply: Reply, *, last: bool) -> None:
        assert self._transport is not None
        await asyncio.sleep(3600 if reply.never else self._server.latency_s)
        self._transport.write(b"".join(_wire(reply)))
        self._busy = None
        if last or reply.cut:
            self._transport.close()
        else:
            self._next()


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value) if value.strip().isdigit() else None
    return 0 if head.startswith(b"GET ") else None


def _wire(reply: Reply) -> Iterator[bytes]:
    """Yield the bytes of a reply; a cut reply stops before its end."""
    headers = [f"content-type: {reply.kind}", *(f"{name}: {value}" for name, value in reply.more)]
    if not reply.streamed:
        headers.append(f"content-length: {sum(map(len, reply.parts)) + 100 * reply.cut}")
    else:
        headers.append("transfer-encoding: chunked")
    first = f"HTTP/1.1 {reply.status} {_STATUS.get(reply.status, 'Error')}"
    yield "\r\n".join([first, *headers, "", ""]).encode()
    for part in reply.parts:
        yield b"%x\r\n%s\r\n" % (len(part), part) if reply.streamed else part
    if reply.streamed and not reply.cut:
        yield b"0\r\n\r\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C, or with `--with-stdin` until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m demur.testing.model_server",
        description="a tiny OpenAI-compatible model server, for tests; it listens on 127.0.0.1",
    )
    parser.add_argument("--port", type=int, default=0, help="the port; 0 picks a free port")
    parser.add_argument("--persona", choices=PERSONAS, default="balanced")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="delay of each answer")
    parser.add_argument("--fault", choices=FAULTS, help="the fault of every answer")
    parser.add_argument("--with-stdin", action="store_true", help="stop once standard input ends")
    args = parser.parse_args(argv)
    server = ModelServer(
        persona=args.persona, latency_s=args.latency_ms / 1000, fault=args.fault, port=args.port
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, until_stdin_ends=args.with_stdin))
    return 0


async def _serve(server: ModelServer, *, until_stdin_ends: bool) -> None:
    def listening() -> None:
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        if until_stdin_ends:
            threading.Thread(target=_wait, args=(server,), daemon=True).start()

    await server.serve(listening)


def _wait(server: ModelServer) -> None:
    """Stop the server once standard input has ended."""
    # Do not read `sys.stdin`: its lock would be held when the interpreter exits.
    while os.read(0, 4096):
        """Ignore the input."""
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
