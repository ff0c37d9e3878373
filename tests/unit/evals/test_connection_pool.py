import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from support.eval_rows import a_row

from demur.evals.http_target import (
    ConnectionPool,
    LocalServerOptions,
    LocalServerTarget,
    _Connection,
)
from demur.evals.target import TargetAnswer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


async def heard(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(size)


def served(*answers: bytes, then_close: bool = False) -> tuple[Handler, list[bytes], list[int]]:
    """Return a handler that gives each connection these answers, and what it saw."""
    seen: list[bytes] = []
    connections: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            for answer in answers:
                seen.append(await heard(reader))
                writer.write(answer)
                await writer.drain()
            if not then_close:
                await reader.read()
        except asyncio.IncompleteReadError:
            """The client went away."""
        finally:
            writer.close()

    return handle, seen, connections


async def ask(lanes: ConnectionPool, port: int, scheme: str = "http") -> bytes:
    request = httpx.Request("POST", f"{scheme}://127.0.0.1:{port}/v1?x=1", content=b"body")
    response = await lanes.handle_async_request(request)
    try:
        return b"".join([piece async for piece in response.stream])  # type: ignore[union-attr]
    finally:
        await response.stream.aclose()  # type: ignore[union-attr]


def against(handler: Handler, use: Callable[[ConnectionPool, int], Awaitable[None]]) -> None:
    async def whole() -> None:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        lanes = ConnectionPool()
        async with server:
            try:
                await use(lanes, server.sockets[0].getsockname()[1])
            finally:
                await lanes.aclose()

    asyncio.run(whole())


def test_requests_one_after_the_other_share_a_lane() -> None:
    handler, seen, connections = served(GOOD, GOOD)

    async def use(lanes: ConnectionPool, port: int) -> None:
        assert [await ask(lanes, port) for _ in range(2)] == [b"hi", b"hi"]

    against(handler, use)
    assert len(connections) == 1
    assert seen[0].startswith(b"POST /v1?x=1 HTTP/1.1\r\n")
    assert seen[0].endswith(b"\r\n\r\nbody")


def test_requests_at_once_have_a_lane_each() -> None:
    handler, _, connections = served(GOOD)

    async def use(lanes: ConnectionPool, port: int) -> None:
        assert await asyncio.gather(*(ask(lanes, port) for _ in range(5))) == [b"hi"] * 5

    against(handler, use)
    assert len(connections) == 5


def test_a_lane_that_the_server_closed_is_not_used_again() -> None:
    handler, _, connections = served(GOOD, then_close=True)

    async def use(lanes: ConnectionPool, port: int) -> None:
        for _ in range(2):
            assert await ask(lanes, port) == b"hi"
            await asyncio.sleep(0.05)

    against(handler, use)
    assert len(connections) == 2


def test_an_answer_that_ends_with_its_connection_is_whole() -> None:
    handler, _, connections = served(b"HTTP/1.1 200 OK\r\n\r\nto the end", then_close=True)

    async def use(lanes: ConnectionPool, port: int) -> None:
        for _ in range(2):
            assert await ask(lanes, port) == b"to the end"

    against(handler, use)
    assert len(connections) == 2


def test_notices_before_the_answer_are_passed_over() -> None:
    handler, _, _ = served(b"HTTP/1.1 103 Early Hints\r\n\r\n" + GOOD)

    async def use(lanes: ConnectionPool, port: int) -> None:
        assert await ask(lanes, port) == b"hi"

    against(handler, use)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"],
)
def test_an_answer_that_is_none_or_half_is_a_protocol_error(answer: bytes) -> None:
    handler, _, _ = served(answer, then_close=True)

    async def use(lanes: ConnectionPool, port: int) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(lanes, port)

    against(handler, use)


def test_a_broken_connection_is_a_read_error() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.transport.abort()
        await asyncio.sleep(0)

    async def use(lanes: ConnectionPool, port: int) -> None:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await ask(lanes, port)

    against(reset, use)


def test_nobody_there_is_a_connect_error() -> None:
    handler, _, _ = served(GOOD)

    async def use(lanes: ConnectionPool, port: int) -> None:
        del port
        with pytest.raises(httpx.ConnectError):
            await ask(lanes, 9)

    against(handler, use)


def test_a_server_that_speaks_no_tls_is_a_connect_error() -> None:
    async def use(lanes: ConnectionPool, port: int) -> None:
        with pytest.raises(httpx.ConnectError):
            await ask(lanes, port, "https")
        assert isinstance(lanes._context, ssl.SSLContext)

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"no tls here\r\n")
            await reader.read()
        finally:
            writer.close()

    against(quiet, use)


class Broken:
    """Both ends of a connection that is gone."""

    def write(self, data: bytes) -> None:
        """Take the bytes, and lose them."""

    async def drain(self) -> None:
        """Say that nobody takes them."""
        raise ConnectionResetError(104, "Connection reset by peer")

    async def read(self, size: int) -> bytes:
        """Say that nobody sends any."""
        raise ConnectionResetError(size)


def test_a_connection_that_breaks_says_on_which_way() -> None:
    ends: Any = Broken()
    lane = _Connection(ends, ends, [])
    request = httpx.Request("POST", "http://x/", content=b"body")

    async def both() -> None:
        with pytest.raises(httpx.WriteError, match="connection reset by peer"):
            await lane.send_request(request)
        with pytest.raises(httpx.ReadError):
            await lane.read_head()

    asyncio.run(both())


def ask_local_server(target: LocalServerTarget, count: int = 3) -> list[TargetAnswer]:
    async def asked() -> list[TargetAnswer]:
        try:
            return await asyncio.gather(*(target.answer(a_row(number)) for number in range(count)))
        finally:
            await target.close()

    return asyncio.run(asked())


def test_it_starts_with_the_first_row_and_ends_when_closed() -> None:
    target = LocalServerTarget(LocalServerOptions(persona="echo", system="Be kind."))
    answers = ask_local_server(target)

    assert [answer.text for answer in answers] == [f"Please say the number {n}." for n in range(3)]
    assert target._process is not None
    assert target._process.returncode is not None
    assert target.name == "testing-echo"
    assert target.settings == {
        "kind": "testing-server",
        "persona": "echo",
        "model": "",
        "system": "Be kind.",
        "stream": False,
    }


def test_a_target_that_was_never_used_has_nothing_to_close() -> None:
    asyncio.run(LocalServerTarget().close())


def test_a_server_that_does_not_start_is_the_rows_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    [answer] = ask_local_server(LocalServerTarget(), 1)

    assert answer.error_kind == "target"
    assert str(answer.error).startswith("the test server did not start")
