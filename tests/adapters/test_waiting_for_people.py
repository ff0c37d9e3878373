"""`approval="wait"`: a call waits until a person decides in the queue of the store."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from adapters.langchain_samples import LARGE, Ran, agent_of, calling
from adapters.openai_agents_samples import POLICY, Desk, call, say
from support.gates import CORE, NOON
from support.people import SERVICE_KEY, add_person

from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.approval_queue import ApprovalQueue
from demur.gate.gate import Gate
from demur.grants import KeyRing
from demur.integrations.claude_agent import claude_hooks
from demur.integrations.langchain import LangChainGuard
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.testing.conformance import SCENARIO_POLICY

pytestmark = pytest.mark.adapters

AGENT = {"id": "billing", "type": "agent"}
OpenGate = Callable[[str], Gate]


@pytest.fixture
def open_gate() -> Iterator[OpenGate]:
    """Return a function that opens a gate which trusts what people sign."""
    issuers = KeyRing([SERVICE_KEY.issuer.trusted_key()])
    gates: list[Gate] = []

    def open_one(policy: str) -> Gate:
        chosen = parse_policy(policy, registry=CORE)
        gate = Gate(chosen, open_store(":memory:"), issuers=issuers, clock=lambda: NOON)
        assert gate.store is not None
        add_person(gate.store)
        gates.append(gate)
        return gate

    yield open_one
    for gate in gates:
        gate.close()


def decide_on(gate: Gate, vote: str, run: Callable[[], Any]) -> Any:
    """Return what a run gives, while a person votes on each request that it begins."""
    queue = ApprovalQueue(gate, lambda: SERVICE_KEY, clock=lambda: NOON)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        while not running.done():
            for row in queue.store.list_approvals(state="waiting"):
                getattr(queue, vote)(row.decision_id, "mary", note="as agreed")
        return running.result()


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("vote", ["approve", "decline"])
def test_an_agent_of_langchain_waits(open_gate: OpenGate, vote: str, awaited: bool) -> None:
    gate, ran = open_gate(SCENARIO_POLICY), Ran()
    enforcer = Enforcer(gate, subject=AGENT)
    agent, _ = agent_of(enforcer, calling(LARGE), "Done.", ran=ran, approval="wait")
    given = {"messages": "Pay it back."}

    def run() -> Any:
        return asyncio.run(agent.ainvoke(given)) if awaited else agent.invoke(given)

    result = decide_on(gate, vote, run)
    assert ran == (["refund"] if vote == "approve" else [])
    texts = [str(message.content) for message in result["messages"]]
    assert any("as agreed" in text for text in texts) is (vote == "decline")
    assert len(enforcer.gate.store.list_approvals()) == 1  # type: ignore[union-attr] # it is there


@pytest.mark.parametrize("vote", ["approve", "decline"])
def test_an_agent_of_openai_waits(open_gate: OpenGate, vote: str) -> None:
    desk = Desk(open_gate(POLICY), approval="wait")
    agent = desk.agent([call("pay", amount=900)], say("well"))

    result = decide_on(desk.gate, vote, lambda: desk.run(agent))
    assert desk.ran == (["pay 900"] if vote == "approve" else [])
    history = str(result.to_input_list())
    assert ("as agreed" in history) is (vote == "decline")
    assert desk.gate.store is not None
    assert len(desk.gate.store.list_approvals()) == 1


@pytest.mark.parametrize(("vote", "decision"), [("approve", None), ("decline", "deny")])
def test_a_hook_of_claude_waits(open_gate: OpenGate, vote: str, decision: str | None) -> None:
    gate = open_gate(SCENARIO_POLICY)
    [matcher] = claude_hooks(Enforcer(gate, subject=AGENT), approval="wait")["PreToolUse"]
    event: Any = {
        "hook_event_name": "PreToolUse",
        "session_id": "s-1",
        "transcript_path": "",
        "cwd": "/work",
        "tool_name": LARGE[0],
        "tool_input": LARGE[1],
        "tool_use_id": "t-1",
    }
    hook: Any = matcher.hooks[0]

    output: Any = decide_on(gate, vote, lambda: asyncio.run(hook(event, "t-1", {"signal": None})))
    said = output.get("hookSpecificOutput", {})
    assert said.get("permissionDecision") in {decision, "allow" if decision is None else decision}
    assert ("as agreed" in str(said)) is (vote == "decline")


def test_waiting_takes_a_store() -> None:
    with pytest.raises(InputError, match="needs a store"):
        LangChainGuard(Enforcer(), approval="wait")
    with pytest.raises(InputError, match="unknown mode"):
        LangChainGuard(Enforcer(), approval="later")  # type: ignore[arg-type] # what is tested
