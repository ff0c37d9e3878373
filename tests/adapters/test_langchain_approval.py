"""Calls that wait for somebody's approval, in a run that is paused and resumed."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from adapters.driver_langchain import orphans
from adapters.langchain_samples import (
    LARGE,
    MANAGER,
    STRANGER,
    THREAD,
    Ran,
    agent_of,
    calling,
    codes,
    gate_of,
    grant_by,
    records,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support.sample_guards import finding, seeing

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations._kit.approval import is_approval
from demur.integrations.langchain import LangChainGuard
from demur.model.finding import Action
from demur.model.grant import Grant
from demur.testing.conformance import SCENARIO_POLICY

pytestmark = pytest.mark.adapters

WHO = {"id": "billing", "type": "agent"}
APPROVALS: list[Any] = [
    True,
    "approve",
    {"type": "approve"},
    {"decisions": [{"type": "approve"}]},
]


@pytest.fixture
def enforcer() -> Iterator[Enforcer]:
    with gate_of() as gate:
        yield Enforcer(gate, subject=WHO)


def paused(enforcer: Enforcer, ran: Ran, **settings: Any) -> tuple[Any, Any]:
    agent, _ = agent_of(
        enforcer,
        calling(LARGE, ("lookup", {})),
        "Done.",
        ran=ran,
        approval="interrupt",
        checkpointer=InMemorySaver(),
        **settings,
    )
    return agent, agent.invoke({"messages": "Pay it back."}, THREAD)


def resumed(agent: Any, answer: Any, *, awaited: bool = False) -> Any:
    given: Command[Any] = Command(resume=answer)
    return asyncio.run(agent.ainvoke(given, THREAD)) if awaited else agent.invoke(given, THREAD)


def test_a_call_that_waits_for_approval_pauses_the_run(enforcer: Enforcer) -> None:
    ran = Ran()

    _, run = paused(enforcer, ran)

    [asked] = run["__interrupt__"]
    assert asked.value["refusal"]["code"] == "REFUND_OVER_ESCALATION_LIMIT"
    assert asked.value["refusal"]["decision_id"]
    assert asked.value["tool_call"]["args"] == LARGE[1]
    assert ran == ["lookup"]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        lambda grant: grant.to_json().decode(),
        lambda grant: {"grants": [grant.to_json()]},
        msgspec.to_builtins,
    ],
    ids=["text", "list of bytes", "object"],
)
def test_a_grant_lets_the_call_run(
    enforcer: Enforcer, answer: Callable[[Grant], Any], awaited: bool
) -> None:
    ran = Ran()
    agent, _ = paused(enforcer, ran)

    run = resumed(agent, answer(grant_by(MANAGER)), awaited=awaited)

    assert ran == ["lookup", "refund"]
    assert codes(run["messages"]) is None
    decided = [(one.action_type, one.may_execute) for one in records(enforcer)]
    assert decided == [("generate", True), ("refund", False), ("lookup", True), ("refund", True)]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_grant_speaks_for_the_result_as_well(awaited: bool) -> None:
    watchful = (
        SCENARIO_POLICY
        + """
  - id: R_WARNED
    stage: ESCALATIONS
    if: { findings.codes: { contains: RCE_RISK } }
    then: { verdict: ESCALATE, reason_codes: [RCE_RISK] }
"""
    )
    warns = finding("CONTEXT_INJECTION", surface=Surface.TOOL_RESULT, action=Action.WARN)
    guard = seeing(warns, surface=Surface.TOOL_RESULT, codes=("CONTEXT_INJECTION",))
    with gate_of(watchful) as gate:
        enforcer = Enforcer(gate, pipeline=GuardPipeline([GuardStep(guard)]), subject=WHO)
        agent, _ = paused(enforcer, Ran())
        run = resumed(agent, grant_by(MANAGER).to_json().decode(), awaited=awaited)

    assert codes(run["messages"]) is None
    assert "refund is done" in str(run["messages"])


@pytest.mark.parametrize(
    "answer",
    ["no", True, 7, {"type": "approve"}, {"grants": [7]}, {"grants": {}}, [], "{}"],
    ids=str,
)
def test_anything_but_a_grant_is_a_no(enforcer: Enforcer, answer: Any) -> None:
    ran = Ran()
    agent, _ = paused(enforcer, ran)

    run = resumed(agent, answer)

    assert ran == ["lookup"]
    assert codes(run["messages"]) == "REFUND_OVER_ESCALATION_LIMIT"
    assert orphans(run["messages"]) == 0
    assert run["messages"][-1].content == "Done."


def test_a_grant_that_nobody_trusts_is_a_no(enforcer: Enforcer) -> None:
    ran = Ran()
    agent, _ = paused(enforcer, ran)

    run = resumed(agent, grant_by(STRANGER).to_json())

    assert ran == ["lookup"]
    assert codes(run["messages"]) == "REFUND_OVER_ESCALATION_LIMIT"


# A plain approval


class Signs:
    """Gives grants for what somebody approved, and keeps what it was asked about."""

    def __init__(self, *grants: Grant) -> None:
        self.asked: list[tuple[CheckResult, Any]] = []
        self._grants = grants

    def __call__(self, ruling: CheckResult, answer: Any) -> tuple[Grant, ...]:
        """Give all of them."""
        self.asked.append((ruling, answer))
        return self._grants


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("answer", APPROVALS, ids=str)
def test_grants_are_requested_after_an_approval(
    enforcer: Enforcer, answer: Any, awaited: bool
) -> None:
    ran, signs = Ran(), Signs(grant_by(MANAGER))
    agent, _ = paused(enforcer, ran, grant_for=signs)
    assert signs.asked == []

    run = resumed(agent, answer, awaited=awaited)

    assert ran == ["lookup", "refund"]
    assert codes(run["messages"]) is None
    [(ruling, told)] = signs.asked
    assert told == answer
    assert ruling.line.startswith("REFUSED: REFUND_OVER_ESCALATION_LIMIT: ")
    assert ruling.record is not None
    assert ruling.record["request"]["action"]["type"] == "refund"


@pytest.mark.parametrize(
    "answer",
    [
        *("no", "Approve", 1, False, None, [], {}, ["approve"], {"type": "reject"}),
        {"type": "edit", "edited_action": {"name": "refund", "args": {}}},
        {"decisions": []},
        {"decisions": "approve"},
        {"decisions": ["approve"]},
        {"decisions": [{"type": "reject"}]},
        {"decisions": [{"type": "approve"}, {"type": "reject"}]},
        {"type": "approve", "decisions": [{"type": "reject"}]},
    ],
    ids=str,
)
def test_other_answers_are_not_an_approval(answer: Any) -> None:
    assert not is_approval(answer)


@pytest.mark.parametrize("answer", ["no", {"decisions": [{"type": "reject"}]}], ids=str)
def test_a_no_stays_a_no(enforcer: Enforcer, answer: Any) -> None:
    ran, signs = Ran(), Signs(grant_by(MANAGER))
    agent, _ = paused(enforcer, ran, grant_for=signs)

    run = resumed(agent, answer)

    assert ran == ["lookup"]
    assert signs.asked == []
    assert codes(run["messages"]) == "REFUND_OVER_ESCALATION_LIMIT"


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("grants", [(), (grant_by(STRANGER),)], ids=["missing", "useless"])
def test_an_approval_without_a_grant_that_counts_lifts_nothing(
    enforcer: Enforcer, grants: tuple[Grant, ...], awaited: bool
) -> None:
    ran = Ran()
    agent, _ = paused(enforcer, ran, grant_for=Signs(*grants))

    run = resumed(agent, True, awaited=awaited)

    assert ran == ["lookup"]
    assert codes(run["messages"]) == "REFUND_OVER_ESCALATION_LIMIT"
    assert orphans(run["messages"]) == 0
    assert run["messages"][-1].content == "Done."


def test_a_grant_that_is_answered_with_needs_nobody_else(enforcer: Enforcer) -> None:
    ran, signs = Ran(), Signs()
    agent, _ = paused(enforcer, ran, grant_for=signs)

    resumed(agent, grant_by(MANAGER).to_json().decode())

    assert ran == ["lookup", "refund"]
    assert signs.asked == []


def test_a_grant_issued_during_the_pause_is_used_on_resume() -> None:
    known: list[Grant] = []
    ran = Ran()
    with gate_of() as gate:
        agent, _ = paused(Enforcer(gate, subject=WHO, authority=lambda _: known), ran)
        known.append(grant_by(MANAGER))
        run = resumed(agent, True)

    assert ran == ["lookup", "refund"]
    assert codes(run["messages"]) is None


def test_a_call_is_no_circle_because_it_was_approved_often(enforcer: Enforcer) -> None:
    ran, times = Ran(), 8
    turns = [turn for _ in range(times) for turn in (calling(LARGE), "Done.")]
    agent, _ = agent_of(
        enforcer,
        *turns,
        ran=ran,
        approval="interrupt",
        grant_for=Signs(grant_by(MANAGER)),
        checkpointer=InMemorySaver(),
    )

    for place in range(times):
        agent.invoke({"messages": f"Pay part {place} back."}, THREAD)
        run = resumed(agent, True)

    assert codes(run["messages"]) is None
    assert ran == ["refund"] * times


def test_a_call_that_was_approved_and_refused_counts_once_in_its_history() -> None:
    turns = [calling(LARGE) for _ in range(2)]
    with gate_of() as gate:
        enforcer = Enforcer(gate, subject=WHO, monotonic=lambda: 0.0)
        agent, _ = agent_of(
            enforcer, *turns, "Done.", approval="interrupt", checkpointer=InMemorySaver()
        )
        agent.invoke({"messages": "Pay it back."}, THREAD)
        resumed(agent, True)
        resumed(agent, True)
        found = [one.reason_codes for one in records(enforcer)]

    assert found == [(), *[("REFUND_OVER_ESCALATION_LIMIT",)] * 4]


def test_a_hard_block_that_arises_during_the_pause_ends_the_run() -> None:
    hard = finding("RCE_RISK", surface=Surface.TOOL_CALL)
    guard = seeing(hard, surface=Surface.TOOL_CALL, codes=("RCE_RISK",))
    ran, signs = Ran(), Signs(grant_by(MANAGER))
    with gate_of() as gate:
        agent, _ = paused(Enforcer(gate, subject=WHO), ran, grant_for=signs)
        later = Enforcer(gate, pipeline=GuardPipeline([GuardStep(guard)]), subject=WHO)
        resumes, model = agent_of(
            later,
            "Never said.",
            ran=ran,
            approval="interrupt",
            grant_for=signs,
            checkpointer=agent.checkpointer,
        )
        run = resumed(resumes, True)

    assert ran == ["lookup"]
    assert signs.asked == []
    assert model.heard == []
    assert codes(run["messages"][-1:]) == "RCE_RISK"


def test_a_paused_run_can_be_resumed_by_another_process(enforcer: Enforcer) -> None:
    ran = Ran()
    agent, _ = paused(enforcer, ran)
    other, _ = agent_of(
        enforcer,
        "Done.",
        ran=ran,
        approval="interrupt",
        grant_for=Signs(grant_by(MANAGER)),
        checkpointer=agent.checkpointer,
    )

    run = resumed(other, {"decisions": [{"type": "approve"}]})

    assert ran == ["lookup", "refund"]
    assert run["messages"][-1].content == "Done."


def test_another_way_to_ask_is_an_error(enforcer: Enforcer) -> None:
    way: Any = "shout"

    with pytest.raises(InputError, match="unknown mode `shout`"):
        LangChainGuard(enforcer, approval=way)
