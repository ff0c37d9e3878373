"""A tiny model server on this machine, to test evals and clients without network or key.

It serves OpenAI-compatible chat completions, with and without streaming, and always gives the same
answer to the same prompt. Its personas refuse too much, too little, or about right, and
`llama-guard` judges like a guard model. Requests choose a fault by the name of the model.

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
from demur.testing.model_replies import (
    FAULTS,
    PERSONAS,
    ModelPrompt,
    ModelReply,
    build_reply,
    check_persona,
)

__all__ = ["FAULTS", "PERSONAS", "ModelServer", "main"]

_MAX_HEAD_BYTES = 65_536
_MAX_BODY_BYTES = 10_000_000
_STATUS_TEXT = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Too Large"}


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
        self._prompts: set[str] = set()
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
        self._thread = threading.Thread(target=self._run_loop, args=(ready,), daemon=True)
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

    def _run_loop(self, ready: "Future[None]") -> None:
        def set_ready() -> None:
            ready.set_result(None)

        try:
            asyncio.run(self.serve(set_ready))
        except OSError as error:
            ready.set_exception(error)

    async def serve(self, on_listening: Callable[[], None]) -> None:
        """Serve until stopped or cancelled; `on_listening` is called once `url` is reachable."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        writers: set[asyncio.StreamWriter] = set()

        async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            # A client may go away or send a head without an end, and stopping cancels this task.
            with contextlib.suppress(
                OSError,
                asyncio.CancelledError,
                asyncio.IncompleteReadError,
                asyncio.LimitOverrunError,
            ):
                while await self._answer(reader, writer):
                    """Answer the requests of a connection one after the other."""
            writers.discard(writer)
            writer.close()

        server = await asyncio.start_server(
            serve_client, "127.0.0.1", self._port, limit=_MAX_HEAD_BYTES
        )
        self._port = server.sockets[0].getsockname()[1]
        on_listening()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for writer in tuple(writers):
                writer.transport.abort()
            await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the next request; return whether the connection stays open."""
        head = await reader.readuntil(b"\r\n\r\n")
        size = _content_length(head)
        too_large = size is None or size > _MAX_BODY_BYTES
        if size is None or too_large:
            reply = ModelReply.from_error(413, "the body is too large, or has no length")
        elif head.startswith(b"POST /v1/chat/completions HTTP/"):
            reply = self.answer(await reader.readexactly(size))
        else:
            await reader.readexactly(size)
            reply = ModelReply.from_error(404, "only POST /v1/chat/completions is served")
        await asyncio.sleep(3600 if reply.never else self.latency_s)
        writer.write(b"".join(_encode_reply(reply)))
        await writer.drain()
        return not (too_large or reply.cut)

    def answer(self, raw: bytes) -> ModelReply:
        """Return the reply to the body of a request."""
        self.requests += 1
        try:
            asked = json.loads(raw)
            request = _parse_request(asked)
        except (ValueError, TypeError, LookupError):
            return ModelReply.from_error(400, "the body is no chat completion request")
        again = request.prompt in self._prompts
        self._prompts.add(request.prompt)
        return build_reply(request, self.persona, fault=self.fault, again=again)


def _parse_request(asked: Any) -> ModelPrompt:
    words = [one["content"] for one in asked["messages"] if one["role"] == "user"]
    if not words or not isinstance(words[-1], str):
        raise ValueError
    hint = asked.get("metadata") or {}
    return ModelPrompt(
        prompt=words[-1],
        model=str(asked.get("model") or ""),
        label=str(hint.get("label", "")),
        stream=bool(asked.get("stream")),
        last=str(asked["messages"][-1]["content"]),
    )


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value) if value.strip().isdigit() else None
    return 0 if head.startswith(b"GET ") else None


def _encode_reply(reply: ModelReply) -> Iterator[bytes]:
    """Yield the bytes of a reply; a cut reply stops before its end."""
    headers = [f"content-type: {reply.kind}", *(f"{name}: {value}" for name, value in reply.more)]
    if not reply.streamed:
        headers.append(f"content-length: {sum(map(len, reply.parts)) + 100 * reply.cut}")
    else:
        headers.append("transfer-encoding: chunked")
    first = f"HTTP/1.1 {reply.status} {_STATUS_TEXT.get(reply.status, 'Error')}"
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
        asyncio.run(_serve_until_stopped(server, until_stdin_ends=args.with_stdin))
    return 0


async def _serve_until_stopped(server: ModelServer, *, until_stdin_ends: bool) -> None:
    def announce() -> None:
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        if until_stdin_ends:
            threading.Thread(target=_wait_for_stdin_end, args=(server,), daemon=True).start()

    await server.serve(announce)


def _wait_for_stdin_end(server: ModelServer) -> None:
    """Stop the server once standard input has ended."""
    # Do not read `sys.stdin`: its lock would be held when the interpreter exits.
    while os.read(0, 4096):
        """Ignore the input."""
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
