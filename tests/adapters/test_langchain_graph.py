import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from adapters.stage_langchain import ScriptedModel, free_tool, graph_of, orphans, refusal_in
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command
from pydantic import BaseModel
from toy_guards import finding, seeing

from demur.codes.vocabulary import Surface
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, Pipeline
from demur.integrations.langchain import guard_tool_node, run_ended
from demur.integrations.langchain.messages import closing, new_input, returned_text
from demur.policy.loader import parse_policy
from demur.testing.conformance.scene_gate import POLICY

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
        self.node = guard_tool_node(
            Enforcer(Gate(parse_policy(POLICY))) if enforcer is None else enforcer,
            [free_tool(name, self._run) for name in ("lookup", "refund", "purge")],
            **settings,
        )

    def _run(self, name: str, given: Any) -> Any:
        self.ran.append(name)
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
    assert run_ended({"messages": messages})


def test_the_tools_that_may_run_do() -> None:
    bench = Bench()

    messages = bench.invoke(calling(PURGE, LOOKUP), "Done.")

    assert bench.ran == ["lookup"]
    assert [one.content for one in messages[3:]] == ["lookup is done", "Done."]
    refusal = refusal_in(messages)
    assert refusal is not None
    assert refusal.code == "DESTRUCTIVE_ACTION"
    assert not run_ended({"messages": messages})


def test_a_hard_block_of_a_result_ends_the_graph() -> None:
    seen = finding("RCE_RISK", surface=Surface.TOOL_RESULT)
    guard = seeing(seen, surface=Surface.TOOL_RESULT, codes=("RCE_RISK",))
    bench = Bench(Enforcer(pipeline=Pipeline([GuardStep(guard)])))

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
        messages_key="talk", whose=lambda _runtime: Occasion(subject={"id": "a", "type": "user"})
    )
    graph = StateGraph(State)
    graph.add_node("tools", bench.node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    given: Any = {"talk": [HumanMessage("Go."), calling(LOOKUP, PURGE)]}

    run = asyncio.run(graph.compile().ainvoke(given))

    assert bench.ran == ["lookup"]
    assert orphans(run["talk"]) == 0
    assert not run_ended(State(**run), messages_key="talk")


def test_nothing_said_has_not_ended() -> None:
    assert not run_ended({})


# Messages

SPOKEN = st.sampled_from(["human", "ai", "tool"])


def _said(kinds: Sequence[str]) -> list[BaseMessage]:
    made: dict[str, Any] = {
        "human": lambda id_: HumanMessage("x", id=id_),
        "ai": lambda id_: AIMessage("x", id=id_),
        "tool": lambda id_: ToolMessage("x", tool_call_id="c", id=id_),
    }
    return [made[kind](str(place)) for place, kind in enumerate(kinds)]


@given(st.lists(SPOKEN, max_size=8), st.integers(0, 8))
def test_whatever_people_said_after_the_last_ruling_is_ruled_on(
    kinds: list[str], guarded: int
) -> None:
    messages = _said(kinds)
    known = str(guarded) if guarded < len(kinds) and kinds[guarded] == "human" else None

    found = new_input(messages, known)

    if known is not None:
        fresh = [one for one in messages[guarded + 1 :] if one.type == "human"]
        assert found[len(found) - len(fresh) :] == fresh
        assert bool(found) == bool(fresh)
    elif kinds and kinds[-1] == "human":
        assert found[-1] == messages[-1]
    assert all(one.type == "human" for one in found)


def test_an_artifact_of_somebody_else_ends_nothing() -> None:
    said = [
        ToolMessage("x", tool_call_id="c", artifact=one) for one in ("text", {}, {"refusal": 1})
    ]

    assert closing(said) is None


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
    assert returned_text(result) == text
