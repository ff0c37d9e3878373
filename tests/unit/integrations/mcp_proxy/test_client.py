import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.integrations.mcp_proxy.client import StdioDownstream


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


async def heard(client: StdioDownstream) -> list[bytes | None]:
    return [line async for line in client.lines()]


def test_lines_are_read_from_a_pipe_until_it_ends(pipe: tuple[int, int]) -> None:
    source, target = pipe
    os.write(target, b"a\nb\n" + b"x" * 50 + b"\nlast")
    os.close(target)

    assert asyncio.run(heard(StdioDownstream(source, 1, max_bytes=20))) == [
        b"a",
        b"b",
        None,
        b"last",
    ]


def test_lines_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x\n" * 100_000)
    with path.open("rb") as file:
        assert len(asyncio.run(heard(StdioDownstream(file.fileno(), 1)))) == 100_000


def test_a_source_that_cannot_be_read_has_ended() -> None:
    assert asyncio.run(heard(StdioDownstream(-1, 1))) == []


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_lines_are_written_whole_also_to_a_slow_reader(pipe: tuple[int, int], size: int) -> None:
    source, target = pipe
    got = bytearray()

    def read() -> None:
        while len(got) < size + 1:
            got.extend(os.read(source, 65_536))

    reader = threading.Thread(target=read)
    reader.start()
    asyncio.run(StdioDownstream(0, target).send(b"x" * size))
    reader.join()

    assert got == b"x" * size + b"\n"


def test_nobody_reading_is_an_error(pipe: tuple[int, int]) -> None:
    source, target = pipe
    os.close(source)

    with pytest.raises(BrokenPipeError):
        asyncio.run(StdioDownstream(0, target).send(b"x"))


def test_messages_of_two_senders_are_not_mixed(pipe: tuple[int, int]) -> None:
    source, target = pipe
    lines = [bytes([letter]) * 200_000 for letter in b"abc"]

    async def both() -> bytes:
        client = StdioDownstream(0, target)
        sending = asyncio.gather(*map(client.send, lines))
        got = b""
        while len(got) < 600_003:
            got += await asyncio.to_thread(os.read, source, 65_536)
        await sending
        return got

    assert asyncio.run(both()).split() == lines


def test_a_file_will_do_as_a_target(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file:
        asyncio.run(StdioDownstream(0, file.fileno()).send(b"x"))

    assert path.read_bytes() == b"x\n"


def test_a_client_that_does_not_read_can_be_given_up(pipe: tuple[int, int]) -> None:
    async def tried() -> None:
        async with asyncio.timeout(0.05):
            await StdioDownstream(0, pipe[1]).send(b"x" * 1_000_000)

    with pytest.raises(TimeoutError):
        asyncio.run(tried())
