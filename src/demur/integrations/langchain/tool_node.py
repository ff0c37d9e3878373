"""A node of tools for graphs that have no middleware.

It answers every call of the message: what is refused by a message, the rest by the tools. All
calls are ruled on first; after a hard block no tool runs, and the last message says the end.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import get_runtime

from demur.gate.enforcer import Enforcer, Occasion
from demur.integrations.langchain.asking import (
    Asking,
    Whose,
    ask_awaited,
    ask_now,
    occasion_of,
)
from demur.integrations.langchain.calls import Plan, planned, returned
from demur.integrations.langchain.messages import closing, is_refused, open_calls

__all__ = ["guard_tool_node", "run_ended"]


def guard_tool_node(
    enforcer: Enforcer, tools: Sequence[Any], *, whose: Whose | None = None, **settings: Any
) -> Runnable[Any, Any]:
    """Return a node that runs the tools which the enforcer lets run.

    `settings` are those of `ToolNode`, `whose` makes an `Occasion` of the runtime. The state
    has its messages under `messages`, or under the `messages_key` of the settings.
    """
    guard = _Guard(enforcer, whose, settings.get("messages_key", "messages"))
    node = ToolNode(
        tools, wrap_tool_call=guard.returned, awrap_tool_call=guard.areturned, **settings
    )

    def run(state: Any, config: RunnableConfig) -> Any:
        plan = ask_now(guard.planned(state), enforcer)
        calls = guard.calls(state, plan)
        return guard.merged(plan, node.invoke(calls, config) if calls else [])

    async def arun(state: Any, config: RunnableConfig) -> Any:
        plan = await ask_awaited(guard.planned(state), enforcer)
        calls = guard.calls(state, plan)
        return guard.merged(plan, await node.ainvoke(calls, config) if calls else [])

    return RunnableLambda(run, arun, name=node.name)


def run_ended(state: Any, *, messages_key: str = "messages") -> bool:
    """Return whether a refusal has ended the run; for the edge after the node of tools."""
    messages = _messages(state, messages_key)
    return bool(messages) and is_refused(messages[-1])


class _Guard:
    """What the node asks the enforcer, and what it makes of the answers."""

    def __init__(self, enforcer: Enforcer, whose: Whose | None, key: str) -> None:
        self._enforcer = enforcer
        self._whose = whose
        self._key = key

    def planned(self, state: Any) -> Asking[Plan]:
        calls = open_calls(_messages(state, self._key))
        return (yield from planned(calls, self._at(get_runtime()), "message"))

    def calls(self, state: Any, plan: Plan) -> list[dict[str, Any]]:
        """Return the calls that may run, as a `ToolNode` takes them."""
        calls = open_calls(_messages(state, self._key))
        return [{**call, "type": "tool_call"} for call in calls if call["id"] in plan.notes]

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

    def merged(self, plan: Plan, output: Any) -> Any:
        """Return the update of the state: all answers and, if the run is over, its last words."""
        parts = output if isinstance(output, list) else [output]
        updates = [part[self._key] for part in parts if isinstance(part, dict)]
        messages = [*plan.answers, *(message for update in updates for message in update)]
        end = plan.end or closing(messages)
        update = {self._key: messages if end is None else [*messages, end]}
        commands = [part for part in parts if not isinstance(part, dict)]
        return [*commands, update] if commands else update

    def _at(self, runtime: Any) -> Occasion:
        return occasion_of(runtime, None, self._whose)


def _messages(state: Any, key: str) -> list[BaseMessage]:
    messages: list[BaseMessage] = (
        state.get(key, []) if isinstance(state, dict) else getattr(state, key)
    )
    return messages
