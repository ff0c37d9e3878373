import asyncio
from typing import Any

import pytest
from mcp_front import Site, Toy
from mcp_talk import ORDERS, request

from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import ProxyRules, make_judge
from demur.integrations.mcp_proxy.message import parse_message
from demur.integrations.mcp_proxy.sessions import TooManySessionsError, ProxySessions


def test_a_record_does_not_give_a_session_away() -> None:
    async def played() -> None:
        site = Site()
        session = await site.sessions.begin_session()
        assert session.session_id not in session.run_name
        assert len(session.run_name) == 12
        await site.close()

    asyncio.run(played())


def test_nothing_begins_while_the_proxy_ends() -> None:
    async def played() -> None:
        site = Site()
        await site.close()
        with pytest.raises(TooManySessionsError):
            await site.sessions.begin_session()

    asyncio.run(played())


def test_a_session_that_was_about_to_begin_ends_with_the_others() -> None:
    async def played() -> Toy:
        server, go = Toy(), asyncio.Event()

        async def slow() -> Any:
            await go.wait()
            return server

        guard = ConnectionGuard(make_judge(None, "toy", ProxyRules()), notify=print)
        sessions = ProxySessions(slow, lambda _: guard, new_id=lambda: "s", notify=print)
        beginning = asyncio.create_task(sessions.begin_session())
        await asyncio.sleep(0)
        await sessions.close()
        go.set()
        await beginning
        await sessions.close()
        assert sessions.find_session("s") is None
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
        sessions = ProxySessions(
            opened,
            lambda _: ConnectionGuard(make_judge(None, "toy", ProxyRules()), notify=print),
            new_id=lambda: next(names),
            notify=notes.append,
        )
        bad, good = await sessions.begin_session(), await sessions.begin_session()
        asks = request("wait", 1)
        stream = await bad.client.post_request(
            b'{"jsonrpc":"2.0","id":1,"method":"wait"}', parse_message(asks)
        )
        assert stream is not None
        sessions.end_session(bad)
        async with asyncio.timeout(60):
            said = [line async for line in stream.lines(5)]
        assert b"the session has ended" in said[0]
        assert sessions.find_session("b") is good
        await sessions.close()
        return notes

    [note] = asyncio.run(played())
    assert "RuntimeError" in note
    assert ORDERS not in note
