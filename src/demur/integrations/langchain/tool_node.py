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

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding
from demur.enforce.context import Call, Steps, adrive, drive
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    ContextSource,
    adapt_enforcer,
    check_context,
    resolve_context,
)
from demur.integrations.langchain.calls import CallPlan, change_call, check_result, plan_calls
from demur.integrations.langchain.context import (
    FRAMEWORK,
    HookContext,
    derive_key,
    find_run_id,
    make_seal,
)
from demur.integrations.langchain.messages import find_closing_answer, is_refused, list_open_calls

_CARRIED = frozenset({Surface.TOOL_CALL, Surface.TOOL_RESULT})


def guard_tool_node(
    enforcer: Enforcer | Gate,
    tools: Sequence[Any],
    *,
    context: ContextSource | None = None,
    on_finding: OnFinding | None = None,
    mode: EnforceMode | None = None,
    tool_settings: Tools | None = None,
    **settings: Any,
) -> Runnable[Any, Any]:
    """Return a node that runs only the tool calls that the enforcer allows.

    `settings` are those of `ToolNode`, and the node takes the same inputs: a state with messages
    under `messages` or the `messages_key` of the settings, a list of messages, or sent calls.
    `context` is the call context, or a function of a runtime. `on_finding` and `mode` are those of
    all adapters, and so is `tool_settings`, which they call `tools`.
    """
    key = settings.get("messages_key", "messages")
    options = AdapterOptions(on_finding=on_finding, mode=mode, tools=tool_settings)
    adapted = adapt_enforcer(enforcer, carried=_CARRIED, **options)
    guard = _ToolNodeGuard(adapted, check_context(context), key)
    node = ToolNode(
        tools, wrap_tool_call=guard.call_tool, awrap_tool_call=guard.acall_tool, **settings
    )

    def run(value: Any, config: RunnableConfig) -> Any:
        return drive(guard.run_steps(value, lambda calls: node.invoke(calls, config)))

    async def arun(value: Any, config: RunnableConfig) -> Any:
        return await adrive(guard.run_steps(value, lambda calls: node.ainvoke(calls, config)))

    return RunnableLambda(run, arun, name=node.name)


def has_run_ended(state: Any, *, messages_key: str = "messages") -> bool:
    """Return whether a refusal has ended the run; for the edge after the tool node."""
    messages = _read_messages(state, messages_key)
    # Calls that were sent one by one get no final answer.
    ended = messages and (is_refused(messages[-1]) or find_closing_answer(messages) is not None)
    return bool(ended)


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

    def __init__(self, enforcer: Enforcer, context: ContextSource | None, key: str) -> None:
        self._enforcer = enforcer
        self._context = context
        self._key = key

    def run_steps(self, value: Any, invoke: Callable[[Any], Any]) -> Steps[Any]:
        """Plan the calls in the node's input, run the allowed ones, and return the update."""
        node_input = self._read_input(value)
        plan = yield from plan_calls(node_input.calls, self._hook(get_runtime()), "message")
        calls = node_input.calls_to_run(plan)
        output = (yield Call(invoke, (calls,))) if calls else []
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

    def call_tool(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run a tool and check its result."""
        return drive(self._tool_steps(request, handler))

    async def acall_tool(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run a tool and check its result."""
        return await adrive(self._tool_steps(request, handler))

    def _tool_steps(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Steps[Any]:
        hook = self._hook(request.runtime)
        request = change_call(request, hook.enforcer)
        result = yield Call(handler, (request,))
        return (yield from check_result(request.tool_call, result, hook))

    def _read_input(self, value: Any) -> _NodeInput:
        """Return the calls in the node's input."""
        if isinstance(value, list):
            last = value[-1] if value else None
            if isinstance(last, dict) and last.get("type") == "tool_call":
                return _NodeInput(value, "calls")
            return _NodeInput(list_open_calls(value), "messages")
        if isinstance(value, dict) and value.get("__type") == "tool_call_with_context":
            return _NodeInput([value["tool_call"]], "calls", value)
        return _NodeInput(list_open_calls(_read_messages(value, self._key)))

    def _hook(self, runtime: Any) -> HookContext:
        run = find_run_id(runtime)
        context = resolve_context(self._context, runtime, FRAMEWORK, run)
        return HookContext(self._enforcer, context, make_seal(derive_key(None), run))


def _read_messages(state: Any, key: str) -> list[BaseMessage]:
    messages = state.get(key, []) if isinstance(state, dict) else getattr(state, key, None)
    if not isinstance(messages, list):
        raise InputTypeError.wrong_type("the state", f"one with a list under `{key}`", state)
    return messages
