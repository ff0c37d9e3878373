import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp_talk import note, reply, request

from demur.integrations.mcp_proxy.http_client import ServerBusyError, HttpDownstream
from demur.integrations.mcp_proxy.message import parse_message
from demur.integrations.mcp_proxy.stream import EventStream


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


def test_what_is_posted_is_what_the_client_says() -> None:
    async def played(client: HttpDownstream) -> None:
        await client.post_line(b"a")
        await asked(client, request("ping"))
        lines = client.lines()
        assert await anext(lines) == b"a"
        assert await anext(lines) == raw(request("ping"))

    play(played)


def test_answers_go_where_they_were_asked_for() -> None:
    async def played(client: HttpDownstream) -> None:
        first, second = await asked(client, request("x", 1)), await asked(client, request("x", "1"))
        assert client.in_use
        await client.send(raw([reply("1", "two"), reply(1, "one"), reply(9, "nobody")]))
        await client.send(raw({"jsonrpc": "2.0", "id": None, "error": {}}))
        assert await heard(first) == [reply(1, "one")]
        assert await heard(second) == [reply("1", "two")]
        assert not client.in_use

    play(played)


def test_what_is_said_while_nobody_listens_is_kept_for_a_while() -> None:
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


def test_who_was_taken_is_greeted() -> None:
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


def test_what_waits_for_room_goes_on_when_there_is_some() -> None:
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
