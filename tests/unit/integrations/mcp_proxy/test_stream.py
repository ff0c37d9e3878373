import asyncio

from demur.integrations.mcp_proxy.stream import EventStream


async def read(stream: EventStream, count: int, pause_s: float = 5) -> list[bytes]:
    lines = stream.lines(pause_s)
    return [await anext(lines) for _ in range(count)]


def test_what_goes_in_comes_out_in_its_order_until_the_end() -> None:
    async def played() -> list[bytes]:
        stream = EventStream()
        for line in (b"a", b"b"):
            assert await stream.put(line)
        stream.end()
        assert not await stream.put(b"c")
        return [line async for line in stream.lines(5)]

    assert asyncio.run(played()) == [b"a", b"b"]


def test_who_waits_is_woken() -> None:
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


def test_a_long_pause_is_told() -> None:
    async def paused() -> list[bytes]:
        return await read(EventStream(), 2, pause_s=0.001)

    assert asyncio.run(paused()) == [b"", b""]
