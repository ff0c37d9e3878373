"""Scenes played by LangChain agents, waited for and awaited, and by a graph of one's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import Field

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.integrations.langchain import LangChainGuard, guard_tool_node, has_run_ended
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FilteredTurn,
    FrameworkDriver,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = [
    "DRIVERS",
    "GraphDriver",
    "LangChainDriver",
    "ScriptedModel",
    "free_tool",
    "orphans",
    "read_result",
    "refusal_in",
    "scripted_model",
]


class ScriptedModel(BaseChatModel):
    """Says what it was told to, in order; a list of strings is an answer in pieces.

    `heard` keeps what it was sent, call by call.
    """

    turns: list[Any]
    heard: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Return the model that knows the tools."""
        return self.bind(tools=list(tools), **kwargs)

    def _next(self, messages: list[BaseMessage]) -> Any:
        turn = self.turns[len(self.heard)]
        self.heard.append(list(messages))
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = self._next(messages)
        message = turn if isinstance(turn, AIMessage) else AIMessage("".join(turn))
        return ChatResult(generations=[ChatGeneration(message=message.model_copy())])

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield from map(_chunk, _pieces(self._next(messages)))


def _pieces(turn: Any) -> list[AIMessageChunk]:
    if not isinstance(turn, AIMessage):
        return [AIMessageChunk(content=piece) for piece in turn]
    fields = turn.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    calls: list[Any] = [
        {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": place}
        for place, call in enumerate(turn.tool_calls)
    ]
    return [AIMessageChunk(**fields, tool_call_chunks=calls)]


def _chunk(message: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message)


def free_tool(name: str, run: Callable[[str, Any], Any]) -> BaseTool:
    """Return a tool that takes any arguments."""

    def call(**given: Any) -> Any:
        return run(name, given)

    async def acall(**given: Any) -> Any:
        return run(name, given)

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return StructuredTool(
        name=name, description=f"Does {name}.", args_schema=schema, func=call, coroutine=acall
    )


def refusal_in(messages: Sequence[BaseMessage]) -> Refusal | None:
    """Return the last refusal that stands in the messages."""
    for message in reversed(messages):
        place: Any = message.response_metadata
        if isinstance(message, ToolMessage):
            place = message.artifact or {}
        if "refusal" in place:
            return from_envelope(place["refusal"])
    return None


def orphans(messages: Sequence[BaseMessage]) -> int:
    """Return how many tool calls nothing answers."""
    asked = [
        call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls
    ]
    answered = [one.tool_call_id for one in messages if isinstance(one, ToolMessage)]
    return len(asked) - len(set(asked) & set(answered))


class LangChainDriver:
    """An agent of `create_agent` with the middleware."""

    points = frozenset(CheckPoint)
    ends_runs = True

    def __init__(self, *, awaited: bool = False) -> None:
        self.name = "langchain-async" if awaited else "langchain"
        self._awaited = awaited

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = scripted_model(scenario)
        free = [free_tool(name, tools.run) for name in tools.names]
        agent = self.create_agent(model, free, enforcer)
        given: Any = {"messages": [("user", scenario.prompt)]}
        if scenario.point is CheckPoint.STREAM:
            parts = asyncio.run(_streamed(agent, given)) if self._awaited else _stream(agent, given)
            messages = [part["messages"] for mode, part in parts if mode == "values"][-1]
            shown = [part[0] for mode, part in parts if mode == "messages"]
        else:
            run = asyncio.run(agent.ainvoke(given)) if self._awaited else agent.invoke(given)
            shown = messages = run["messages"]
        return read_result(model, messages, shown)

    def create_agent(self, model: ScriptedModel, tools: list[BaseTool], enforcer: Enforcer) -> Any:
        """Return a guarded agent."""
        return create_agent(model, tools=tools, middleware=[LangChainGuard(enforcer)])


class GraphDriver:
    """A graph of a model and guarded tools, without middleware."""

    points = frozenset({CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    ends_runs = True

    def __init__(self, *, awaited: bool = False) -> None:
        self.name = "langgraph-async" if awaited else "langgraph"
        self._awaited = awaited

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = scripted_model(scenario)
        node = guard_tool_node(enforcer, [free_tool(name, tools.run) for name in tools.names])
        graph = graph_of(model, node)
        given: Any = {"messages": [("user", scenario.prompt)]}
        config: Any = {"configurable": {"thread_id": scenario.name}}
        if self._awaited:
            run = asyncio.run(graph.ainvoke(given, config))
        else:
            run = graph.invoke(given, config)
        return read_result(model, run["messages"], run["messages"])


def graph_of(model: ScriptedModel, node: Runnable[Any, Any]) -> Any:
    """Return the usual loop of a model and its tools."""

    def speak(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def calls(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    def ended(state: MessagesState) -> str:
        return END if has_run_ended(state) else "model"

    graph = StateGraph(MessagesState)
    graph.add_node("model", speak)
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", calls, ["tools", END])
    graph.add_conditional_edges("tools", ended, ["model", END])
    return graph.compile()


def _stream(agent: Any, given: Any) -> list[Any]:
    return list(agent.stream(given, stream_mode=["messages", "values"]))


async def _streamed(agent: Any, given: Any) -> list[Any]:
    parts: AsyncIterator[Any] = agent.astream(given, stream_mode=["messages", "values"])
    return [part async for part in parts]


def scripted_model(scenario: Scenario) -> ScriptedModel:
    """Return a model that takes the turns of a scenario."""
    return ScriptedModel(turns=[_turn(turn, place) for place, turn in enumerate(scenario.turns)])


def _turn(turn: ModelTurn, place: int) -> Any:
    if isinstance(turn, AnswerTurn):
        return list(turn.pieces)
    if isinstance(turn, FilteredTurn):
        return AIMessage("", response_metadata={"finish_reason": "content_filter"})
    assert isinstance(turn, ToolTurn)
    calls = [
        {"name": name, "args": dict(given), "id": f"call-{place}-{index}", "type": "tool_call"}
        for index, (name, given) in enumerate(turn.calls)
    ]
    return AIMessage("", tool_calls=calls)


def read_result(
    model: ScriptedModel, messages: Sequence[BaseMessage], shown: Sequence[BaseMessage]
) -> ScenarioResult:
    """Return what a run came to."""
    spoken = [one for one in shown if isinstance(one, AIMessage)]
    heard = [str(one.content) for sent in model.heard[1:] for one in sent]
    return ScenarioResult(
        refusal_in(messages),
        "".join(str(one.text) for one in spoken),
        "\n".join(heard),
        orphans(messages),
        len(model.heard),
    )


DRIVERS: tuple[FrameworkDriver, ...] = (
    LangChainDriver(),
    LangChainDriver(awaited=True),
    GraphDriver(),
    GraphDriver(awaited=True),
)
