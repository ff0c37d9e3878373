import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.mcp_frontend import SampleServer, Site
from support.mcp_messages import ORDERS, note, reply, request

from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.jsonrpc import parse_message
from demur.integrations.mcp_proxy.judge import ProxyRules, make_judge
from demur.integrations.mcp_proxy.sessions import (
    EventStream,
    HttpDownstream,
    ProxySessions,
    ServerBusyError,
    TooManySessionsError,
)


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
    async def played() -> SampleServer:
        server, go = SampleServer(), asyncio.Event()

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


def test_one_client_cannot_take_all_sessions() -> None:
    async def played() -> None:
        site = Site(most=8)
        for _ in range(6):
            await site.sessions.begin_session("10.0.0.1")
        with pytest.raises(TooManySessionsError, match="this client"):
            await site.sessions.begin_session("10.0.0.1")
        await site.sessions.begin_session("10.0.0.2")
        await site.sessions.begin_session("10.0.0.3")
        with pytest.raises(TooManySessionsError, match="no room"):
            await site.sessions.begin_session("10.0.0.4")
        site.now = 61
        site.sessions.find_session("session-1")
        await site.sessions.begin_session("10.0.0.4")
        assert site.sessions.find_session("session-1") is not None
        assert site.sessions.find_session("session-2") is None
        assert any("another client needs room" in note for note in site.notes)
        await site.close()

    asyncio.run(played())


def test_a_session_that_fails_is_reported_and_the_others_continue() -> None:
    class Broken(SampleServer):
        async def close(self) -> int:
            raise RuntimeError(ORDERS)

    async def played() -> list[str]:
        notes: list[str] = []
        servers: list[SampleServer] = [Broken(), SampleServer()]

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


def play(played: Callable[[HttpDownstream], Awaitable[None]]) -> None:
    async def run() -> None:
        await played(HttpDownstream())

    asyncio.run(run())


def raw(message: Any) -> bytes:
    return json.dumps(message).encode()


async def asked(client: HttpDownstream, message: Any) -> EventStream:
    stream = await client.post_request(raw(message), parse_message(message))
    assert stream is not None
    return stream


async def heard(stream: EventStream) -> list[Any]:
    """Return all that a stream says, which must have ended."""
    assert stream.ended
    return [json.loads(line) async for line in stream.lines(5)]


def test_posted_lines_are_read_as_the_clients_messages() -> None:
    async def played(client: HttpDownstream) -> None:
        await client.post_line(b"a")
        await asked(client, request("ping"))
        lines = client.lines()
        assert await anext(lines) == b"a"
        assert await anext(lines) == raw(request("ping"))

    play(played)


def test_answers_go_to_the_stream_of_their_request() -> None:
    async def played(client: HttpDownstream) -> None:
        first, second = await asked(client, request("x", 1)), await asked(client, request("x", "1"))
        assert client.in_use
        await client.send(raw([reply("1", "two"), reply(1, "one"), reply(9, "nobody")]))
        await client.send(raw({"jsonrpc": "2.0", "id": None, "error": {}}))
        assert await heard(first) == [reply(1, "one")]
        assert await heard(second) == [reply("1", "two")]
        assert not client.in_use

    play(played)


def test_recent_messages_are_kept_while_no_client_listens() -> None:
    async def played(client: HttpDownstream) -> None:
        for number in range(300):
            await client.send(raw(note("x", number=number)))
        stream = await asked(client, request("ping", 1))
        await client.send(raw(reply(1, {})))
        [first, *_, last] = await heard(stream)
        # The oldest are forgotten, and not all come at once.
        assert first == note("x", number=44)
        assert last == reply(1, {})

    play(played)


def test_little_is_kept_of_much_that_nobody_hears() -> None:
    async def played(client: HttpDownstream) -> None:
        for number in range(5):
            await client.send(raw(note("x", number=number, text="x" * 400_000)))
        stream = client.open_stream()
        stream.end()
        assert [one["params"]["number"] for one in await heard(stream)] == [3, 4]

    play(played)


def test_a_stream_that_ended_is_passed_over() -> None:
    async def played(client: HttpDownstream) -> None:
        listening = client.open_stream()
        waiting = await asked(client, request("x", 1, _meta={"progressToken": 5}))
        waiting.end()
        await client.send(raw(note("notifications/progress", progressToken=5)))
        await client.send(raw(note("y")))
        listening.end()
        assert [one["method"] for one in await heard(listening)] == ["notifications/progress", "y"]
        await client.send(raw(note("z")))
        assert not client.in_use
        again = client.open_stream()
        again.end()
        assert await heard(again) == [note("z")]

    play(played)


def test_a_client_that_is_closed_answers_all_that_waits_and_what_comes_later() -> None:
    async def played(client: HttpDownstream) -> None:
        waiting = await asked(client, request("x", 1))
        client.close()
        later = await asked(client, request("x", "b"))
        listening = client.open_stream()
        for stream, identity in ((waiting, 1), (later, "b")):
            [answer] = await heard(stream)
            assert (answer["id"], answer["error"]["code"]) == (identity, -32000)
        assert await heard(listening) == []
        # Nobody reads, and nobody waits for that.
        for _ in range(50):
            await client.post_line(b"lost")

    play(played)


def test_a_session_is_initialized_by_a_successful_handshake() -> None:
    async def played(client: HttpDownstream) -> None:
        for number, half in enumerate(("error", "result")):
            await asked(client, request("initialize", number))
            await client.send(raw({"jsonrpc": "2.0", "id": number, half: {}}))
            assert client.is_greeted == (half == "result")
        # Who was taken once stays so, whatever comes of another greeting.
        await asked(client, request("initialize", 2))
        await client.send(raw({"jsonrpc": "2.0", "id": 2, "error": {}}))
        assert client.is_greeted

    play(played)


def test_nothing_waits_for_what_could_not_be_handed_over() -> None:
    async def played() -> None:
        client = HttpDownstream(timeout_s=0.01)
        for _ in range(16):
            await client.post_line(b"x")
        with pytest.raises(ServerBusyError):
            await client.post_line(b"x")
        with pytest.raises(ServerBusyError):
            await asked(client, request("ping", 1, _meta={"progressToken": 1}))
        assert not client.in_use
        lines = client.lines()
        assert await anext(lines) == b"x"
        await asked(client, request("ping", 1))
        assert client.in_use

    asyncio.run(played())


def test_posts_wait_while_the_queue_is_full() -> None:
    async def played(client: HttpDownstream) -> None:
        for number in range(16):
            await client.post_line(str(number).encode())
        telling = [asyncio.create_task(client.post_line(b"more")) for _ in range(3)]
        await asyncio.sleep(0)
        lines = client.lines()
        said = [await anext(lines) for _ in range(19)]
        await asyncio.gather(*telling)
        assert said == [*(str(number).encode() for number in range(16)), *[b"more"] * 3]

    play(played)


async def read(stream: EventStream, count: int, pause_s: float = 5) -> list[bytes]:
    lines = stream.lines(pause_s)
    return [await anext(lines) for _ in range(count)]


def test_an_event_stream_yields_lines_in_order_until_its_end() -> None:
    async def played() -> list[bytes]:
        stream = EventStream()
        for line in (b"a", b"b"):
            assert await stream.put(line)
        stream.end()
        assert not await stream.put(b"c")
        return [line async for line in stream.lines(5)]

    assert asyncio.run(played()) == [b"a", b"b"]


def test_a_waiting_reader_is_woken_by_a_new_line() -> None:
    async def played() -> list[bytes]:
        stream = EventStream()
        reading = asyncio.create_task(read(stream, 1))
        await asyncio.sleep(0)
        await stream.put(b"a")
        return await reading

    assert asyncio.run(played()) == [b"a"]


def test_a_full_stream_makes_the_sender_wait() -> None:
    async def played() -> None:
        stream = EventStream(max_waiting=1)
        await stream.put(b"a")
        putting = asyncio.create_task(stream.put(b"b"))
        await asyncio.sleep(0)
        assert not putting.done()
        assert await read(stream, 2) == [b"a", b"b"]
        assert await putting

    asyncio.run(played())


def test_few_but_large_messages_fill_a_stream_too() -> None:
    async def played() -> None:
        stream = EventStream(timeout_s=0.01)
        assert await stream.put(b"x" * 5_000_000)
        assert not await stream.put(b"y")

    asyncio.run(played())


def test_a_stream_that_nobody_reads_ends() -> None:
    async def played() -> None:
        stream = EventStream(max_waiting=1, timeout_s=0.01)
        await stream.put(b"a")
        assert not await stream.put(b"b")
        assert stream.ended

    asyncio.run(played())


def test_a_long_pause_yields_an_empty_line() -> None:
    async def paused() -> list[bytes]:
        return await read(EventStream(), 2, pause_s=0.001)

    assert asyncio.run(paused()) == [b"", b""]


def test_a_detached_stream_does_not_make_the_sender_wait() -> None:
    async def played() -> None:
        stream = EventStream("1", max_waiting=1)
        stream.detach()
        assert await stream.put(b"a")
        assert not await stream.put(b"b")
        assert [line async for line in stream.lines(5)] == [b"a"]

    asyncio.run(played())


def test_a_stream_keeps_only_what_was_read_last() -> None:
    async def played() -> None:
        stream = EventStream("1", max_waiting=200)
        for number in range(100):
            await stream.put(str(number).encode())
        assert len(await read(stream, 100)) == 100
        stream.rewind(0)
        assert await read(stream, 1) == [b"36"]
        assert stream.position == 37
        stream.rewind(36)
        assert await read(stream, 2) == [b"36", b"37"]

    asyncio.run(played())
