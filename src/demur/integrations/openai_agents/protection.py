"""Guardrails on an agent of the OpenAI Agents SDK, on its tools, and on whom it hands over to."""

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from agents import (
    Agent,
    CodeInterpreterTool,
    CustomTool,
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
from agents.sandbox import SandboxAgent

from demur.errors import InputError, InputTypeError
from demur.integrations.openai_agents.capability import guarded_capability, is_guarded_by
from demur.integrations.openai_agents.custom import Custom, Rulings
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

    `asks` rules on handoffs, `waits` says which calls wait for a person: of all tools, or
    else of those that have a wish of their own. `rulings` are for tools that have no place for
    guardrails. Tools that are named in `unguarded` may go without, and are kept in `exempt`, by
    id: those may go ever after.
    """

    input: InputGuardrail[Any]
    output: OutputGuardrail[Any]
    tool_input: ToolInputGuardrail[Any]
    tool_output: ToolOutputGuardrail[Any]
    asks: Asks
    waits: _Waits
    rulings: Rulings
    exempt: WeakValueDictionary[int, Any]
    unguarded: frozenset[str] = frozenset()
    all_wait: bool = False

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
            and all(self._holds_tool(tool, seen) for tool in agent.tools)
            and all(map(self._holds_rails, agent.mcp_servers))
            and all(is_guarded_by(one, self.tool_input) for one in _capabilities(agent))
            and all(self._holds_handoff(one, agent, seen) for one in agent.handoffs)
        )

    def _holds_tool(self, tool: Any, seen: set[int]) -> bool:
        if isinstance(tool, Custom) and tool.rulings == self.rulings:
            return True
        if not isinstance(tool, FunctionTool):
            return self._may_go_without(tool)
        within = id(tool) in self.exempt or self._holds_behind(tool, seen)
        return within and self._holds_rails(tool) and self._holds_wait(tool)

    def _holds_behind(self, tool: FunctionTool, seen: set[int]) -> bool:
        """Return whether the agent that runs as a tool is guarded, if it is one."""
        behind = getattr(tool, "_agent_instance", None)
        return behind is None or self.holds(behind, seen)

    def _holds_rails(self, one: Any) -> bool:
        inside = _has(one.tool_input_guardrails, self.tool_input)
        return inside and _has(one.tool_output_guardrails, self.tool_output)

    def _holds_wait(self, tool: FunctionTool) -> bool:
        own = tool.needs_approval
        return getattr(own, "func", None) == self.waits or (own is False and not self.all_wait)

    def _holds_handoff(self, one: Any, owner: Agent[Any], seen: set[int]) -> bool:
        if isinstance(one, Agent):
            return self.holds(one, seen)
        return isinstance(one, Handover) and one.asks == self.asks and one.whither.owner is owner

    def _copy(self, agent: Agent[Any], done: _Done) -> Agent[Any]:
        more = {} if not _capabilities(agent) else {"capabilities": self._capabilities(agent)}
        clone = agent.clone(
            tools=[self._tool(tool) for tool in agent.tools],
            input_guardrails=_with(agent.input_guardrails, self.input),
            output_guardrails=_with(agent.output_guardrails, self.output),
            **more,
        )
        # Before its handovers: agents may hand over to each other in a circle.
        done[id(agent)] = (agent, clone)
        done[id(clone)] = (clone, clone)
        clone.handoffs = [self._handoff(one, clone, done) for one in agent.handoffs]
        for server in clone.mcp_servers:
            server.tool_input_guardrails = _with(server.tool_input_guardrails, self.tool_input)
            server.tool_output_guardrails = _with(server.tool_output_guardrails, self.tool_output)
        return clone

    def _capabilities(self, agent: Agent[Any]) -> list[Any]:
        return [
            one
            if is_guarded_by(one, self.tool_input)
            else guarded_capability(one, self.tool_input, self._tool)
            for one in _capabilities(agent)
        ]

    def _tool(self, tool: Any) -> Any:
        if isinstance(tool, CustomTool) and tool.name not in self.unguarded:
            return tool if self._holds_tool(tool, set()) else Custom(tool, self.rulings)
        if not isinstance(tool, FunctionTool):
            self._check_other(tool)
            return tool
        if self._holds_tool(tool, set()):
            return tool
        guarded = copy(tool)
        self._check_behind(tool, guarded)
        guarded.tool_input_guardrails = _with(tool.tool_input_guardrails, self.tool_input)
        guarded.tool_output_guardrails = _with(tool.tool_output_guardrails, self.tool_output)
        if not self._holds_wait(tool):
            guarded.needs_approval = partial(self.waits, tool.qualified_name, tool.needs_approval)
        return guarded

    def _check_behind(self, tool: FunctionTool, guarded: FunctionTool) -> None:
        if tool.name in self.unguarded or id(tool) in self.exempt:
            self.exempt[id(guarded)] = guarded
        elif not self._holds_behind(tool, set()):
            raise InputError(
                f"the agent behind the tool `{tool.name}` is not guarded",
                where="tools",
                help="`guard.protect(agent).as_tool(…)`, or name the tool in `unguarded`",
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


def _capabilities(agent: Agent[Any]) -> list[Any]:
    """Return what gives an agent tools once it runs."""
    return list(agent.capabilities) if isinstance(agent, SandboxAgent) else []


def _has(guardrails: Iterable[Any] | None, ours: Any) -> bool:
    return any(one is ours for one in guardrails or ())


def _with(guardrails: Iterable[Any] | None, ours: Any) -> list[Any]:
    """Return the guardrails and ours, once."""
    return [*(one for one in guardrails or () if one is not ours), ours]
