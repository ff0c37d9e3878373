import asyncio
import json
from typing import Any

import pytest
from mcp_talk import Played, Talk, call, reply, request

from demur.integrations.mcp_proxy.judge import ProxyRules
from demur.integrations.mcp_proxy.relay import relay_messages


def line(message: Any) -> bytes:
    return json.dumps(message).encode()


class _Answering(Played):
    """A server that answers what it hears, and is there until it is closed."""

    def __init__(self, **more: Any) -> None:
        super().__init__(stays=True, **more)
        self._asked: asyncio.Queue[Any] = asyncio.Queue()

    async def send(self, line: bytes) -> None:
        await super().send(line)
        self._asked.put_nowait(json.loads(line))

    async def lines(self) -> Any:
        while message := await self._asked.get():
            yield json.dumps(reply(message["id"], {})).encode()

    async def close(self) -> int:
        self._asked.put_nowait(None)
        return await super().close()


def test_messages_pass_both_ways_and_the_server_is_closed_after_its_client() -> None:
    async def played() -> tuple[list[Any], list[Any], int]:
        client = Played(line(call("echo", 1)), line(call("delete", 2)))
        server = _Answering(status=4)
        guard = Talk(ProxyRules(deny=["delete"])).guard
        status = await relay_messages(guard, client, server)
        return client.heard, server.heard, status

    heard, reached, status = asyncio.run(played())

    assert sorted(one["id"] for one in heard) == [1, 2]
    assert [one["params"]["name"] for one in reached] == ["echo"]
    assert status == 4


class _Leaving(Played):
    """A server that is gone once it was asked two things."""

    async def send(self, line: bytes) -> None:
        await super().send(line)
        if len(self.heard) == 2:
            self.closed.set()


def test_a_client_whose_server_is_gone_hears_so_for_each_open_request() -> None:
    async def played() -> tuple[list[Any], int]:
        client = Played(line(request("ping", 1)), line(request("ping", "b")), stays=True)
        server = _Leaving(stays=True, status=7)
        return client.heard, await relay_messages(Talk().guard, client, server)

    heard, status = asyncio.run(played())

    assert [one["id"] for one in heard] == [1, "b"]
    assert all("gone (status 7)" in one["error"]["message"] for one in heard)
    assert status == 7


def test_being_stopped_ends_both() -> None:
    async def played() -> int:
        stopped = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, stopped.set)
        return await relay_messages(Talk().guard, Played(stays=True), Played(stays=True), stopped)

    assert asyncio.run(played()) == 0


class _Deaf(Played):
    async def send(self, _line: bytes) -> None:
        raise BrokenPipeError


def test_a_client_that_no_longer_reads_has_ended() -> None:
    async def played() -> int:
        return await relay_messages(
            Talk().guard, _Deaf(line(request("ping"))), _Answering(status=3)
        )

    assert asyncio.run(played()) == 3


class _Broken(Played):
    async def send(self, _line: bytes) -> None:
        raise ValueError("odd")


def test_what_goes_wrong_inside_is_not_swallowed() -> None:
    async def played() -> int:
        return await relay_messages(Talk().guard, Played(b"nonsense"), _Broken(stays=True))

    async def worse() -> int:
        return await relay_messages(Talk().guard, _Broken(b"nonsense"), Played(stays=True))

    assert asyncio.run(played()) == 0
    with pytest.raises(ValueError, match="odd"):
        asyncio.run(worse())
