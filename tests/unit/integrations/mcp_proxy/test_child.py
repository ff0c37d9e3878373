import asyncio
import os
import signal
import sys

import pytest

from demur.errors import InputError
from demur.integrations.mcp_proxy.child import ChildUpstream

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


def test_what_is_sent_to_a_child_that_is_gone_is_lost() -> None:
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
def test_what_a_shell_has_started_ends_with_it(code: str, then: str) -> None:
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
    monkeypatch.setattr("demur.integrations.mcp_proxy.child._HAS_GROUPS", False)

    async def played() -> int:
        child = await ChildUpstream.start([PYTHON, "-c", ENDLESS], grace_s=0.2)
        assert await anext(child.lines()) == b"up"
        return await child.close()

    assert asyncio.run(played()) == 0
