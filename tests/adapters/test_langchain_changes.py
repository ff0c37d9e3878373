"""Messages, arguments and results of LangChain agents that are changed, and a person's yes."""

from collections.abc import Iterator
from typing import Any

import pytest
from adapters.driver_langchain import ScriptedModel
from adapters.langchain_samples import LARGE, THREAD, Ran, agent_of, calling, gate_of, records
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.langchain import LangChainGuard

pytestmark = pytest.mark.adapters

WHO = {"id": "billing", "type": "agent"}
KEY = "AKIAQ3EGRIFLV7XY2ABC"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with gate_of() as gate:
        yield gate


@pytest.mark.parametrize("content", [f"Keep {KEY}.", [{"type": "text", "text": f"Keep {KEY}."}]])
def test_the_model_and_the_state_get_the_changed_message(content: Any, gate: Gate) -> None:
    agent, model = agent_of(Enforcer(gate), "Fine.", on_finding="redact")
    state = agent.invoke({"messages": [HumanMessage(content)]})

    assert KEY not in repr(model.heard)
    assert KEY not in repr(state["messages"])
    assert "Keep [removed]." in repr(model.heard[0])
    assert records(Enforcer(gate))[0].constraints == ("redact:SECRET_LEAK",)


def test_a_checked_message_is_not_checked_again(gate: Gate) -> None:
    agent, _ = agent_of(
        Enforcer(gate),
        calling(("lookup", {"order_id": "A-1"})),
        "Fine.",
        on_finding="redact",
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": f"Keep {KEY}."}, THREAD)

    stored: list[Any] = records(Enforcer(gate))
    stages = [one.personal.request["extensions"]["stage"] for one in stored]
    assert stages == ["input", "tool_call"]


def test_a_command_that_a_tool_returns_is_changed(gate: Gate) -> None:
    @tool
    def lookup(order_id: str) -> Command[Any]:
        """Look it up."""
        answer = ToolMessage(f"{order_id} has the key {KEY}.", tool_call_id="call-0")
        return Command(update={"messages": [answer]})

    model = ScriptedModel(turns=[calling(("lookup", {"order_id": "A-1"})), ["Fine."]])
    guard = LangChainGuard(gate, on_finding={"tool_result": {"SECRET_LEAK": "redact"}})
    agent: Any = create_agent(model, tools=[lookup], middleware=[guard])
    state = agent.invoke({"messages": "Hello"})

    assert KEY not in repr(state["messages"])
    assert "A-1 has the key [removed]." in repr(model.heard[1])


@pytest.mark.parametrize("person", ["mary", lambda _result, _answer: "mary"])
def test_a_persons_yes_runs_the_call_and_is_on_record(person: Any, gate: Gate) -> None:
    ran = Ran()
    agent, _ = agent_of(
        Enforcer(gate, subject=WHO),
        calling(LARGE),
        "Done.",
        ran=ran,
        approval="interrupt",
        approver=person,
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": "Pay it back."}, THREAD)
    assert ran == []
    agent.invoke(Command(resume="approve"), THREAD)

    assert ran == ["refund"]
    stored: list[Any] = records(Enforcer(gate))
    granted = [one.granted_by for record in stored for one in record.personal.grants]
    assert granted == ["person:mary"]


def test_an_approver_without_a_gate_is_an_error() -> None:
    with pytest.raises(InputError, match="recorded by a gate"):
        LangChainGuard(Enforcer(), approver="mary")
