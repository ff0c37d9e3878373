"""A guarded tool node for graphs that have no middleware.

The node replies to every call of the message: to refused calls with a refusal, to the others
with the tool's result. All calls are checked first. After a hard refusal no tool runs, and the
last message is the final answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import get_runtime

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.langchain.calls import CallPlan, check_result, plan_calls
from demur.integrations.langchain.context import (
    ContextForRuntime,
    HookSteps,
    adrive_hook,
    build_context,
    drive_hook,
)
from demur.integrations.langchain.messages import find_closing_answer, is_refused, list_open_calls

__all__ = ["guard_tool_node", "has_run_ended"]


def guard_tool_node(
    enforcer: Enforcer | Gate,
    tools: Sequence[Any],
    *,
    context: ContextForRuntime | None = None,
    **settings: Any,
) -> Runnable[Any, Any]:
    """Return a node that runs only the tool calls that the enforcer allows.

    `settings` are those of `ToolNode`, and the node takes the same inputs: a state with messages
    under `messages` or the `messages_key` of the settings, a list of messages, or sent calls.
    `context` returns the call context for a runtime.
    """
    by = Enforcer.from_gate(enforcer)
    guard = _ToolNodeGuard(by, context, settings.get("messages_key", "messages"))
    node = ToolNode(
        tools, wrap_tool_call=guard.check_result, awrap_tool_call=guard.acheck_result, **settings
    )

    def run(given: Any, config: RunnableConfig) -> Any:
        sent = guard.read_input(given)
        plan = drive_hook(guard.plan_calls(sent), by)
        calls = sent.calls_to_run(plan)
        return guard.merge_output(sent, plan, node.invoke(calls, config) if calls else [])

    async def arun(given: Any, config: RunnableConfig) -> Any:
        sent = guard.read_input(given)
        plan = await adrive_hook(guard.plan_calls(sent), by)
        calls = sent.calls_to_run(plan)
        return guard.merge_output(sent, plan, await node.ainvoke(calls, config) if calls else [])

    return RunnableLambda(run, arun, name=node.name)


def has_run_ended(state: Any, *, messages_key: str = "messages") -> bool:
    """Return whether a refusal has ended the run; for the edge after the tool node."""
    messages = _read_messages(state, messages_key)
    # Calls that were sent one by one get no final answer.
    return bool(messages) and (
        is_refused(messages[-1]) or find_closing_answer(messages) is not None
    )


class _NodeInput(NamedTuple):
    """The calls in the node's input, and which input format it was."""

    calls: list[ToolCall]
    kind: Literal["state", "messages", "calls"] = "state"
    context: dict[str, Any] | None = None

    def calls_to_run(self, plan: CallPlan) -> Any:
        """Return the calls that may run, as a `ToolNode` takes them."""
        calls = [{**call, "type": "tool_call"} for call in plan.allowed_calls]
        if self.context is None or not calls:
            return calls
        return {**self.context, "tool_call": calls[0]}


class _ToolNodeGuard:
    """The checks of the node, and its output."""

    def __init__(self, enforcer: Enforcer, context: ContextForRuntime | None, key: str) -> None:
        self._enforcer = enforcer
        self._context = context
        self._key = key

    def read_input(self, given: Any) -> _NodeInput:
        """Return the calls in the node's input."""
        if isinstance(given, list) and given and _is_call(given[-1]):
            return _NodeInput(given, "calls")
        if isinstance(given, list):
            return _NodeInput(list_open_calls(given), "messages")
        if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
            return _NodeInput([given["tool_call"]], "calls", given)
        return _NodeInput(list_open_calls(_read_messages(given, self._key)))

    def plan_calls(self, node_input: _NodeInput) -> HookSteps[CallPlan]:
        return (
            yield from plan_calls(node_input.calls, self._context_for(get_runtime()), "message")
        )

    def check_result(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        result = handler(request)
        asking = check_result(request.tool_call, result, self._context_for(request.runtime))
        return drive_hook(asking, self._enforcer)

    async def acheck_result(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        result = await handler(request)
        asking = check_result(request.tool_call, result, self._context_for(request.runtime))
        return await adrive_hook(asking, self._enforcer)

    def merge_output(self, node_input: _NodeInput, plan: CallPlan, output: Any) -> Any:
        """Return the update of the state: all replies and, if the run is over, the final answer."""
        parts = output if isinstance(output, list) else [output]
        updates = [part[self._key] for part in parts if isinstance(part, dict)]
        messages = [*plan.refusals, *(message for update in updates for message in update)]
        if node_input.kind != "calls":
            # Other calls may have been sent in parallel; their replies must not follow an answer.
            end = plan.end or find_closing_answer(messages)
            messages += [] if end is None else [end]
        update = messages if node_input.kind == "messages" else {self._key: messages}
        commands = [part for part in parts if not isinstance(part, dict)]
        return [*commands, update] if commands else update

    def _context_for(self, runtime: Any) -> CallContext:
        return build_context(runtime, None, self._context)


def _is_call(given: Any) -> bool:
    return isinstance(given, dict) and given.get("type") == "tool_call"


def _read_messages(state: Any, key: str) -> list[BaseMessage]:
    messages = state.get(key, []) if isinstance(state, dict) else getattr(state, key, None)
    if not isinstance(messages, list):
        raise InputTypeError.wrong_type("the state", f"one with a list under `{key}`", state)
    return messages
