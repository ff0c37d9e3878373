"""Scenarios run by deep agents, waited for and awaited."""

from typing import Any

from adapters.driver_langchain import LangChainDriver, ScriptedModel
from deepagents import create_deep_agent
from langchain_core.tools import BaseTool

from demur.enforce.enforcer import Enforcer
from demur.integrations.deepagents import DeepAgentsGuard
from demur.testing.scenarios import FrameworkDriver

__all__ = ["DRIVERS", "DeepAgentDriver"]


class DeepAgentDriver(LangChainDriver):
    """An agent of `create_deep_agent` with guarded subagents."""

    def __init__(self, *, awaited: bool = False) -> None:
        super().__init__(awaited=awaited)
        self.name = "deepagents-async" if awaited else "deepagents"

    def create_agent(self, model: ScriptedModel, tools: list[BaseTool], enforcer: Enforcer) -> Any:
        """Return a deep agent with guarded subagents."""
        guard = DeepAgentsGuard(enforcer)
        subagents = guard.protect_subagents()
        return create_deep_agent(model, tools, middleware=[guard], subagents=subagents)


DRIVERS: tuple[FrameworkDriver, ...] = (DeepAgentDriver(), DeepAgentDriver(awaited=True))
