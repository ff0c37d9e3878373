"""Texts of Pydantic AI agents that are changed instead of refused, and a person's yes."""

from typing import Any

import pytest
from adapters.pydantic_ai_runs import LARGE, POL, Conversation, said
from pydantic_ai.messages import BinaryContent, TextContent, ToolReturn
from pydantic_ai.tools import RunContext, Tool
from support.gates import opened, rows

from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.integrations.pydantic_ai import PydanticAIGuard
from demur.testing.scenarios import AnswerTurn, ToolTurn

pytestmark = pytest.mark.adapters

KEY = "AKIAQ3EGRIFLV7XY2ABC"
FINE = AnswerTurn(("Fine.",))


def heard(played: Conversation) -> str:
    return said([message for sent in played.script.heard for message in sent])


@pytest.mark.parametrize(
    "prompt", [f"Keep {KEY}.", ["Keep", f"{KEY}."], [TextContent(content=f"Keep {KEY}.")]]
)
def test_the_model_and_the_history_get_the_changed_prompt(prompt: Any) -> None:
    with opened(POL) as gate:
        played = Conversation(gate, FINE, on_finding="redact")
        result = played.run(prompt)

        assert rows(gate)[0].constraints == ("redact:SECRET_LEAK",)
    assert KEY not in heard(played)
    assert KEY not in said(result.all_messages())
    assert "[removed]" in heard(played)


def test_what_a_tool_returns_is_changed_with_its_content() -> None:
    def lookup(order_id: str) -> ToolReturn:
        return ToolReturn({"order": order_id, "key": KEY}, content=f"The key is {KEY}.")

    with opened(POL) as gate:
        turn = ToolTurn((("lookup", {"order_id": "A-1"}),))
        played = Conversation(gate, turn, FINE, on_finding="redact", tools=[Tool(lookup)])
        result = played.run()

    assert KEY not in heard(played)
    assert KEY not in said(result.all_messages())
    assert "The key is [removed]." in heard(played)


def test_a_result_that_cannot_be_changed_is_withheld() -> None:
    def lookup(order_id: str) -> ToolReturn:
        file = BinaryContent(f"The key is {KEY}.".encode(), media_type="text/plain")
        return ToolReturn(order_id, content=[file])

    with opened(POL) as gate:
        turn = ToolTurn((("lookup", {"order_id": "A-1"}),))
        on_finding = {"tool_result": {"SECRET_LEAK": "redact"}}
        played = Conversation(gate, turn, FINE, on_finding=on_finding, tools=[Tool(lookup)])
        played.run()

    assert "The key is" not in heard(played)
    assert "Fine." in said(played.messages)


@pytest.mark.parametrize("person", ["mary", lambda _result, _ctx: "mary"], ids=["name", "function"])
def test_a_persons_yes_runs_the_call_and_is_on_record(person: Any) -> None:
    with opened(POL) as gate:
        played = Conversation(gate, ToolTurn((LARGE,)))
        requests = played.run()
        results = requests.output.build_results(approve_all=True)
        again = Conversation(gate, FINE, approver=person)
        again.run(None, message_history=requests.all_messages(), deferred_tool_results=results)

        record: Any = rows(gate)[-1]
        assert record.resolved_codes == ("REFUND_OVER_ESCALATION_LIMIT",)
        assert [one.granted_by for one in record.personal.grants] == ["person:mary"]
    assert [name for name, _ in again.ran] == ["refund"]


def test_an_approver_who_may_not_approve_lifts_nothing() -> None:
    async def nobody(_result: CheckResult, _ctx: RunContext[Any]) -> None:
        return None

    with opened(POL) as gate:
        played = Conversation(gate, ToolTurn((LARGE,)))
        requests = played.run()
        results = requests.output.build_results(approve_all=True)
        again = Conversation(gate, FINE, approver=nobody)
        again.run(None, message_history=requests.all_messages(), deferred_tool_results=results)

    assert again.ran == []


def test_two_ways_to_approve_are_an_error() -> None:
    with opened(POL) as gate, pytest.raises(InputError, match="both say who approves"):
        PydanticAIGuard(gate, approver="mary", grant_for=lambda _result, _ctx: ())
