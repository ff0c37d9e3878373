"""Guardrails on an agent of the OpenAI Agents SDK, on its tools, and on whom it hands over to."""

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    ImageGenerationTool,
    InputGuardrail,
    OutputGuardrail,
    ProgrammaticToolCallingTool,
    RunContextWrapper,
    ShellTool,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    ToolSearchTool,
    WebSearchTool,
)

from demur.errors import InputError, InputTypeError

__all__ = ["Protection"]

# They run at the provider. All others run on this machine, without a place for guardrails.
_HOSTED = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    ToolSearchTool,
    WebSearchTool,
)

# From a tool's name and its own setting to whether a call waits: run, arguments, id of the call.
_Waits = Callable[[str, Any, RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]


class Protection(NamedTuple):
    """What is attached. `waits` says which calls wait for a person; `unguarded` may go without."""

    input: InputGuardrail[Any]
    output: OutputGuardrail[Any]
    tool_input: ToolInputGuardrail[Any]
    tool_output: ToolOutputGuardrail[Any]
    waits: _Waits | None = None
    unguarded: frozenset[str] = frozenset()

    def agent(self, agent: Agent[Any], done: dict[int, Agent[Any]]) -> Agent[Any]:
        """Return a guarded copy of the agent; `done` are those that have one already.

        Raises:
            InputError: A tool that runs here cannot be guarded.
        """
        if not isinstance(agent, Agent):
            raise InputTypeError.expected("agent", "an `Agent`", agent)
        if id(agent) in done:
            return done[id(agent)]
        clone = agent.clone(
            tools=[self._tool(tool) for tool in agent.tools],
            input_guardrails=_with(agent.input_guardrails, self.input),
            output_guardrails=_with(agent.output_guardrails, self.output),
        )
        # Before its handovers: agents may hand over to each other in a circle.
        done[id(agent)] = done[id(clone)] = clone
        clone.handoffs = [self._handoff(one, done) for one in agent.handoffs]
        for server in clone.mcp_servers:
            server.tool_input_guardrails = _with(server.tool_input_guardrails, self.tool_input)
            server.tool_output_guardrails = _with(server.tool_output_guardrails, self.tool_output)
        return clone

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            self._check_other(tool)
            return tool
        waits = tool.needs_approval
        if self.waits is not None and getattr(waits, "func", None) != self.waits:
            waits = partial(self.waits, tool.qualified_name, waits)
        return dataclasses.replace(
            tool,
            tool_input_guardrails=_with(tool.tool_input_guardrails, self.tool_input),
            tool_output_guardrails=_with(tool.tool_output_guardrails, self.tool_output),
            needs_approval=waits,
        )

    def _check_other(self, tool: Any) -> None:
        hosted = isinstance(tool, _HOSTED) or (isinstance(tool, ShellTool) and not tool.executor)
        if not hosted and tool.name not in self.unguarded:
            raise InputError(
                f"the tool `{tool.name}` cannot be guarded",
                where="tools",
                help="make it a function tool, or name it in `unguarded`",
            )

    def _handoff(
        self, one: Agent[Any] | Handoff[Any, Any], done: dict[int, Agent[Any]]
    ) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(one, Agent):
            return self.agent(one, done)
        invoke = one.on_invoke_handoff

        async def invoked(ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self.agent(await invoke(ctx, arguments), done)

        handoff = copy.copy(one)
        handoff.on_invoke_handoff = invoked
        return handoff


def _with(guardrails: Iterable[Any] | None, ours: Any) -> list[Any]:
    """Return the guardrails and ours, once."""
    return [*(one for one in guardrails or () if one is not ours), ours]
