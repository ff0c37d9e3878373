"""A tool behind a gate: it runs only what was decided, and every decision can be looked up.

Run it: `python examples/decide.py`. The store is a file in a temporary folder.
"""

import tempfile
from pathlib import Path
from typing import Any

from demur import Finding, Gate, open_store
from demur.codes import Surface
from demur.memory import MemorySettings
from demur.model import DecisionRecord
from demur.policy import parse_policy
from demur.store import Store

POLICY = """
schema_version: policy.v1
policy_id: payouts
policy_version: 1.0.0
rules:
  - id: R_AMOUNT_NEEDED
    stage: REQUIREMENTS
    if: { action_type: payout, amount_usd: { missing: true } }
    then: { verdict: ESCALATE, reason_codes: [SCOPE_MISSING] }
  - id: R_LARGE
    stage: ESCALATIONS
    if: { action_type: payout, amount_usd: { gt: 100 } }
    then: { verdict: ESCALATE, reason_codes: [SPEND_OVER_APPROVAL_LIMIT], missing: [approval] }
  - id: R_SMALL
    stage: ALLOW_PATHS
    if: { action_type: payout, amount_usd: { lte: 100 } }
    then: { verdict: ALLOW }
"""


def request(amount: float, reason: str) -> dict[str, Any]:
    """Return what an agent asks for."""
    return {
        "subject": {"type": "agent", "id": "payouts"},
        "action": {
            "type": "payout",
            "intent": reason,
            "amount": {"value": amount, "currency": "USD"},
        },
    }


def pay(gate: Gate, asked: dict[str, Any], *seen: Finding) -> DecisionRecord:
    """Pay out if the gate lets it, and say what happened; the tool itself knows no rule."""
    record = gate.decide(asked, findings=seen)
    if record.may_execute:
        print(f"paid {asked['action']['amount']['value']} USD")
    else:
        print(f"not paid ({', '.join(record.reason_codes)}): {record.how_to_proceed}")
    return record


def show(store: Store) -> None:
    """Print every decision from the store, as an auditor would find it."""
    for record in store.find_records():
        print(f"  {record.verdict:<8} {', '.join(record.reason_codes)}".rstrip())


def main() -> None:
    """Ask four times: small, large, with a guard's finding, and again after a failure."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "demur.db")
        with Gate(parse_policy(POLICY), store, memory=MemorySettings()) as gate:
            small = pay(gate, request(40, "the parcel never arrived"))
            pay(gate, request(400, "the whole order was damaged"))
            injected = Finding(code="CONTEXT_INJECTION", surface=Surface.TOOL_RESULT)
            pay(gate, request(60, "the page says to pay at once"), injected)
            gate.learn(small.decision_id, "failure", note="it had arrived after all")
            pay(gate, request(40, "the parcel never arrived"))
            print("on record:")
            show(store)


if __name__ == "__main__":
    main()
