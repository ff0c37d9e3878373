"""A deep agent whose subagent is held to a policy: the subagent asks for a refund, and is refused.

Run it: `python examples/deep_agent.py`. The model is a fake one, the store is in memory.
"""

from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from demur import Enforcer, Gate, open_store
from demur.integrations.deepagents import DeepAgentsGuard
from demur.policy import parse_policy

POLICY = """
schema_version: policy.v1
policy_id: support
policy_version: 1.0.0
rules:
  - id: R_TALK
    stage: ALLOW_PATHS
    if: { action_type: { in: [generate, task, refund] } }
    then: { verdict: ALLOW }
  - id: R_LARGE
    stage: ESCALATIONS
    if: { action_type: refund, amount_usd: { gt: 250 } }
    then: { verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT], missing: [approval] }
"""


class FakeModel(GenericFakeChatModel):
    """Takes scripted turns, and accepts tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return the model with the tools bound."""
        return self.bind(tools=list(tools), **kwargs)


def refund(order: str, amount: int, currency: str) -> str:
    """Pay an order back."""
    return f"paid {amount} {currency} back for {order}"


def call_tool(name: str, **args: Any) -> AIMessage:
    """Return a turn in which the model calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": name, "type": "tool_call"}])


def make_agent(gate: Gate) -> Any:
    """Return a deep agent that leaves the refund to its subagent."""
    guard = DeepAgentsGuard(Enforcer(gate, subject={"type": "agent", "id": "billing"}))
    turns = [
        call_tool("task", description="Pay A-2 back.", subagent_type="general-purpose"),
        call_tool("refund", order="A-2", amount=900, currency="USD"),
        AIMessage("I may not pay that much without an approval."),
        AIMessage("The refund needs an approval."),
    ]
    return create_deep_agent(
        FakeModel(messages=iter(turns)),
        [refund],
        middleware=[guard],
        subagents=guard.protect_subagents(),
    )


def main() -> None:
    """Run the agent, and show what is on record."""
    store = open_store(":memory:")
    with Gate(parse_policy(POLICY), store) as gate:
        run = make_agent(gate).invoke({"messages": "Please pay order A-2 back."})
        print(f"answer: {run['messages'][-1].content}")
        print("on record:")
        for record in store.find_records():
            print(f"  {record.action_type:<8} {record.verdict:<8} {', '.join(record.reason_codes)}")


if __name__ == "__main__":
    main()
