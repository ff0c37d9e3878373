"""Attach guardrails to an agent of the OpenAI Agents SDK, its tools and its handoffs.

The SDK has no guardrails for custom tools, sandbox capabilities and handoffs, so demur wraps
those. The SDK turns every exception of a custom tool into an output; a hard refusal therefore
ends the run in the approval hook or in the data extractor.
"""

import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from agents import (
    Agent,
    AgentsException,
    CodeInterpreterTool,
    CustomTool,
    FileSearchTool,
    FunctionTool,
    Handoff,
    HandoffInputData,
    HostedMCPTool,
    ImageGenerationTool,
    InputGuardrail,
    OutputGuardrail,
    ProgrammaticToolCallingTool,
    RunContextWrapper,
    ShellTool,
    Tool,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    ToolSearchTool,
    WebSearchTool,
)
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Capability
from agents.tool_context import ToolContext

from demur.enforce.result import CheckResult
from demur.errors import InputError, InputTypeError


class ToolChecks(NamedTuple):
    """The checks of a tool: before its call is due, when it is due, and on its result.

    `must_wait` says whether the call waits for a person, by the tool's setting or demur's.
    `call_tripwire` and `result_tripwire` build the exceptions that end a run after a hard refusal.
    """

    must_wait: Callable[[str, Any, RunContextWrapper[Any], Mapping[str, Any], str], Awaitable[bool]]
    check_call: Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[CheckResult]]
    check_result: Callable[[ToolContext[Any], Any, Mapping[str, Any]], Awaitable[CheckResult]]
    call_tripwire: Callable[[CheckResult], AgentsException]
    result_tripwire: Callable[[CheckResult], AgentsException]


class GuardedCustomTool(CustomTool):
    """The custom tool `inner`, which runs only if `checks` allow it."""

    def __init__(self, inner: CustomTool, checks: ToolChecks) -> None:
        super().__init__(
            name=inner.name,
            description=inner.description,
            on_invoke_tool=self._invoke_checked,
            format=inner.format,
            defer_loading=inner.defer_loading,
            custom_data_extractor=self._extract_data,
            allowed_callers=inner.allowed_callers,
        )
        self.inner = inner
        self.checks = checks
        self.tool_config = inner.tool_config
        self._tripwires: WeakKeyDictionary[ToolContext[Any], AgentsException] = WeakKeyDictionary()

    def runtime_needs_approval(self) -> Any:
        """Return the function that the SDK calls before a tool call."""
        return self._needs_approval

    def runtime_on_approval(self) -> Any:
        """Return the tool's own approval callback, if it has one."""
        return self.inner.runtime_on_approval()

    async def _needs_approval(self, ctx: RunContextWrapper[Any], text: str, call_id: str) -> bool:
        own = self.inner.runtime_needs_approval()

        def asked(_arguments: Any) -> Any:
            return own(ctx, text, call_id) if callable(own) else own

        return await self.checks.must_wait(self.name, asked, ctx, _as_arguments(text), call_id)

    async def _invoke_checked(self, ctx: ToolContext[Any], text: str) -> Any:
        ruling = await self.checks.check_call(ctx, _as_arguments(text))
        if not ruling.allowed:
            return self._refuse_call(ctx, ruling, self.checks.call_tripwire)
        try:
            output = self.inner.on_invoke_tool(ctx, text)
            output = await output if inspect.isawaitable(output) else output
        except Exception as error:
            # The SDK passes the error text to the model, so check it like a result.
            after = await self.checks.check_result(
                ctx, str(error) or type(error).__name__, _as_arguments(text)
            )
            if after.allowed:
                raise
        else:
            after = await self.checks.check_result(ctx, output, _as_arguments(text))
            if after.allowed:
                return output
        return self._refuse_call(ctx, after, self.checks.result_tripwire)

    def _refuse_call(
        self,
        ctx: ToolContext[Any],
        result: CheckResult,
        tripwire: Callable[[CheckResult], AgentsException],
    ) -> str:
        if result.is_hard:
            self._tripwires[ctx] = tripwire(result)
        return result.model_message

    async def _extract_data(self, about: Any) -> Any:
        """Return the tool's own data about an output, or end the run after a hard refusal."""
        ends = self._tripwires.pop(about.tool_context, None)
        if ends is not None:
            raise ends
        own = self.inner.custom_data_extractor
        data = None if own is None else own(about)
        return await data if inspect.isawaitable(data) else data


def _as_arguments(text: str) -> Mapping[str, Any]:
    return {"input": text}


_GUARD = "demur_guard"


def guard_capability(
    capability: Capability, guard: object, guard_tool: Callable[[Tool], Tool]
) -> Capability:
    """Return a copy of a capability whose tools are guarded; `guard` identifies the guard.

    The SDK clones capabilities for each run and checks their type, so the copy gets a subclass
    of its own.
    """
    kind: Any = type(capability)

    class Guarded(kind):  # type: ignore[misc, unused-ignore]
        demur_guard: ClassVar[object] = guard

        def tools(self) -> list[Tool]:
            return [guard_tool(tool) for tool in super().tools()]

    Guarded.__name__, Guarded.__qualname__ = kind.__name__, kind.__qualname__
    copy = capability.clone()
    object.__setattr__(copy, "__class__", Guarded)
    return copy


def is_guarded_by(capability: Capability, guard: object) -> bool:
    """Return whether this guard guards the tools of a capability."""
    return getattr(type(capability), _GUARD, None) is guard


# Maps the run, the name and the arguments to the message of a refusal, or None.
CheckHandoff = Callable[[RunContextWrapper[Any], str, str], Awaitable[str | None]]

# The refusal message of the last handoff in this task, if it was refused.
_handoff_refusal: ContextVar[str | None] = ContextVar("demur_handoff", default=None)


class HandoffTarget(NamedTuple):
    """The current agent, the one that takes over, and the function that guards it.

    `target` is None if only the handoff itself can tell.
    """

    owner: Agent[Any]
    target: Agent[Any] | None
    guard_agent: Callable[[Agent[Any]], Agent[Any]]


class GuardedHandoff(Handoff[Any, Any]):
    """The handoff `inner`, which happens only if `check` allows it.

    In the SDK a handoff cannot fail. After a refusal the agent hands over to itself, and the
    transfer message is the refusal.
    """

    def __init__(
        self, inner: Handoff[Any, Any], check: CheckHandoff, handoff_target: HandoffTarget
    ) -> None:
        super().__init__(
            **{each.name: getattr(inner, each.name) for each in fields(Handoff) if each.init}
        )
        self.inner = inner
        self.check = check
        self.handoff_target = handoff_target
        self.on_invoke_handoff = self._invoke_checked
        self.input_filter = None if inner.input_filter is None else self._filter_input
        if handoff_target.target is not None:
            # A run state that is loaded later finds the agent to continue with here.
            self._agent_ref = weakref.ref(handoff_target.target)

    async def _invoke_checked(self, ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        told = await self.check(ctx, self.tool_name, arguments)
        target = None
        if told is None:
            target = await self.inner.on_invoke_handoff(ctx, arguments)
            # Another guard may have refused.
            told = _handoff_refusal.get() if isinstance(self.inner, GuardedHandoff) else None
        # Set this last: the inner handoff may itself hand over.
        _handoff_refusal.set(told)
        if told is not None or target is None:
            return self.handoff_target.owner
        return self.handoff_target.guard_agent(target)

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the handoff call."""
        told = _handoff_refusal.get()
        return self.inner.get_transfer_message(agent) if told is None else told

    def _filter_input(self, data: HandoffInputData) -> Any:
        # After a refusal the same agent continues, so nothing is hidden from it.
        if _handoff_refusal.get() is not None or self.inner.input_filter is None:
            return data
        return self.inner.input_filter(data)


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
