"""The stage of the MCP proxy: the SDK's own client and server, and the proxy's relay between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from demur.emit.hosts import from_mcp, from_mcp_denial
from demur.enforce.enforcer import Enforcer
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.mcp_proxy.definitions import DefinitionGuard
from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import CARRIED, ProxyJudge
from demur.integrations.mcp_proxy.transport import relay_messages
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = ["DRIVERS", "MCPProxyDriver"]


class MCPProxyDriver:
    """Runs scenarios by calling tools of an unguarded server through the proxy."""

    name = "mcp-proxy"
    points = frozenset({CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    ends_runs = False

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        return asyncio.run(_played(scenario, enforcer, tools))


DRIVERS: tuple[FrameworkDriver, ...] = (MCPProxyDriver(),)


async def _played(scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools) -> ScenarioResult:
    server = MCPServer("stage", log_level="CRITICAL")
    for name in tools.names:
        server.add_tool(_tool(name, tools), name=name, description=f"The tool {name}.")
    looks = GuardPipeline([GuardStep(DefinitionGuard())])
    calls = Enforcer.coerce(enforcer, carried=CARRIED)
    judge = ProxyJudge("stage", calls, Enforcer(enforcer.gate, pipeline=looks))
    refusals: list[Refusal] = []
    heard: list[str] = []
    async with Client(_proxied(server, ConnectionGuard(judge, notify=_unsaid))) as client:
        await client.list_tools()
        for turn in scenario.turns:
            for name, given in turn.calls if isinstance(turn, ToolTurn) else ():
                refusal, text = await _called(client, name, dict(given))
                refusals += [] if refusal is None else [refusal]
                heard.append(text)
    return ScenarioResult(refusals[-1] if refusals else None, "", "\n".join(heard))


def _unsaid(_note: str) -> None:
    pass


class _Wire:
    """A side of the relay, over the SDK's own streams in memory."""

    def __init__(self, reads: Any, writes: Any) -> None:
        self._reads = reads
        self._writes = writes

    async def lines(self) -> AsyncIterator[bytes | None]:
        async for one in self._reads:
            yield one.message.model_dump_json(by_alias=True, exclude_unset=True).encode()

    async def send(self, line: bytes) -> None:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        await self._writes.send(SessionMessage(message))

    async def close(self) -> int:
        await self._writes.aclose()
        return 0


@asynccontextmanager
async def _proxied(server: MCPServer, guard: ConnectionGuard) -> AsyncIterator[Any]:
    """Yield the streams of a client whose messages pass the relay to a server in memory."""
    to_proxy, from_client = anyio.create_memory_object_stream[Any](100)
    to_client, from_proxy = anyio.create_memory_object_stream[Any](100)
    # All ends are closed, also if the client or the server fails: an open one would surface as a
    # warning in whatever test runs when it is collected.
    async with to_client, from_client, from_proxy, InMemoryTransport(server) as (reads, writes):
        ends = _Wire(from_client, to_client), _Wire(reads, writes)
        relaying = asyncio.create_task(relay_messages(guard, *ends))
        try:
            yield from_proxy, to_proxy
        finally:
            await to_proxy.aclose()
            await relaying


async def _called(client: Client, name: str, given: dict[str, Any]) -> tuple[Refusal | None, str]:
    """Return the refusal where the protocol has a place for it, and all that came over the wire."""
    try:
        result: Any = await client.call_tool(name, given)
    except MCPError as error:
        data = {"error": error.error.model_dump(mode="json")}
        return from_mcp_denial(data), str(data)
    wire = result.model_dump(mode="json", by_alias=True)
    return from_mcp(wire), str(wire)


def _tool(name: str, tools: ScenarioTools) -> Any:
    def run(  # noqa: PLR0917 - a server wants declared what the tools of all scenarios take
        order_id: str = "",
        amount: float = 0,
        currency: str = "",
        chargeback_risk: float = 0,
        folder: str = "",
        disk: str = "",
        url: str = "",
        command: str = "",
    ) -> str:
        given = (order_id, amount, currency, chargeback_risk, folder, disk, url, command)
        return tools.run(name, {"given": given})

    return run
