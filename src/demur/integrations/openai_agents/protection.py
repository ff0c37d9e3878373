"""Attach guardrails to an agent of the OpenAI Agents SDK, its tools and its handoffs.

The SDK has no guardrails for custom tools, sandbox capabilities and handoffs, so demur wraps
those. The SDK turns every exception of a custom tool into an output; a hard refusal therefore
ends the run in the approval hook or in the data extractor.
"""

import inspect
import weakref
from collections.abc import Callable, Iterable
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
    ProgrammaticToolCallingTool,
    RunContextWrapper,
    ShellTool,
    Tool,
    ToolSearchTool,
    WebSearchTool,
)
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Capability
from agents.tool_context import ToolContext

from demur.enforce.result import CheckResult
from demur.errors import InputError, InputTypeError
from demur.integrations.openai_agents.hooks import AgentHooks


class GuardedCustomTool(CustomTool):
    """The custom tool `inner`, which runs only if the hooks allow it."""

    def __init__(self, inner: CustomTool, hooks: AgentHooks) -> None:
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
        self.hooks = hooks
        hooks.changeable.add(self.name)
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

        def ask_tool() -> Any:
            return own(ctx, text, call_id) if callable(own) else own

        return await self.hooks.must_wait(self.name, ask_tool, ctx, {"input": text}, call_id)

    async def _invoke_checked(self, ctx: ToolContext[Any], text: str) -> Any:
        hooks, arguments = self.hooks, {"input": text}
        result = await hooks.check_call(ctx, arguments)
        if not result.allowed:
            return self._refuse_call(ctx, result, hooks.call_tripwire)
        try:
            output = self.inner.on_invoke_tool(ctx, result.apply_changes(text))
            output = await output if inspect.isawaitable(output) else output
            output = await hooks.change_output(ctx, output, arguments)
        except Exception as error:
            # The SDK passes the error text to the model, so check it like a result.
            words = str(error) or type(error).__name__
            result = await hooks.check_result(ctx, words, arguments)
            if result.allowed:
                raise
        else:
            result = await hooks.check_result(ctx, output, arguments)
            if result.allowed:
                return output
        return self._refuse_call(ctx, result, hooks.result_tripwire)

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
        tripwire = self._tripwires.pop(about.tool_context, None)
        if tripwire is not None:
            raise tripwire
        own = self.inner.custom_data_extractor
        data = None if own is None else own(about)
        return await data if inspect.isawaitable(data) else data


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
    """The handoff `inner`, which happens only if the hooks allow it.

    In the SDK a handoff cannot fail. After a refusal the agent hands over to itself, and the
    transfer message is the refusal.
    """

    def __init__(
        self, inner: Handoff[Any, Any], hooks: AgentHooks, handoff_target: HandoffTarget
    ) -> None:
        super().__init__(
            **{each.name: getattr(inner, each.name) for each in fields(Handoff) if each.init}
        )
        self.inner = inner
        self.hooks = hooks
        self.handoff_target = handoff_target
        self.on_invoke_handoff = self._invoke_checked
        self.input_filter = None if inner.input_filter is None else self._filter_input
        if handoff_target.target is not None:
            # A run state that is loaded later finds the agent to continue with here.
            self._agent_ref = weakref.ref(handoff_target.target)

    async def _invoke_checked(self, ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        refusal = await self.hooks.check_handoff(ctx, self.tool_name, arguments)
        target = None
        if refusal is None:
            target = await self.inner.on_invoke_handoff(ctx, arguments)
            # Another guard may have refused.
            refusal = _handoff_refusal.get() if isinstance(self.inner, GuardedHandoff) else None
        # Set this last: the inner handoff may itself hand over.
        _handoff_refusal.set(refusal)
        if refusal is not None or target is None:
            return self.handoff_target.owner
        return self.handoff_target.guard_agent(target)

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the handoff call."""
        refusal = _handoff_refusal.get()
        return self.inner.get_transfer_message(agent) if refusal is None else refusal

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

# Agents and their guarded copies, by the id of the agent; keeping the agent keeps its id unique.
_GuardedAgents = dict[int, tuple[Agent[Any], Agent[Any]]]


class AgentProtection(NamedTuple):
    """Attaches the guardrails of `hooks`.

    If the hooks interrupt a run, all tools get an approval hook, or else those with a setting of
    their own. Tools named in `unguarded` are added to `exempt`, by id, and need no guard from
    then on.
    """

    hooks: AgentHooks
    exempt: WeakValueDictionary[int, Any]
    unguarded: frozenset[str] = frozenset()

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
            _contains_guardrail(agent.input_guardrails, self.hooks.input)
            and _contains_guardrail(agent.output_guardrails, self.hooks.output)
            and all(self._is_tool_protected(tool, visited) for tool in agent.tools)
            and all(map(self._has_tool_guardrails, agent.mcp_servers))
            and all(is_guarded_by(one, self.hooks) for one in _list_capabilities(agent))
            and all(self._is_handoff_protected(one, agent, visited) for one in agent.handoffs)
        )

    def _is_tool_protected(self, tool: Any, visited: set[int]) -> bool:
        if isinstance(tool, GuardedCustomTool) and tool.hooks is self.hooks:
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
        inputs, outputs = holder.tool_input_guardrails, holder.tool_output_guardrails
        is_checked = _contains_guardrail(inputs, self.hooks.tool_input)
        return is_checked and _contains_guardrail(outputs, self.hooks.tool_output)

    def _has_approval_hook(self, tool: FunctionTool) -> bool:
        own = tool.needs_approval
        if own is False:
            return not self.hooks.interrupts
        return getattr(own, "func", None) == self.hooks.needs_approval

    def _is_handoff_protected(self, handoff: Any, owner: Agent[Any], visited: set[int]) -> bool:
        if isinstance(handoff, Agent):
            return self.is_protected(handoff, visited)
        return self._is_own_handoff(handoff) and handoff.handoff_target.owner is owner

    def _is_own_handoff(self, handoff: Any) -> bool:
        return isinstance(handoff, GuardedHandoff) and handoff.hooks is self.hooks

    def _copy_agent(self, agent: Agent[Any], copies: _GuardedAgents) -> Agent[Any]:
        capabilities = [
            one if is_guarded_by(one, self.hooks) else self._guard_capability(one)
            for one in _list_capabilities(agent)
        ]
        clone = agent.clone(
            tools=[self._guard_tool(tool) for tool in agent.tools],
            input_guardrails=_add_guardrail(agent.input_guardrails, self.hooks.input),
            output_guardrails=_add_guardrail(agent.output_guardrails, self.hooks.output),
            **({"capabilities": capabilities} if capabilities else {}),
        )
        # Register the copy before its handoffs: agents may hand over in a cycle.
        copies[id(agent)] = (agent, clone)
        copies[id(clone)] = (clone, clone)
        clone.handoffs = [self._guard_handoff(one, clone, copies) for one in agent.handoffs]
        for server in clone.mcp_servers:
            self._add_tool_guardrails(server)
        return clone

    def _add_tool_guardrails(self, holder: Any) -> None:
        inputs, outputs = holder.tool_input_guardrails, holder.tool_output_guardrails
        holder.tool_input_guardrails = _add_guardrail(inputs, self.hooks.tool_input)
        holder.tool_output_guardrails = _add_guardrail(outputs, self.hooks.tool_output)

    def _guard_capability(self, capability: Capability) -> Capability:
        return guard_capability(capability, self.hooks, self._guard_tool)

    def _guard_tool(self, tool: Any) -> Any:
        if isinstance(tool, CustomTool) and tool.name not in self.unguarded:
            is_guarded = self._is_tool_protected(tool, set())
            return tool if is_guarded else GuardedCustomTool(tool, self.hooks)
        if not isinstance(tool, FunctionTool):
            if tool.name in self.unguarded:
                self.exempt[id(tool)] = tool
            if not self._may_be_unguarded(tool):
                raise InputError(
                    f"the tool `{tool.name}` cannot be guarded",
                    where="tools",
                    help="make it a function tool, or name it in `unguarded`",
                )
            return tool
        if self._is_tool_protected(tool, set()):
            return tool
        guarded = copy(tool)
        if tool.name in self.unguarded or id(tool) in self.exempt:
            self.exempt[id(guarded)] = guarded
        elif not self._is_inner_agent_protected(tool, set()):
            raise InputError(
                f"the agent behind the tool `{tool.name}` is not guarded",
                where="tools",
                help="`guard.protect(agent).as_tool(…)`, or name the tool in `unguarded`",
            )
        self._add_tool_guardrails(guarded)
        if not self._has_approval_hook(tool):
            name, own = tool.qualified_name, tool.needs_approval
            guarded.needs_approval = partial(self.hooks.needs_approval, name, own)
            guarded.on_invoke_tool = _hide_preparation(guarded.on_invoke_tool)
        if self.hooks.changes_tools:
            invoke = guarded.on_invoke_tool
            guarded.on_invoke_tool = self.hooks.make_changeable(tool.qualified_name, invoke)
        return guarded

    def _may_be_unguarded(self, tool: Any) -> bool:
        is_hosted_shell = isinstance(tool, ShellTool) and not tool.executor
        return isinstance(tool, _HOSTED_TOOLS) or is_hosted_shell or id(tool) in self.exempt

    def _guard_handoff(
        self, handoff: Agent[Any] | Handoff[Any, Any], owner: Agent[Any], copies: _GuardedAgents
    ) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.protect_agent(handoff, copies)
        inner: Any = handoff
        if isinstance(handoff, GuardedHandoff) and self._is_own_handoff(handoff):
            inner = handoff.inner
        reference = getattr(inner, "_agent_ref", None)
        target = None if reference is None else reference()
        if target is not None:
            target = self.protect_agent(target, copies)

        def guard_agent(agent: Agent[Any]) -> Agent[Any]:
            # Do not keep copies of agents that exist for one run only.
            return self.protect_agent(agent, {**copies})

        return GuardedHandoff(inner, self.hooks, HandoffTarget(owner, target, guard_agent))


def _hide_preparation(invoke: Any) -> Any:
    """Return a tool's function without its argument preparation.

    With an approval hook, the SDK prepares arguments first. If that changes them (a default
    filled in, `20` for a `float`), it interrupts the run without calling the hook.
    """
    if not hasattr(invoke, "prepare_arguments"):
        return invoke

    async def invoke_tool(ctx: Any, arguments: str) -> Any:
        return await invoke(ctx, arguments)

    return invoke_tool


def _list_capabilities(agent: Agent[Any]) -> list[Any]:
    """Return the capabilities of a sandbox agent."""
    return list(agent.capabilities) if isinstance(agent, SandboxAgent) else []


def _contains_guardrail(guardrails: Iterable[Any] | None, own: Any) -> bool:
    return any(one is own for one in guardrails or ())


def _add_guardrail(guardrails: Iterable[Any] | None, own: Any) -> list[Any]:
    """Return the guardrails with ours added once."""
    return [*(one for one in guardrails or () if one is not own), own]
