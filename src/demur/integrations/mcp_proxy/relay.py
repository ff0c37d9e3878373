"""The relay: carries messages between a client and a server, past the guard, until one ends."""

import asyncio
import contextlib

from demur.integrations.mcp_proxy.guard import ConnectionGuard, ProxyOutput
from demur.integrations.mcp_proxy.upstream import Peer, Upstream

__all__ = ["relay_messages"]


# How long to wait for the last messages of a closed server, and for the client to read them.
_DRAIN_S = 2.0


async def relay_messages(
    guard: ConnectionGuard, client: Peer, server: Upstream, stopped: asyncio.Event | None = None
) -> int:
    """Relay messages until one side ends, and return the server's exit status.

    If the client ends, the relay closes the server. If the server ends, every open request of
    the client gets an error. `stopped` ends both.
    """
    inbound = asyncio.create_task(_from_client(guard, client, server))
    outbound = asyncio.create_task(_from_server(guard, client, server))
    told = asyncio.create_task((stopped or asyncio.Event()).wait())
    try:
        await asyncio.wait({inbound, outbound, told}, return_when=asyncio.FIRST_COMPLETED)
        # A server may still send messages after it was closed.
        status = await server.close()
        await asyncio.wait({outbound}, timeout=_DRAIN_S)
        with contextlib.suppress(BrokenPipeError, TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for line in guard.fail_open_requests(f"the server is gone (status {status})"):
                    await client.send(line)
    finally:
        for task in (inbound, outbound, told):
            task.cancel()
        ended = await asyncio.gather(inbound, outbound, told, return_exceptions=True)
    for problem in ended:
        if isinstance(problem, Exception) and not isinstance(problem, BrokenPipeError):
            raise problem
    return status


async def _from_client(guard: ConnectionGuard, client: Peer, server: Upstream) -> None:
    async for line in client.lines():
        await _deliver_output(await guard.from_client(line), client, server)


async def _from_server(guard: ConnectionGuard, client: Peer, server: Upstream) -> None:
    async for line in server.lines():
        await _deliver_output(await guard.from_server(line), client, server)


async def _deliver_output(out: ProxyOutput, client: Peer, server: Upstream) -> None:
    for line in out.to_server:
        await server.send(line)
    for line in out.to_client:
        await client.send(line)
