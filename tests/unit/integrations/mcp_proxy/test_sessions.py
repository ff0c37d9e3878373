import asyncio
from typing import Any

import pytest
from mcp_front import Site, Toy
from mcp_talk import ORDERS, request

from demur.integrations.mcp_proxy.guard import Guard
from demur.integrations.mcp_proxy.judge import Rules, judge_of
from demur.integrations.mcp_proxy.message import message_of
from demur.integrations.mcp_proxy.sessions import FullError, Sessions


def test_a_record_does_not_give_a_session_away() -> None:
    async def played() -> None:
        site = Site()
        session = await site.sessions.begin()
        assert session.identity not in session.run
        assert len(session.run) == 12
        await site.close()

    asyncio.run(played())


def test_nothing_begins_while_the_proxy_ends() -> None:
    async def played() -> None:
        site = Site()
        await site.close()
        with pytest.raises(FullError):
            await site.sessions.begin()

    asyncio.run(played())


def test_a_session_that_was_about_to_begin_ends_with_the_others() -> None:
    async def played() -> Toy:
        server, go = Toy(), asyncio.Event()

        async def slow() -> Any:
            await go.wait()
            return server

        guard = Guard(judge_of(None, "toy", Rules()), note=print)
        sessions = Sessions(slow, lambda _: guard, new_id=lambda: "s", note=print)
        beginning = asyncio.create_task(sessions.begin())
        await asyncio.sleep(0)
        await sessions.close()
        go.set()
        await beginning
        await sessions.close()
        assert sessions.find("s") is None
        return server

    assert asyncio.run(played()).closed


def test_one_that_fails_is_told_and_the_others_go_on() -> None:
    class Broken(Toy):
        async def close(self) -> int:
            raise RuntimeError(ORDERS)

    async def played() -> list[str]:
        notes: list[str] = []
        servers: list[Toy] = [Broken(), Toy()]

        async def opened() -> Any:
            return servers.pop(0)

        names = iter("ab")
        sessions = Sessions(
            opened,
            lambda _: Guard(judge_of(None, "toy", Rules()), note=print),
            new_id=lambda: next(names),
            note=notes.append,
        )
        bad, good = await sessions.begin(), await sessions.begin()
        asks = request("wait", 1)
        stream = await bad.client.ask(b'{"jsonrpc":"2.0","id":1,"method":"wait"}', message_of(asks))
        assert stream is not None
        sessions.end(bad)
        async with asyncio.timeout(60):
            said = [line async for line in stream.lines(5)]
        assert b"the session has ended" in said[0]
        assert sessions.find("b") is good
        await sessions.close()
        return notes

    [note] = asyncio.run(played())
    assert "RuntimeError" in note
    assert ORDERS not in note
