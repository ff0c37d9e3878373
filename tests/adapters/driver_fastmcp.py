"""The stage of FastMCP: a guarded server, and its own client in memory."""

from typing import Any

from adapters.mcp_driver_base import ServerDriver
from fastmcp import Client, FastMCP

from demur.enforce.enforcer import Enforcer
from demur.integrations.fastmcp import FastMCPGuard

__all__ = ["DRIVERS", "FastMCPDriver"]


class FastMCPDriver(ServerDriver):
    """Runs scenarios on a server of FastMCP."""

    name = "fastmcp"

    def client(self, enforcer: Enforcer, tools: dict[str, Any]) -> Client[Any]:
        """Return a client of a guarded server."""
        server: FastMCP[Any] = FastMCP("stage", middleware=[FastMCPGuard(enforcer)])
        for name, tool in tools.items():
            server.tool(tool, name=name)
        return Client(server)

    async def call(self, client: Client[Any], name: str, given: dict[str, Any]) -> Any:
        """Return the result of a call."""
        return await client.call_tool_mcp(name, given)


DRIVERS = (FastMCPDriver(),)
