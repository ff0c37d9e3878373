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

from demur.enforce.enforcer import Enforcer, Occasion
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations.langchain.asking import (
    Asking,
    OccasionFor,
    ask_awaited,
    ask_now,
    occasion_of,
)
from demur.integrations.langchain.calls import Plan, planned, returned
from demur.integrations.langchain.messages import closing, is_refused, open_calls

__all__ = ["guard_tool_node", "run_ended"]


def guard_tool_node(
    enforcer: Enforcer | Gate,
    tools: Sequence[Any],
    *,
    occasion: OccasionFor | None = None,
    **settings: Any,
) -> Runnable[Any, Any]:
    """Return a node that runs only the tool calls that the enforcer allows.

    `settings` are those of `ToolNode`, and the node takes the same inputs: a state with messages
    under `messages` or the `messages_key` of the settings, a list of messages, or sent calls.
    `context` returns the call context for a runtime.
    """
    by = Enforcer.of(enforcer)
    guard = _Guard(by, occasion, settings.get("messages_key", "messages"))
    node = ToolNode(
        tools, wrap_tool_call=guard.returned, awrap_tool_call=guard.areturned, **settings
    )

    def run(given: Any, config: RunnableConfig) -> Any:
        sent = guard.sent(given)
        plan = ask_now(guard.planned(sent), by)
        calls = sent.running(plan)
        return guard.merged(sent, plan, node.invoke(calls, config) if calls else [])

    async def arun(given: Any, config: RunnableConfig) -> Any:
        sent = guard.sent(given)
        plan = await ask_awaited(guard.planned(sent), by)
        calls = sent.running(plan)
        return guard.merged(sent, plan, await node.ainvoke(calls, config) if calls else [])

    return RunnableLambda(run, arun, name=node.name)


def run_ended(state: Any, *, messages_key: str = "messages") -> bool:
    """Return whether a refusal has ended the run; for the edge after the tool node."""
    messages = _messages(state, messages_key)
    # Calls that were sent one by one get no final answer.
    return bool(messages) and (is_refused(messages[-1]) or closing(messages) is not None)


class _Sent(NamedTuple):
    """The calls in the node's input, and which input format it was."""

    calls: list[ToolCall]
    form: Literal["state", "messages", "calls"] = "state"
    context: dict[str, Any] | None = None

    def running(self, plan: Plan) -> Any:
        """Return the calls that may run, as a `ToolNode` takes them."""
        calls = [{**call, "type": "tool_call"} for call in plan.runs]
        if self.context is None or not calls:
            return calls
        return {**self.context, "tool_call": calls[0]}


class _Guard:
    """The checks of the node, and its output."""

    def __init__(self, enforcer: Enforcer, occasion: OccasionFor | None, key: str) -> None:
        self._enforcer = enforcer
        self._occasion = occasion
        self._key = key

    def sent(self, given: Any) -> _Sent:
        """Return the calls in the node's input."""
        if isinstance(given, list) and given and _is_call(given[-1]):
            return _Sent(given, "calls")
        if isinstance(given, list):
            return _Sent(open_calls(given), "messages")
        if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
            return _Sent([given["tool_call"]], "calls", given)
        return _Sent(open_calls(_messages(given, self._key)))

    def planned(self, sent: _Sent) -> Asking[Plan]:
        return (yield from planned(sent.calls, self._at(get_runtime()), "message"))

    def returned(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        result = handler(request)
        asking = returned(request.tool_call, result, self._at(request.runtime))
        return ask_now(asking, self._enforcer)

    async def areturned(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        result = await handler(request)
        asking = returned(request.tool_call, result, self._at(request.runtime))
        return await ask_awaited(asking, self._enforcer)

    def merged(self, sent: _Sent, plan: Plan, output: Any) -> Any:
        """Return the update of the state: all replies and, if the run is over, the final answer."""
        parts = output if isinstance(output, list) else [output]
        updates = [part[self._key] for part in parts if isinstance(part, dict)]
        messages = [*plan.refused, *(message for update in updates for message in update)]
        if sent.form != "calls":
            # Other calls may have been sent in parallel; their replies must not follow an answer.
            end = plan.end or closing(messages)
            messages += [] if end is None else [end]
        update = messages if sent.form == "messages" else {self._key: messages}
        commands = [part for part in parts if not isinstance(part, dict)]
        return [*commands, update] if commands else update

    def _at(self, runtime: Any) -> Occasion:
        return occasion_of(runtime, None, self._occasion)


def _is_call(given: Any) -> bool:
    return isinstance(given, dict) and given.get("type") == "tool_call"


def _messages(state: Any, key: str) -> list[BaseMessage]:
    messages = state.get(key, []) if isinstance(state, dict) else getattr(state, key, None)
    if not isinstance(messages, list):
        raise InputTypeError.expected("the state", f"one with a list under `{key}`", state)
    return messages
