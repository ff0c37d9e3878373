import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from support.mcp_frontend import BOTH, HELLO, Site
from support.mcp_messages import note, reply, request

from demur.errors import InputError
from demur.integrations.mcp_proxy.http_listener import bind_listener, listener_url, serve_clients

HEADERS = {"accept": BOTH, "content-type": "application/json"}


def events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_clients_are_served_until_the_stop_event() -> None:
    async def played() -> None:
        site, stopped = Site(), asyncio.Event()
        with bind_listener("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(
                serve_clients(
                    site.front, site.sessions, listener, stopped, max_sessions=3, sweep_s=0.01
                )
            )
            url = listener_url(listener)
            async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
                hello = await http.post(url, json=HELLO)
                named = {"mcp-session-id": hello.headers["mcp-session-id"]}
                assert events(hello.text) == [reply(0, {"to": "initialize"})]
                async with http.stream("GET", url, headers=named) as heard:
                    lines = heard.aiter_lines()
                    site.servers[0].say(note("x"))
                    async for line in lines:
                        if line.startswith("data: "):
                            assert json.loads(line[6:]) == note("x")
                            break
                    asking = asyncio.create_task(
                        http.post(url, json=request("wait", 1), headers=named)
                    )
                    await site.servers[0].until(lambda: len(site.servers[0].heard) == 2)
                    stopped.set()
                    # What waits is answered, and who listens is let go.
                    [answer] = events((await asking).text)
                    assert answer["error"]["code"] == -32000
                    assert [line async for line in lines] in ([], [""], ["", ""])
            async with asyncio.timeout(60):
                await serving
        assert site.servers[0].closed

    asyncio.run(played())


@contextlib.asynccontextmanager
async def served(site: Site, **more: Any) -> AsyncIterator[str]:
    """Give the address of a site that is served with room for one session."""
    stopped = asyncio.Event()
    with bind_listener("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(
            serve_clients(site.front, site.sessions, listener, stopped, max_sessions=1, **more)
        )
        try:
            async with asyncio.timeout(60):
                yield listener_url(listener)
        finally:
            stopped.set()
            await serving


def test_one_session_may_ask_for_much_at_once() -> None:
    async def played() -> None:
        site = Site()
        async with served(site) as url, httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
            hello = await http.post(url, json=HELLO)
            named = {"mcp-session-id": hello.headers["mcp-session-id"]}
            [toy] = site.servers
            asking = [
                asyncio.create_task(http.post(url, json=request("wait", number), headers=named))
                for number in range(1, 41)
            ]
            await toy.until(lambda: len(toy.heard) == 41)
            for number in range(1, 41):
                toy.say(reply(number, {}))
            answers = await asyncio.gather(*asking)
            assert {answer.status_code for answer in answers} == {200}

    asyncio.run(played())


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST /mcp HT", b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\nPOST /mcp HTTP/1.1\r\n"],
    ids=["silent", "first", "second"],
)
def test_an_incomplete_request_is_closed_after_the_idle_timeout(begun: bytes) -> None:
    async def played() -> None:
        async with served(Site(), idle_timeout_s=1) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
            writer.write(begun)
            await reader.read(-1)
            writer.close()

    asyncio.run(played())


def test_a_client_waiting_for_an_answer_is_not_timed_out() -> None:
    async def played() -> None:
        site = Site()
        async with (
            served(site, idle_timeout_s=1) as url,
            httpx.AsyncClient(headers=HEADERS, timeout=60) as http,
        ):
            hello = await http.post(url, json=HELLO)
            named = {"mcp-session-id": hello.headers["mcp-session-id"]}
            asking = asyncio.create_task(http.post(url, json=request("wait", 1), headers=named))
            await asyncio.sleep(2.5)
            site.servers[0].say(reply(1, {}))
            assert events((await asking).text) == [reply(1, {})]

    asyncio.run(played())


def test_a_head_without_end_is_not_read() -> None:
    async def played() -> None:
        async with served(Site()) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
            # Whatever is left to be read then, the connection ends.
            with contextlib.suppress(ConnectionError):
                writer.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 200_000)
                assert (await reader.read(-1)).startswith(b"HTTP/1.1 400")
            writer.close()

    asyncio.run(played())


def test_idle_sessions_are_swept() -> None:
    async def played() -> None:
        site, stopped = Site(), asyncio.Event()
        with bind_listener("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(
                serve_clients(
                    site.front, site.sessions, listener, stopped, max_sessions=3, sweep_s=0.01
                )
            )
            await site.greet()
            site.now = 1000
            await site.servers[0].until(lambda: site.servers[0].closed)
            stopped.set()
            await serving

    asyncio.run(played())


def test_an_address_in_use_is_an_error() -> None:
    with bind_listener("localhost", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen"):
            bind_listener(listener.getsockname()[0], port)
    with pytest.raises(InputError, match="cannot listen"):
        bind_listener("no.such.host.invalid", 1)


def test_an_address_of_six_is_written_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = bind_listener("::1", 0)
    except InputError:
        pytest.skip("no IPv6 here")
    with listener:
        assert listener_url(listener).startswith("http://[::1]:")
