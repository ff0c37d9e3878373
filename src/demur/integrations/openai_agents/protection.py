"""Guardrails on an agent of the OpenAI Agents SDK, on its tools, and on whom it hands over to."""

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

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
from demur.integrations.openai_agents.handover import Asks, Handover, Whither

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
# By the id of an agent, which is kept with it so that no other has that id: its guarded copy.
_Done = dict[int, tuple[Agent[Any], Agent[Any]]]


class Protection(NamedTuple):
    """What is attached.

    `asks` rules on handoffs, `waits` says which calls wait for a person. Tools that are named
    in `unguarded` may go without, and are kept in `exempt`, by id: those may go ever after.
    """

    input: InputGuardrail[Any]
    output: OutputGuardrail[Any]
    tool_input: ToolInputGuardrail[Any]
    tool_output: ToolOutputGuardrail[Any]
    asks: Asks
    waits: _Waits | None
    exempt: WeakValueDictionary[int, Any]
    unguarded: frozenset[str] = frozenset()

    def agent(self, agent: Agent[Any], done: _Done) -> Agent[Any]:
        """Return a guarded copy of the agent, or itself if nothing is left to be guarded.

        `done` are the agents that have a copy already.

        Raises:
            InputError: A tool that runs here cannot be guarded.
        """
        if not isinstance(agent, Agent):
            raise InputTypeError.expected("agent", "an `Agent`", agent)
        if id(agent) in done:
            return done[id(agent)][1]
        return agent if self.holds(agent, set()) else self._copy(agent, done)

    def holds(self, agent: Agent[Any], seen: set[int]) -> bool:
        """Return whether an agent is guarded throughout; `seen` are those looked at already.

        A guardrail of ours says nothing of the tools beside it: each is looked at.
        """
        if id(agent) in seen:
            return True
        seen.add(id(agent))
        return (
            _has(agent.input_guardrails, self.input)
            and _has(agent.output_guardrails, self.output)
            and all(map(self._holds_tool, agent.tools))
            and all(map(self._holds_rails, agent.mcp_servers))
            and all(self._holds_handoff(one, agent, seen) for one in agent.handoffs)
        )

    def _holds_tool(self, tool: Any) -> bool:
        if not isinstance(tool, FunctionTool):
            return self._may_go_without(tool)
        return self._holds_rails(tool) and self._holds_wait(tool)

    def _holds_rails(self, one: Any) -> bool:
        inside = _has(one.tool_input_guardrails, self.tool_input)
        return inside and _has(one.tool_output_guardrails, self.tool_output)

    def _holds_wait(self, tool: FunctionTool) -> bool:
        return self.waits is None or getattr(tool.needs_approval, "func", None) == self.waits

    def _holds_handoff(self, one: Any, owner: Agent[Any], seen: set[int]) -> bool:
        if isinstance(one, Agent):
            return self.holds(one, seen)
        return isinstance(one, Handover) and one.asks == self.asks and one.whither.owner is owner

    def _copy(self, agent: Agent[Any], done: _Done) -> Agent[Any]:
        clone = agent.clone(
            tools=[self._tool(tool) for tool in agent.tools],
            input_guardrails=_with(agent.input_guardrails, self.input),
            output_guardrails=_with(agent.output_guardrails, self.output),
        )
        # Before its handovers: agents may hand over to each other in a circle.
        done[id(agent)] = (agent, clone)
        done[id(clone)] = (clone, clone)
        clone.handoffs = [self._handoff(one, clone, done) for one in agent.handoffs]
        for server in clone.mcp_servers:
            server.tool_input_guardrails = _with(server.tool_input_guardrails, self.tool_input)
            server.tool_output_guardrails = _with(server.tool_output_guardrails, self.tool_output)
        return clone

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            self._check_other(tool)
            return tool
        if self._holds_tool(tool):
            return tool
        waits = tool.needs_approval
        if not self._holds_wait(tool):
            assert self.waits is not None
            waits = partial(self.waits, tool.qualified_name, waits)
        return dataclasses.replace(
            tool,
            tool_input_guardrails=_with(tool.tool_input_guardrails, self.tool_input),
            tool_output_guardrails=_with(tool.tool_output_guardrails, self.tool_output),
            needs_approval=waits,
        )

    def _check_other(self, tool: Any) -> None:
        if tool.name in self.unguarded:
            self.exempt[id(tool)] = tool
        if not self._may_go_without(tool):
            raise InputError(
                f"the tool `{tool.name}` cannot be guarded",
                where="tools",
                help="make it a function tool, or name it in `unguarded`",
            )

    def _may_go_without(self, tool: Any) -> bool:
        hosted = isinstance(tool, _HOSTED) or (isinstance(tool, ShellTool) and not tool.executor)
        return hosted or id(tool) in self.exempt

    def _handoff(
        self, one: Agent[Any] | Handoff[Any, Any], owner: Agent[Any], done: _Done
    ) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(one, Agent):
            return self.agent(one, done)
        inner = one.inner if isinstance(one, Handover) and one.asks == self.asks else one
        known = getattr(inner, "_agent_ref", None)
        target = None if known is None else known()
        if target is not None:
            target = self.agent(target, done)

        def guarded(agent: Agent[Any]) -> Agent[Any]:
            # One that is made for this run alone is not kept.
            return self.agent(agent, {**done})

        return Handover(inner, self.asks, Whither(owner, target, guarded))


def _has(guardrails: Iterable[Any] | None, ours: Any) -> bool:
    return any(one is ours for one in guardrails or ())


def _with(guardrails: Iterable[Any] | None, ours: Any) -> list[Any]:
    """Return the guardrails and ours, once."""
    return [*(one for one in guardrails or () if one is not ours), ours]
