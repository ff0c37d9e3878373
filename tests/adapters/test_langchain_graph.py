import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from adapters.driver_langchain import ScriptedModel, free_tool, graph_of, orphans, refusal_in
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, Send
from pydantic import BaseModel
from support.sample_guards import finding, seeing
from typing_extensions import TypedDict

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.langchain import guard_tool_node, has_run_ended
from demur.integrations.langchain.messages import find_closing_answer, find_earlier_end, result_text
from demur.policy.loader import parse_policy
from demur.testing.conformance import SCENARIO_POLICY

pytestmark = pytest.mark.adapters

RISKY = ("refund", {"order_id": "A-1", "amount": 20, "chargeback_risk": 0.95})
LOOKUP = ("lookup", {"order_id": "A-1"})
PURGE = ("purge", {"folder": "tickets"})


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    asked = [
        {"name": name, "args": args, "id": f"call-{place}", "type": "tool_call"}
        for place, (name, args) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=asked)


class Bench:
    """Tools, and a graph around them."""

    def __init__(self, enforcer: Enforcer | None = None, **settings: Any) -> None:
        self.ran: list[str] = []
        self.given: list[Any] = []
        self.node = guard_tool_node(
            Enforcer(Gate(parse_policy(SCENARIO_POLICY))) if enforcer is None else enforcer,
            [free_tool(name, self._run) for name in ("lookup", "refund", "purge")],
            **settings,
        )

    def _run(self, name: str, given: Any) -> Any:
        self.ran.append(name)
        self.given.append(given)
        if "command" in given:
            said = ToolMessage("commanded", tool_call_id=given["command"])
            return Command(update={"messages": [said]})
        return f"{name} is done"

    def invoke(self, *turns: Any) -> Sequence[BaseMessage]:
        """Return the messages of a run."""
        self.model = ScriptedModel(turns=list(turns))
        state = graph_of(self.model, self.node).invoke({"messages": [("user", "Go.")]})
        messages: Sequence[BaseMessage] = state["messages"]
        return messages


def test_after_a_hard_block_no_tool_runs_and_the_graph_ends() -> None:
    bench = Bench()

    messages = bench.invoke(calling(LOOKUP, RISKY, LOOKUP), "Never said.")

    assert bench.ran == []
    assert orphans(messages) == 0
    assert len(bench.model.heard) == 1
    assert messages[-1].response_metadata["refusal"]["code"] == "CHARGEBACK_RISK_BLOCK"
    assert has_run_ended({"messages": messages})


def test_the_tools_that_may_run_do() -> None:
    bench = Bench()

    messages = bench.invoke(calling(PURGE, LOOKUP), "Done.")

    assert bench.ran == ["lookup"]
    assert [one.content for one in messages[3:]] == ["lookup is done", "Done."]
    refusal = refusal_in(messages)
    assert refusal is not None
    assert refusal.code == "DESTRUCTIVE_ACTION"
    assert not has_run_ended({"messages": messages})


def test_a_hard_block_of_a_result_ends_the_graph() -> None:
    seen = finding("RCE_RISK", surface=Surface.TOOL_RESULT)
    guard = seeing(seen, surface=Surface.TOOL_RESULT, codes=("RCE_RISK",))
    bench = Bench(Enforcer(pipeline=GuardPipeline([GuardStep(guard)])))

    messages = bench.invoke(calling(LOOKUP), "Never said.")

    assert [one.type for one in messages] == ["human", "ai", "tool", "ai"]
    assert "lookup is done" not in str(messages)


def test_commands_of_tools_are_handed_on() -> None:
    bench = Bench()

    messages = bench.invoke(calling(("lookup", {"command": "call-0"}), PURGE, LOOKUP), "Done.")

    assert orphans(messages) == 0
    assert sorted(str(one.content)[:9] for one in messages[2:5]) == [
        "REFUSED: ",
        "commanded",
        "lookup is",
    ]


def test_messages_may_stand_elsewhere_and_in_an_object() -> None:
    class State(BaseModel):
        talk: Annotated[list[Any], add_messages]

    bench = Bench(
        messages_key="talk",
        context=lambda _runtime: CallContext(subject={"id": "a", "type": "user"}),
    )
    graph = StateGraph(State)
    graph.add_node("tools", bench.node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    given: Any = {"talk": [HumanMessage("Go."), calling(LOOKUP, PURGE)]}

    run = asyncio.run(graph.compile().ainvoke(given))

    assert bench.ran == ["lookup"]
    assert orphans(run["talk"]) == 0
    assert not has_run_ended(State(**run), messages_key="talk")


def test_an_empty_state_has_not_ended() -> None:
    assert not has_run_ended({})


def refund(amount: int, id_: str | None) -> dict[str, Any]:
    args = {"order_id": "A-1", "amount": amount, "currency": "USD"}
    return {"name": "refund", "args": args, "id": id_, "type": "tool_call"}


@pytest.mark.parametrize("amounts", [(5, 5000), (5000, 5)])
def test_calls_that_share_an_id_are_checked_separately(amounts: tuple[int, int]) -> None:
    bench = Bench()
    calls = [refund(amount, "1") for amount in amounts]

    messages = bench.invoke(AIMessage("", tool_calls=calls), "Done.")

    assert bench.given == [{"order_id": "A-1", "amount": 5, "currency": "USD"}]
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    assert sorted(one.status for one in answers) == ["error", "success"]


def test_a_call_without_an_id_stops_the_node_before_anything_runs() -> None:
    bench = Bench()
    calls = [refund(5, "1"), refund(5, None)]

    with pytest.raises(InputError, match="a call of `refund` has no id"):
        bench.invoke(AIMessage("", tool_calls=calls), "Never said.")

    assert bench.ran == []


class ProxyExchange(TypedDict):
    """A state that nothing but tools write to."""

    messages: Annotated[list[Any], add_messages]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("form", ["calls", "call with context"])
def test_calls_that_are_sent_to_the_node_are_guarded(form: str, awaited: bool) -> None:
    def sent(state: ProxyExchange) -> Any:
        calls = [refund(5, "1"), refund(5000, "2")]
        if form == "calls":
            return [Send("tools", [call]) for call in calls]
        kind = "tool_call_with_context"
        return [
            Send("tools", {"__type": kind, "tool_call": each, "state": state}) for each in calls
        ]

    bench = Bench()
    graph = StateGraph(ProxyExchange)
    graph.add_node("tools", bench.node)
    graph.add_conditional_edges(START, sent, ["tools"])
    given: Any = {"messages": [("user", "Go.")]}

    compiled = graph.compile()
    run = asyncio.run(compiled.ainvoke(given)) if awaited else compiled.invoke(given)

    assert [one["amount"] for one in bench.given] == [5]
    [done, refused] = run["messages"][1:]
    assert done.content == "refund is done"
    assert refused.artifact["refusal"]["code"] == "REFUND_OVER_ESCALATION_LIMIT"


def test_a_hard_block_of_one_call_that_was_sent_ends_the_graph() -> None:
    def sent(state: ProxyExchange) -> Any:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [call]) for call in calls]

    bench = Bench()
    graph = StateGraph(ProxyExchange)
    graph.add_node("tools", bench.node)
    graph.add_conditional_edges(START, sent, ["tools"])
    run = graph.compile().invoke({"messages": [calling(RISKY, LOOKUP)]})

    assert [one.type for one in run["messages"]] == ["ai", "tool", "tool"]
    assert has_run_ended(run)
    assert run["messages"][1].artifact["words"]


def test_a_list_of_messages_is_answered_by_a_list() -> None:
    bench = Bench()
    said: Any = [HumanMessage("Go."), calling(LOOKUP, PURGE)]

    answers = in_a_graph(bench.node, said)

    assert [one.status for one in answers] == ["error", "success"]
    assert bench.ran == ["lookup"]


def test_nothing_to_run_is_answered_by_nothing() -> None:
    bench = Bench()

    assert in_a_graph(bench.node, {"messages": [HumanMessage("Go.")]}) == {"messages": []}
    assert in_a_graph(bench.node, []) == []


@pytest.mark.parametrize("given", [None, "calls", 7])
def test_a_state_that_no_tool_node_accepts_is_an_error(given: Any) -> None:
    with pytest.raises(InputTypeError, match="the state"):
        in_a_graph(Bench().node, given)


def in_a_graph(node: Any, given: Any) -> Any:
    """Return what the node makes of `given`, called by another one."""
    seen: list[Any] = []

    def call(_state: Any, config: RunnableConfig) -> Any:
        seen.append(node.invoke(given, config))
        return {}

    graph = StateGraph(ProxyExchange)
    graph.add_node("call", RunnableLambda(call))
    graph.add_edge(START, "call")
    graph.compile().invoke({"messages": []})
    return seen[0]


# Messages


def test_nothing_ended_where_no_model_has_spoken() -> None:
    assert find_earlier_end([]) is None
    assert find_earlier_end([HumanMessage("Go.")]) is None


def test_an_artifact_of_somebody_else_ends_nothing() -> None:
    said = [
        ToolMessage("x", tool_call_id="c", artifact=one) for one in ("text", {}, {"refusal": 1})
    ]

    assert find_closing_answer(said) is None


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolMessage([{"type": "text", "text": "a"}], tool_call_id="c"), "a"),
        (Command(update={"messages": [HumanMessage("a"), HumanMessage("b")]}), "a\nb"),
        (Command(update={"other": 1}), ""),
        (Command(goto="there"), ""),
        ([ToolMessage("a", tool_call_id="c"), Command(update=[HumanMessage("b")])], "a\nb"),
        (7, ""),
    ],
    ids=["blocks", "command", "no messages", "no update", "list", "something else"],
)
def test_the_text_of_what_a_tool_returned_is_found(result: Any, text: str) -> None:
    assert result_text(result) == text
