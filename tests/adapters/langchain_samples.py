"""Agents of LangChain at a desk for refunds, and what their tests look at."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from adapters.driver_langchain import ScriptedModel, free_tool, refusal_in
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey, sign_grant
from demur.integrations.langchain import LangChainGuard
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.testing.conformance import SCENARIO_POLICY

__all__ = [
    "LARGE",
    "MANAGER",
    "STRANGER",
    "THREAD",
    "Ran",
    "agent_of",
    "calling",
    "codes",
    "gate_of",
    "grant_by",
    "records",
]

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MANAGER = SigningKey.from_randomness(bytes(range(32)), key_id="manager-1", holder="mary")
STRANGER = SigningKey.from_randomness(bytes(range(1, 33)), key_id="manager-1", holder="mary")
THREAD: Any = {"configurable": {"thread_id": "t-1"}}
LARGE = ("refund", {"order_id": "A-1", "amount": 900, "currency": "USD"})


def gate_of(policy: str = SCENARIO_POLICY) -> Gate:
    """Return a gate that stores in memory and trusts the manager."""
    keys = KeyRing([MANAGER.trusted_key()])
    return Gate(parse_policy(policy), open_store(":memory:"), keys=keys, clock=lambda: NOW)


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """Return a turn of a model that calls tools."""
    asked = [
        {"name": name, "args": args, "id": f"call-{place}", "type": "tool_call"}
        for place, (name, args) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=asked)


class Ran(list[str]):
    """The tools that ran."""

    def run(self, name: str, _given: Any) -> str:
        """Note that it ran."""
        self.append(name)
        return f"{name} is done"


def agent_of(
    enforcer: Enforcer,
    *turns: Any,
    ran: Ran | None = None,
    before: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    tools: Sequence[str] = ("lookup", "refund", "purge"),
    **settings: Any,
) -> tuple[Any, ScriptedModel]:
    """Return an agent of these turns, and its model."""
    model = ScriptedModel(turns=list(turns))
    kept = {
        name: settings.pop(name)
        for name in ("approval", "approver", "grant_for", "key", "context", "on_finding")
        if name in settings
    }
    agent = create_agent(
        model,
        tools=[free_tool(name, (Ran() if ran is None else ran).run) for name in tools],
        middleware=[*before, LangChainGuard(enforcer, **kept)],
        **settings,
    )
    return agent, model


def records(enforcer: Enforcer) -> list[DecisionRecord]:
    """Return all that is on record."""
    assert enforcer.gate is not None
    assert enforcer.gate.store is not None
    return list(enforcer.gate.store.find_records())


def codes(messages: Sequence[BaseMessage]) -> str | None:
    """Return the code of the last refusal in the messages."""
    refusal = refusal_in(messages)
    return None if refusal is None else refusal.code


def grant_by(key: SigningKey) -> Grant:
    """Return an approval of refunds, for an hour."""
    return sign_grant(
        key,
        grant_id="g-1",
        kind="approval",
        granted_to="agent:billing",
        scope={"action": "refund"},
        not_before=NOW,
        expires_at=NOW + timedelta(hours=1),
        codes=["REFUND_OVER_ESCALATION_LIMIT"],
    )
