"""Prompts, arguments and results of the Agents SDK that are changed, and a person's yes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adapters.openai_agents_samples import Desk, call, code_in, opening, say
from agents import Agent, InputGuardrailTripwireTriggered, Runner
from support.gates import rows

from demur.errors import InputError

pytestmark = pytest.mark.adapters

KEY = "AKIAQ3EGRIFLV7XY2ABC"


@pytest.fixture
def open_desk() -> Iterator[Callable[..., Desk]]:
    with opening() as opened:
        yield opened


def sent(desk: Desk) -> str:
    return repr(desk.model.calls)


def test_a_prompt_a_call_and_its_result_are_changed(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(on_finding="redact")
    desk.returns = f"The key is {KEY}."
    result = desk.run(desk.agent([call("look", order=f"key {KEY}")], say("well")), f"Keep {KEY}.")

    assert desk.ran == ["look key [removed]"]
    assert result.final_output == "well"
    outputs = [one.output for one in result.new_items if one.type == "tool_call_output_item"]
    assert outputs == ["The key is [removed]."]
    assert result.input == "Keep [removed]."
    constraints = [one.constraints for one in rows(desk.gate)]
    assert constraints.count(("redact:SECRET_LEAK",)) == 3


def test_a_run_that_demur_does_not_start_is_refused(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(on_finding="redact")
    agent = desk.guard.protect(desk.agent(say("well")))

    with pytest.raises(InputGuardrailTripwireTriggered) as tripped:
        asyncio.run(Runner.run(agent, f"Keep {KEY}."))
    assert code_in(tripped.value.guardrail_result.output.output_info) == "SECRET_LEAK"


def test_an_answer_cannot_be_changed(open_desk: Callable[..., Desk]) -> None:
    with pytest.raises(InputError, match="cannot be changed here"):
        open_desk(on_finding={"output": "redact"})


@pytest.mark.parametrize("person", ["mary", lambda _result, _ctx: "mary"], ids=["name", "function"])
def test_a_persons_yes_runs_the_call_and_is_on_record(
    person: Any, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(approval="interrupt", approver=person)
    agent: Agent[Any] = desk.agent([call("pay", amount=900)], say("well"))
    state = desk.run(agent).to_state()
    [waits] = state.get_interruptions()
    state.approve(waits)
    desk.run(agent, state)

    assert desk.ran == ["pay 900"]
    records: list[Any] = rows(desk.gate)
    granted = [one.granted_by for row in records for one in row.personal.grants]
    assert granted == ["person:mary"]
