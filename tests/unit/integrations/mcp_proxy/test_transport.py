import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mcp_messages import Played, ProxyExchange, call, reply, request

from demur.errors import InputError
from demur.integrations.mcp_proxy.judge import ProxyRules
from demur.integrations.mcp_proxy.transport import (
    ChildUpstream,
    LineSplitter,
    StdioDownstream,
    relay_messages,
)


def cut(pieces: list[bytes], longest: int = 100) -> list[bytes | None]:
    lines = LineSplitter(longest)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.end()


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_the_same_however_the_stream_is_torn(data: bytes, places: list[int]) -> None:
    ends = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    pieces = [data[a:b] for a, b in pairwise(ends)]

    assert cut(pieces) == [line for each in data.split(b"\n") if (line := each.strip())]


def test_an_oversized_line_is_reported_and_the_next_one_is_intact() -> None:
    assert cut([b"x" * 8, b"x" * 8, b"x\nok\n"], longest=10) == [None, b"ok"]


def test_a_last_line_without_an_end_counts() -> None:
    assert cut([b"a\r\n\n", b"b"]) == [b"a", b"b"]


def test_an_oversized_last_line_is_reported() -> None:
    assert cut([b"x" * 11], longest=10) == [None]


PYTHON = sys.executable


async def said(code: str, *lines: bytes, longest: int = 1000) -> tuple[list[bytes | None], int]:
    child = await ChildUpstream.start([PYTHON, "-c", code], max_bytes=longest, grace_s=10)
    for line in lines:
        await child.send(line)
    heard = [line async for line in child.lines()]
    return heard, await child.close()


def test_lines_go_in_and_come_out_and_the_status_is_the_childs() -> None:
    code = "import sys; print(input()); print('x' * 2000); print('last', end=''); sys.exit(7)"

    assert asyncio.run(said(code, b"hello")) == ([b"hello", None, b"last"], 7)


def test_a_child_that_was_killed_has_the_status_of_a_shell() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    assert asyncio.run(said(code)) == ([], 128 + signal.SIGKILL)


def test_a_message_to_an_exited_child_is_dropped() -> None:
    async def late() -> int:
        child = await ChildUpstream.start([PYTHON, "-c", ""])
        assert [line async for line in child.lines()] == []
        for _ in range(3):
            await child.send(b"x" * 100_000)
            await asyncio.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        return await child.close()

    assert asyncio.run(late()) == 0


def test_a_child_ends_when_its_input_does() -> None:
    async def closed() -> int:
        child = await ChildUpstream.start(
            [PYTHON, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
        )
        return await child.close()

    assert asyncio.run(closed()) == 3


@pytest.mark.parametrize("more", ["", "import signal; signal.signal(15, signal.SIG_IGN); "])
def test_a_child_that_does_not_end_is_ended(more: str) -> None:
    async def stubborn() -> int:
        code = f"{more}import time; print('up', flush=True); time.sleep(60)"
        child = await ChildUpstream.start([PYTHON, "-c", code], grace_s=0.2)
        assert await anext(child.lines()) == b"up"
        return await child.close()

    assert asyncio.run(stubborn()) == 0


@pytest.mark.parametrize("command", ["/no/such/program", "a\0b"])
def test_a_command_that_cannot_start_is_an_error(command: str) -> None:
    with pytest.raises(InputError, match="cannot start the server"):
        asyncio.run(ChildUpstream.start([command]))


ENDLESS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(15, signal.SIG_IGN); {ENDLESS}"


def wrapped(code: str, *, then: str) -> list[str]:
    """Return a command whose shell stays between us and the server."""
    return ["sh", "-c", f'{PYTHON} -c "{code}"{then}']


async def gone(child: ChildUpstream) -> bool:
    """Return whether nobody is left who could write to our pipe."""
    try:
        async with asyncio.timeout(20):
            return [line async for line in child.lines()] == []
    except TimeoutError:
        return False


@pytest.mark.skipif(os.name != "posix", reason="groups of processes are those of POSIX")
@pytest.mark.parametrize("code", [ENDLESS, STUBBORN], ids=["soft", "stubborn"])
@pytest.mark.parametrize("then", ["; true", " & read line"], ids=["waits", "leaves"])
def test_processes_started_by_a_shell_end_with_it(code: str, then: str) -> None:
    async def played() -> bool:
        child = await ChildUpstream.start(wrapped(code, then=then), grace_s=0.3)
        assert await anext(child.lines()) == b"up"
        await child.close()
        return await gone(child)

    assert asyncio.run(played())


@pytest.mark.skipif(os.name != "posix", reason="groups of processes are those of POSIX")
def test_a_signal_reaches_what_a_shell_has_started() -> None:
    async def played() -> bool:
        child = await ChildUpstream.start(wrapped(ENDLESS, then="; true"))
        assert await anext(child.lines()) == b"up"
        child.send_signal(signal.SIGTERM)
        try:
            return await gone(child)
        finally:
            await child.close()

    assert asyncio.run(played())


def test_where_there_are_no_groups_the_child_alone_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("demur.integrations.mcp_proxy.transport._HAS_GROUPS", False)

    async def played() -> int:
        child = await ChildUpstream.start([PYTHON, "-c", ENDLESS], grace_s=0.2)
        assert await anext(child.lines()) == b"up"
        return await child.close()

    assert asyncio.run(played()) == 0


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


def test_sending_to_a_client_that_does_not_read_can_be_cancelled(pipe: tuple[int, int]) -> None:
    async def tried() -> None:
        async with asyncio.timeout(0.05):
            await StdioDownstream(0, pipe[1]).send(b"x" * 1_000_000)

    with pytest.raises(TimeoutError):
        asyncio.run(tried())


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
        guard = ProxyExchange(ProxyRules(deny=["delete"])).guard
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
        return client.heard, await relay_messages(ProxyExchange().guard, client, server)

    heard, status = asyncio.run(played())

    assert [one["id"] for one in heard] == [1, "b"]
    assert all("gone (status 7)" in one["error"]["message"] for one in heard)
    assert status == 7


def test_being_stopped_ends_both() -> None:
    async def played() -> int:
        stopped = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, stopped.set)
        return await relay_messages(
            ProxyExchange().guard, Played(stays=True), Played(stays=True), stopped
        )

    assert asyncio.run(played()) == 0


class _Deaf(Played):
    async def send(self, _line: bytes) -> None:
        raise BrokenPipeError


def test_a_client_that_no_longer_reads_has_ended() -> None:
    async def played() -> int:
        return await relay_messages(
            ProxyExchange().guard, _Deaf(line(request("ping"))), _Answering(status=3)
        )

    assert asyncio.run(played()) == 3


class _Broken(Played):
    async def send(self, _line: bytes) -> None:
        raise ValueError("odd")


def test_an_internal_error_is_not_swallowed() -> None:
    async def played() -> int:
        return await relay_messages(ProxyExchange().guard, Played(b"nonsense"), _Broken(stays=True))

    async def worse() -> int:
        return await relay_messages(ProxyExchange().guard, _Broken(b"nonsense"), Played(stays=True))

    assert asyncio.run(played()) == 0
    with pytest.raises(ValueError, match="odd"):
        asyncio.run(worse())
