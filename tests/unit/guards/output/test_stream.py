import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from toy_rules import toy_rules

from demur.errors import InputError
from demur.guards.output.guard import OutputConfig
from demur.guards.output.stream import guard_stream, guard_stream_async
from demur.guards.output.stream_flow import OnBlock, OutputBlockedError, StreamConfig

CONFIG = StreamConfig(output=OutputConfig(rules=toy_rules("pattern: some bad words")))
BAD = ["All fi", "ne. Some b", "ad words, ", "and more.", " " * 90, "end"]
RAISING = StreamConfig(output=CONFIG.output, on_block=OnBlock.RAISE)


class Source:
    """Chunks that know whether they were closed and how many were taken."""

    def __init__(self, chunks: list[str], *, fails: bool = False) -> None:
        self.chunks = chunks
        self.fails = fails
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[str]:
        try:
            for chunk in self.chunks:
                self.taken += 1
                yield chunk
            if self.fails:
                raise ConnectionError
        finally:
            self.closed = True

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            for chunk in self.chunks:
                self.taken += 1
                await asyncio.sleep(0)
                yield chunk
        finally:
            self.closed = True


def test_a_clean_stream_comes_out_as_it_went_in() -> None:
    stream = guard_stream(["Hello, ", "", "world"])

    assert "".join(stream) == "Hello, world"
    assert stream.result.complete


def test_a_blocked_stream_stops_and_closes_its_source() -> None:
    source = Source(BAD * 100)
    stream = guard_stream(source, CONFIG)
    pieces = list(stream)

    assert pieces == ["All fine. ", CONFIG.replacement]
    assert source.closed
    assert source.taken < 10
    assert stream.result.refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"


def test_a_source_that_cannot_be_closed_is_just_left() -> None:
    assert list(guard_stream(BAD, CONFIG))[0] == "All fine. "  # noqa: RUF015 - the rest counts too


def test_a_stream_can_raise_after_what_may_leave() -> None:
    stream = guard_stream(BAD, RAISING)

    assert next(stream) == "All fine. "
    with pytest.raises(OutputBlockedError):
        next(stream)


def test_a_stream_blocked_at_its_end_raises_too() -> None:
    with pytest.raises(OutputBlockedError):
        list(guard_stream(["some bad words"], RAISING))


def test_when_the_source_fails_what_is_held_back_stays_back() -> None:
    stream = guard_stream(Source(["some bad "], fails=True), CONFIG)

    with pytest.raises(ConnectionError):
        list(stream)
    assert (stream.result.released, stream.result.complete) == (0, False)


def test_a_stream_can_be_given_up() -> None:
    source = Source(["text " * 100] * 3)
    stream = guard_stream(source, CONFIG)
    next(stream)
    stream.close()

    assert source.closed
    assert list(stream) == []


def test_a_rule_that_needs_too_much_text_is_named() -> None:
    output = OutputConfig(rules=toy_rules("pattern: ok", "pattern: a.{0,300}b"))

    with pytest.raises(InputError, match="rule `R1` looks at 303 characters of text") as caught:
        guard_stream([], StreamConfig(output=output, widest=200))
    assert caught.value.where is not None
    with pytest.raises(InputError, match="`R1`"):
        guard_stream_async(aiter(Source([])), StreamConfig(output=output, widest=200))


def test_an_asynchronous_stream_gives_the_same() -> None:
    async def collect(source: Source, config: StreamConfig) -> tuple[list[str], str | None]:
        stream = guard_stream_async(source, config)
        return [piece async for piece in stream], stream.result.refusal

    clean = Source(["Hello, ", "world"])
    assert asyncio.run(collect(clean, CONFIG)) == (["Hello, world"], None)
    source = Source(BAD * 100)
    pieces, refusal = asyncio.run(collect(source, CONFIG))
    assert pieces == list(guard_stream(BAD, CONFIG))
    assert refusal == "REFUSED: OUTPUT_FORBIDDEN: a toy"
    assert source.closed


def test_an_asynchronous_stream_can_raise_and_be_given_up() -> None:
    async def raise_() -> None:
        async for _ in guard_stream_async(Source(BAD), RAISING):
            pass

    async def give_up() -> bool:
        source = Source(["text " * 100] * 3)
        stream = guard_stream_async(source, CONFIG)
        await anext(stream)
        await stream.aclose()
        return source.closed

    with pytest.raises(OutputBlockedError):
        asyncio.run(raise_())
    assert asyncio.run(give_up())


def test_an_asynchronous_source_without_a_way_to_close_is_just_left() -> None:
    class Bare:
        def __init__(self) -> None:
            self.chunks = iter(BAD)

        def __aiter__(self) -> "Bare":
            return self

        async def __anext__(self) -> str:
            return next(self.chunks)

    async def collect() -> list[str]:
        return [piece async for piece in guard_stream_async(Bare(), CONFIG)]

    assert asyncio.run(collect())[-1] == CONFIG.replacement
