"""The stage of the MCP Python SDK: a guarded `MCPServer`, and its own client in memory."""

from typing import Any

from adapters.mcp_driver_base import ServerDriver
from mcp import Client
from mcp.server.mcpserver import MCPServer

from demur.enforce.enforcer import Enforcer
from demur.integrations.mcp import MCPGuard

__all__ = ["DRIVERS", "MCPDriver"]


class MCPDriver(ServerDriver):
    """Runs scenarios on a server of the SDK."""

    name = "mcp"

    def client(self, enforcer: Enforcer, tools: dict[str, Any]) -> Client:
        """Return a client of a guarded server."""
        server = MCPServer("stage", middleware=[MCPGuard(enforcer)], log_level="CRITICAL")
        for name, tool in tools.items():
            server.add_tool(tool, name=name, description=f"The tool {name}.")
        return Client(server)

    async def call(self, client: Client, name: str, given: dict[str, Any]) -> Any:
        """Return the result of a call."""
        return await client.call_tool(name, given)


DRIVERS = (MCPDriver(),)
