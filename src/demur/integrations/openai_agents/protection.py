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
from demur.integrations.openai_agents.capability import guard_capability, is_guarded_by
from demur.integrations.openai_agents.custom import GuardedCustomTool, ToolChecks
from demur.integrations.openai_agents.handover import CheckHandoff, GuardedHandoff, HandoffTarget

__all__ = ["AgentProtection"]

# These run at the provider. All others run in this process, without guardrail hooks.
_HOSTED_TOOLS = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    ToolSearchTool,
    WebSearchTool,
)

# Maps tool name, the tool's own setting, run, arguments and call id to whether the call waits.
_NeedsApproval = Callable[[str, Any, RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]
# Agents and their guarded copies, by the id of the agent; keeping the agent keeps its id unique.
_GuardedAgents = dict[int, tuple[Agent[Any], Agent[Any]]]


class AgentProtection(NamedTuple):
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
    check_handoff: CheckHandoff
    needs_approval: _NeedsApproval
    tool_checks: ToolChecks
    exempt: WeakValueDictionary[int, Any]
    unguarded: frozenset[str] = frozenset()
    all_tools_wait: bool = False

    def protect_agent(self, agent: Agent[Any], copies: _GuardedAgents) -> Agent[Any]:
        """Return a guarded copy of the agent, or the agent itself if it is fully guarded.

        `copies` holds the agents that have a copy already.

        Raises:
            InputError: A tool that runs in this process cannot be guarded.
        """
        if not isinstance(agent, Agent):
            raise InputTypeError.wrong_type("agent", "an `Agent`", agent)
        if id(agent) in copies:
            return copies[id(agent)][1]
        return agent if self.is_protected(agent, set()) else self._copy_agent(agent, copies)

    def is_protected(self, agent: Agent[Any], visited: set[int]) -> bool:
        """Return whether an agent and all it uses is guarded; `visited` stops cycles.

        A guardrail on the agent says nothing about its tools, so each tool is examined.
        """
        if id(agent) in visited:
            return True
        visited.add(id(agent))
        return (
            _contains_guardrail(agent.input_guardrails, self.input)
            and _contains_guardrail(agent.output_guardrails, self.output)
            and all(self._is_tool_protected(tool, visited) for tool in agent.tools)
            and all(map(self._has_tool_guardrails, agent.mcp_servers))
            and all(is_guarded_by(one, self.tool_input) for one in _list_capabilities(agent))
            and all(self._is_handoff_protected(one, agent, visited) for one in agent.handoffs)
        )

    def _is_tool_protected(self, tool: Any, visited: set[int]) -> bool:
        if isinstance(tool, GuardedCustomTool) and tool.checks == self.tool_checks:
            return True
        if not isinstance(tool, FunctionTool):
            return self._may_be_unguarded(tool)
        within = id(tool) in self.exempt or self._is_inner_agent_protected(tool, visited)
        return within and self._has_tool_guardrails(tool) and self._has_approval_hook(tool)

    def _is_inner_agent_protected(self, tool: FunctionTool, visited: set[int]) -> bool:
        """Return whether the agent behind a tool, if there is one, is guarded."""
        behind = getattr(tool, "_agent_instance", None)
        return behind is None or self.is_protected(behind, visited)

    def _has_tool_guardrails(self, holder: Any) -> bool:
        inside = _contains_guardrail(holder.tool_input_guardrails, self.tool_input)
        return inside and _contains_guardrail(holder.tool_output_guardrails, self.tool_output)

    def _has_approval_hook(self, tool: FunctionTool) -> bool:
        own = tool.needs_approval
        return getattr(own, "func", None) == self.needs_approval or (
            own is False and not self.all_tools_wait
        )

    def _is_handoff_protected(self, handoff: Any, owner: Agent[Any], visited: set[int]) -> bool:
        if isinstance(handoff, Agent):
            return self.is_protected(handoff, visited)
        return (
            isinstance(handoff, GuardedHandoff)
            and handoff.check == self.check_handoff
            and handoff.handoff_target.owner is owner
        )

    def _copy_agent(self, agent: Agent[Any], copies: _GuardedAgents) -> Agent[Any]:
        more = (
            {}
            if not _list_capabilities(agent)
            else {"capabilities": self._guard_capabilities(agent)}
        )
        clone = agent.clone(
            tools=[self._guard_tool(tool) for tool in agent.tools],
            input_guardrails=_add_guardrail(agent.input_guardrails, self.input),
            output_guardrails=_add_guardrail(agent.output_guardrails, self.output),
            **more,
        )
        # Register the copy before its handoffs: agents may hand over in a cycle.
        copies[id(agent)] = (agent, clone)
        copies[id(clone)] = (clone, clone)
        clone.handoffs = [self._guard_handoff(one, clone, copies) for one in agent.handoffs]
        for server in clone.mcp_servers:
            server.tool_input_guardrails = _add_guardrail(
                server.tool_input_guardrails, self.tool_input
            )
            server.tool_output_guardrails = _add_guardrail(
                server.tool_output_guardrails, self.tool_output
            )
        return clone

    def _guard_capabilities(self, agent: Agent[Any]) -> list[Any]:
        return [
            one
            if is_guarded_by(one, self.tool_input)
            else guard_capability(one, self.tool_input, self._guard_tool)
            for one in _list_capabilities(agent)
        ]

    def _guard_tool(self, tool: Any) -> Any:
        if isinstance(tool, CustomTool) and tool.name not in self.unguarded:
            return (
                tool
                if self._is_tool_protected(tool, set())
                else GuardedCustomTool(tool, self.tool_checks)
            )
        if not isinstance(tool, FunctionTool):
            self._check_exempt(tool)
            return tool
        if self._is_tool_protected(tool, set()):
            return tool
        guarded = copy(tool)
        self._check_inner_agent(tool, guarded)
        guarded.tool_input_guardrails = _add_guardrail(tool.tool_input_guardrails, self.tool_input)
        guarded.tool_output_guardrails = _add_guardrail(
            tool.tool_output_guardrails, self.tool_output
        )
        if not self._has_approval_hook(tool):
            guarded.needs_approval = partial(
                self.needs_approval, tool.qualified_name, tool.needs_approval
            )
        return guarded

    def _check_inner_agent(self, tool: FunctionTool, guarded: FunctionTool) -> None:
        if tool.name in self.unguarded or id(tool) in self.exempt:
            self.exempt[id(guarded)] = guarded
        elif not self._is_inner_agent_protected(tool, set()):
            raise InputError(
                f"the agent behind the tool `{tool.name}` is not guarded",
                where="tools",
                help="`guard.protect(agent).as_tool(…)`, or name the tool in `unguarded`",
            )

    def _check_exempt(self, tool: Any) -> None:
        if tool.name in self.unguarded:
            self.exempt[id(tool)] = tool
        if not self._may_be_unguarded(tool):
            raise InputError(
                f"the tool `{tool.name}` cannot be guarded",
                where="tools",
                help="make it a function tool, or name it in `unguarded`",
            )

    def _may_be_unguarded(self, tool: Any) -> bool:
        hosted = isinstance(tool, _HOSTED_TOOLS) or (
            isinstance(tool, ShellTool) and not tool.executor
        )
        return hosted or id(tool) in self.exempt

    def _guard_handoff(
        self, handoff: Agent[Any] | Handoff[Any, Any], owner: Agent[Any], copies: _GuardedAgents
    ) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.protect_agent(handoff, copies)
        inner = (
            handoff.inner
            if isinstance(handoff, GuardedHandoff) and handoff.check == self.check_handoff
            else handoff
        )
        known = getattr(inner, "_agent_ref", None)
        target = None if known is None else known()
        if target is not None:
            target = self.protect_agent(target, copies)

        def guarded(agent: Agent[Any]) -> Agent[Any]:
            # Do not keep copies of agents that exist for one run only.
            return self.protect_agent(agent, {**copies})

        return GuardedHandoff(inner, self.check_handoff, HandoffTarget(owner, target, guarded))


def _list_capabilities(agent: Agent[Any]) -> list[Any]:
    """Return the capabilities of a sandbox agent."""
    return list(agent.capabilities) if isinstance(agent, SandboxAgent) else []


def _contains_guardrail(guardrails: Iterable[Any] | None, own: Any) -> bool:
    return any(one is own for one in guardrails or ())


def _add_guardrail(guardrails: Iterable[Any] | None, own: Any) -> list[Any]:
    """Return the guardrails with ours added once."""
    return [*(one for one in guardrails or () if one is not own), own]
