"""A process that decides and says so: each id is printed once its decision was returned.

Arguments: the store, the tenant, the durability, how many decisions (0: until it is killed).
"""

import sys
from itertools import count

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

POLICY = """
schema_version: policy.v1
policy_id: faults
policy_version: 1.0.0
rules:
  - id: R_LIMIT
    stage: ESCALATIONS
    if: { action_type: refund, amount_usd: { gt: 250 } }
    then: { verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT] }
  - id: R_SMALL
    stage: ALLOW_PATHS
    if: { action_type: refund, amount_usd: { lte: 250 } }
    then: { verdict: ALLOW, reason_codes: [] }
"""


def main(url: str, tenant: str, durability: str, most: int) -> None:
    """Decide, and print `id verdict` for each decision that came back."""
    assert durability in {"full", "normal"}
    # On a busy machine a write may take longer than any deadline.
    store = open_store(
        url, durability="full" if durability == "full" else "normal", deadline_s=None
    )
    with Gate(parse_policy(POLICY), store) as gate:
        print("ready", flush=True)  # noqa: T201 - its output is what it is for
        for number in count() if most == 0 else range(most):
            amount = {"value": 100 + number % 300, "currency": "USD"}
            record = gate.decide({"action": {"type": "refund", "amount": amount}}, tenant=tenant)
            shown = record.decision_id if record.verdict is not Verdict.ABSTAIN else "ABSTAIN"
            print(shown, record.verdict, flush=True)  # noqa: T201 - its output is what it is for


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
