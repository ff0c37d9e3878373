"""What the stages of MCP servers share: a guarded server, and its own client in memory."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.shared.exceptions import MCPError

from demur.emit.hosts import from_mcp, from_mcp_denial
from demur.enforce.enforcer import Enforcer
from demur.model.refusal import Refusal
from demur.testing.scenarios import CheckPoint, Scenario, ScenarioResult, ScenarioTools, ToolTurn

__all__ = ["ServerDriver"]


class ServerDriver(ABC):
    """Runs scenarios by calling tools of a server, as a host does for its model."""

    points = frozenset({CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    ends_runs = False

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        named = {name: _tool(name, tools) for name in tools.names}
        return asyncio.run(self._played(scenario, self.client(enforcer, named)))

    @abstractmethod
    def client(self, enforcer: Enforcer, tools: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Return a client of a server with these tools, not connected yet."""

    @abstractmethod
    async def call(self, client: Any, name: str, given: dict[str, Any]) -> Any:
        """Return the result of a call, as the protocol has it."""

    async def _played(
        self, scenario: Scenario, opening: AbstractAsyncContextManager[Any]
    ) -> ScenarioResult:
        refusals: list[Refusal] = []
        heard: list[str] = []
        async with opening as client:
            for turn in scenario.turns:
                for name, given in turn.calls if isinstance(turn, ToolTurn) else ():
                    refusal, text = await self._called(client, name, dict(given))
                    refusals += [] if refusal is None else [refusal]
                    heard.append(text)
        return ScenarioResult(refusals[-1] if refusals else None, "", "\n".join(heard))

    async def _called(
        self, client: Any, name: str, given: dict[str, Any]
    ) -> tuple[Refusal | None, str]:
        """Return the refusal where the protocol has a place for it, and all that came."""
        try:
            result = await self.call(client, name, given)
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
