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

# These run at the provider. All others run in this process, without guardrail hooks.
_HOSTED = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    ToolSearchTool,
    WebSearchTool,
)

# Maps tool name, the tool's own setting, run, arguments and call id to whether the call waits.
_Waits = Callable[[str, Any, RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]
# Agents and their guarded copies, by the id of the agent; keeping the agent keeps its id unique.
_Done = dict[int, tuple[Agent[Any], Agent[Any]]]


class Protection(NamedTuple):
    """The guardrails to attach.

    `check_handoff` checks handoffs. `needs_approval` says which calls wait for a person: of all
    tools with `all_tools_wait`, or else of tools with a setting of their own. `tool_checks` are
    for tools without guardrail hooks. Tools named in `unguarded` are added to `exempt`, by id,
    and need no guard from then on.
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
        """Return a guarded copy of the agent, or the agent itself if it is fully guarded.

        `copies` holds the agents that have a copy already.

        Raises:
            InputError: A tool that runs in this process cannot be guarded.
        """
        if not isinstance(agent, Agent):
            raise InputTypeError.expected("agent", "an `Agent`", agent)
        if id(agent) in done:
            return done[id(agent)][1]
        return agent if self.holds(agent, set()) else self._copy(agent, done)

    def holds(self, agent: Agent[Any], seen: set[int]) -> bool:
        """Return whether an agent and all it uses is guarded; `visited` stops cycles.

        A guardrail on the agent says nothing about its tools, so each tool is examined.
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
        """Return whether the agent behind a tool, if there is one, is guarded."""
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
        # Register the copy before its handoffs: agents may hand over in a cycle.
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
            # Do not keep copies of agents that exist for one run only.
            return self.agent(agent, {**done})

        return Handover(inner, self.asks, Whither(owner, target, guarded))


def _capabilities(agent: Agent[Any]) -> list[Any]:
    """Return the capabilities of a sandbox agent."""
    return list(agent.capabilities) if isinstance(agent, SandboxAgent) else []


def _has(guardrails: Iterable[Any] | None, ours: Any) -> bool:
    return any(one is ours for one in guardrails or ())


def _with(guardrails: Iterable[Any] | None, ours: Any) -> list[Any]:
    """Return the guardrails with ours added once."""
    return [*(one for one in guardrails or () if one is not ours), ours]
