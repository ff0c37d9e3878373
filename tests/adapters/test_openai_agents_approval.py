"""Approvals: whom they ask, what they are good for, and what they never lift."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adapters.openai_agents_samples import Desk, call, code_in, grants, items, opening, say
from agents import Agent, SQLiteSession, ToolInputGuardrailTripwireTriggered, function_tool
from agents.testing import ScriptedModel
from support.gates import CORE
from support.sample_guards import finding
from support.sample_guards import guard as toy

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.result import CheckResult
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.model.grant import Grant

pytestmark = pytest.mark.adapters


@pytest.fixture
def open_desk() -> Iterator[Callable[..., Desk]]:
    with opening() as opened:
        yield opened


def approved(desk: Desk, agent: Agent[Any], **more: Any) -> Any:
    """Return the result of a run, after somebody approved the one call that waited."""
    state = desk.run(agent).to_state()
    [waits] = state.get_interruptions()
    state.approve(waits, **more)
    return desk.run(agent, state)


# Hard blocks.


@pytest.mark.parametrize("approval", ["interrupt", "message"])
@pytest.mark.parametrize("own", [True, lambda *_: True], ids=["always", "asked"])
def test_a_hard_block_is_not_offered_for_approval(
    own: Any, approval: str, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(approval=approval)
    agent = desk.agent([call("wipe"), call("look", "call-2", order="7")], say("well"))
    wipe: Any = agent.tools[2]
    wipe.needs_approval = own

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as tripped:
        desk.run(agent)

    assert code_in(tripped.value.output.output_info) == "ACTION_HIGH_RISK"
    assert desk.ran == []
    assert desk.codes == ["ACTION_HIGH_RISK"]


def test_nothing_runs_after_a_hard_block_where_calls_may_wait(
    open_desk: Callable[..., Desk],
) -> None:
    desk, session = open_desk(approval="interrupt"), SQLiteSession("talk")
    turn = [call("look", order="A"), call("wipe", "call-2"), call("look", "call-3", order="B")]
    try:
        with pytest.raises(ToolInputGuardrailTripwireTriggered):
            desk.run(desk.agent(turn, say("done")), session=session)
        kept = [(one.get("type"), one.get("call_id")) for one in items(session)]
    finally:
        session.close()

    assert desk.ran == ["look A"]
    assert kept[1:] == [("function_call", "call-1"), ("function_call_output", "call-1")]


def test_a_refusal_that_no_approval_lifts_is_not_offered(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(approval="interrupt")
    agent = desk.agent(*[[call("look", f"call-{n}", order="7")] for n in range(8)], say("well"))
    look: Any = agent.tools[0]
    asked: list[Any] = []
    look.needs_approval = lambda *told: asked.append(told)

    desk.run(agent)

    assert "LOOP_DETECTED" in desk.codes
    assert len(asked) == len(desk.ran) < 8


# Grants.


async def grants_later(ruling: CheckResult, ctx: Any) -> list[Grant]:
    return grants(ruling, ctx)


def test_grants_may_be_awaited(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants_later)
    agent = desk.guard.protect(desk.agent([call("pay", amount=900)], say("well")))

    approved(desk, agent)

    assert desk.ran == ["pay 900"]


@pytest.mark.parametrize(
    "grant_for", [lambda *_: 1 / 0, lambda *_: None, lambda *_: ["yes"]], ids=["0", "none", "text"]
)
def test_a_failing_grant_function_grants_nothing(
    grant_for: Any, open_desk: Callable[..., Desk], caplog: pytest.LogCaptureFixture
) -> None:
    desk = open_desk(approval="interrupt", grant_for=grant_for)
    agent = desk.guard.protect(desk.agent([call("pay", amount=900)], say("well")))

    with caplog.at_level(logging.CRITICAL, "demur"):
        result = approved(desk, agent)

    assert result.final_output == "well"
    assert desk.ran == []
    assert "REFUSED: SPEND_OVER_APPROVAL_LIMIT" in str(desk.model.last_call)


def test_an_approval_of_all_calls_is_one_of_none(open_desk: Callable[..., Desk]) -> None:
    asked: list[str] = []

    def grant_for(ruling: CheckResult, ctx: Any) -> list[Grant]:
        asked.append(ctx.tool_arguments)
        return grants(ruling, ctx)

    desk = open_desk(approval="interrupt", grant_for=grant_for)
    turns = [call("pay", amount=200)], [call("pay", "call-2", amount=9999)], say("well")
    agent = desk.guard.protect(desk.agent(*turns))

    result = approved(desk, agent, always_approve=True)

    assert result.final_output == "well"
    assert asked == desk.ran == []


# Whom is told why.


def nested(desk: Desk, *turns: Any) -> Agent[Any]:
    """Return an agent that has the desk's as a tool."""
    inner = desk.guard.protect(desk.agent(*turns))
    tool = inner.as_tool("look", "It helps.", failure_error_function=None)
    model = ScriptedModel([[call("look", "outer-1", input="go")], say("all is well")])
    return desk.guard.protect(Agent("outer", model=model, tools=[tool]))


def test_a_waiting_call_of_a_nested_agent_says_why(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    agent = nested(desk, [call("pay", amount=900)], say("well"))

    result = desk.run(agent)
    [why] = desk.guard.explain_interruptions(result)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])

    assert why.needs_approval
    assert desk.run(agent, state).final_output == "all is well"
    assert desk.ran == ["pay 900"]


def test_a_call_of_another_run_says_nothing_of_this_one(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt")
    desk.run(desk.agent([call("pay", amount=900)]))
    agent = desk.agent([call("look", order="7")])
    look: Any = agent.tools[0]
    look.needs_approval = True

    result = desk.run(agent)

    assert len(result.interruptions) == 1
    assert desk.guard.explain_interruptions(result) == ()


def test_each_run_says_why_its_own_call_waits(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt")
    results = [desk.run(desk.agent([call("pay", amount=amount)])) for amount in (200, 900)]

    rulings = [ruling for result in results for ruling in desk.guard.explain_interruptions(result)]

    records = [ruling.record for ruling in rulings if ruling.record is not None]
    assert [one.amount.value for one in records if one.amount is not None] == [200, 900]


# Arguments that the SDK changes before a tool gets them.


def pay_agent(desk: Desk, *turns: Any, **more: Any) -> Agent[Any]:
    """Return an agent whose tool takes a float, and has a default argument."""

    @function_tool(**more)
    def pay(amount: float, currency: str = "EUR") -> str:
        """Pay."""
        desk.ran.append(f"pay {amount} {currency}")
        if amount == 13:
            raise ValueError("unlucky")
        return "paid"

    return Agent("desk", model=ScriptedModel(turns), tools=[pay])


@pytest.mark.parametrize("given", [{"amount": 20}, {"amount": 20.0}, {"amount": "20"}], ids=repr)
def test_an_allowed_call_with_a_default_or_a_converted_argument_runs(
    given: dict[str, Any], open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(approval="interrupt")

    result = desk.run(pay_agent(desk, [call("pay", **given)], say("all is well")))

    assert result.interruptions == []
    assert desk.ran == ["pay 20.0 EUR"]
    assert result.final_output == "all is well"


def test_a_call_with_a_default_argument_says_why_it_waits(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    agent = pay_agent(desk, [call("pay", amount=900)], say("all is well"))

    result = desk.run(agent)
    [why] = desk.guard.explain_interruptions(result)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])

    assert why.needs_approval
    assert why.envelope["code"] == "SPEND_OVER_APPROVAL_LIMIT"
    assert desk.ran == []
    assert desk.run(agent, state).final_output == "all is well"
    assert desk.ran == ["pay 900.0 EUR"]


@pytest.mark.parametrize("approval", ["interrupt", "message"])
def test_a_tool_keeps_its_own_error_function(approval: str, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval=approval)
    agent = pay_agent(
        desk,
        [call("pay", amount=13)],
        say("all is well"),
        failure_error_function=lambda _ctx, error: f"it failed: {error}",
    )

    result = desk.run(agent)

    assert result.interruptions == []
    assert "it failed: unlucky" in str(result.to_input_list())


# What changes while a call waits.


def test_a_call_that_waited_is_ruled_on_anew(open_desk: Callable[..., Desk]) -> None:
    risks: list[Any] = []
    looks = toy(lambda *_: iter(risks), surface=Surface.TOOL_CALL)
    desk = open_desk(
        pipeline=GuardPipeline([GuardStep(looks)], registry=CORE),
        context=lambda _: CallContext(run="one"),
    )
    agent = desk.agent([call("look", order="7")], say("well"))
    look: Any = agent.tools[0]
    look.needs_approval = True
    agent = desk.guard.protect(agent)
    state = desk.run(agent).to_state()
    state.approve(state.get_interruptions()[0])
    risks.append(finding("RCE_RISK", surface=Surface.TOOL_CALL, span=None))

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        desk.run(agent, state)

    assert desk.ran == []
