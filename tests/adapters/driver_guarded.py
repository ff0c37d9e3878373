"""Scenes played by plain Python: an agent's loop around guarded functions, called or awaited."""

import asyncio
from collections.abc import Callable
from typing import Any

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations.guarded import guarded
from demur.testing.scenarios import (
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = ["DRIVERS", "GuardedDriver"]


class GuardedDriver:
    """Runs scenarios of tools: each is a function of its own, and a hard refusal ends the loop."""

    points = frozenset({CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    ends_runs = True

    def __init__(self, *, awaited: bool = False) -> None:
        self.name = "guarded, awaited" if awaited else "guarded"
        self._awaited = awaited

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        functions = {name: self._function(name, enforcer, tools) for name in tools.names}
        refusal = from_envelope(None)
        heard: list[str] = []
        for turn in scenario.turns:
            for name, arguments in turn.calls if isinstance(turn, ToolTurn) else ():
                try:
                    heard.append(functions[name](**arguments))
                except Refused as refused:
                    refusal = from_envelope(refused.envelope)
                    if refused.result.is_hard:
                        return ScenarioResult(refusal)
                    heard.append(refused.result.model_message)
        return ScenarioResult(refusal, model_input="\n".join(heard))

    def _function(self, name: str, enforcer: Enforcer, tools: ScenarioTools) -> Callable[..., str]:
        guard = guarded(enforcer, action=name, run="run-1", check_return=True)

        @guard
        def tool(**arguments: Any) -> str:
            return tools.run(name, arguments)

        @guard
        async def awaited_tool(**arguments: Any) -> str:
            await asyncio.sleep(0)
            return tools.run(name, arguments)

        if self._awaited:
            return lambda **arguments: asyncio.run(awaited_tool(**arguments))
        return tool


DRIVERS: tuple[FrameworkDriver, ...] = (GuardedDriver(), GuardedDriver(awaited=True))
