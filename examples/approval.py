"""A refund that needs a manager: ask, get a signed grant, go on, and never past a hard block.

Run it: `python examples/approval.py`
"""

from datetime import UTC, datetime, timedelta

from demur.classification import make_decision
from demur.grants import Grant, KeyRing, SigningKey, resolve, sign_grant
from demur.model import Decision

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MANAGER = SigningKey.from_randomness(bytes(range(32)), key_id="manager-1", holder="user:mary")
TRUSTED = KeyRing([MANAGER.trusted_key()])


def judge(amount: int, chargeback_risk: float) -> Decision:
    """Return the decision on a refund, as a policy would make it."""
    codes = []
    if amount > 250:
        codes.append("REFUND_OVER_ESCALATION_LIMIT")
    if chargeback_risk > 0.8:
        codes.append("CHARGEBACK_RISK_BLOCK")
    verdict = "DENY" if len(codes) == 2 else "ESCALATE" if codes else "ALLOW"
    return make_decision(
        verdict,
        codes,
        missing=["a manager's approval"] if codes else (),
        requester="agent:billing",
        scope={"action": "refund", "order": "1042"},
    )


def approve() -> Grant:
    """Return the manager's approval for this one order, for an hour."""
    return sign_grant(
        MANAGER,
        grant_id="g-1042",
        kind="approval",
        granted_to="agent:billing",
        scope={"action": "refund", "order": "1042"},
        not_before=NOW,
        expires_at=NOW + timedelta(hours=1),
        codes=["REFUND_OVER_ESCALATION_LIMIT"],
    )


def main() -> None:
    """Decide three refunds, each before and after the approval."""
    for amount, risk in ((40, 0.1), (900, 0.1), (900, 0.95)):
        before = judge(amount, risk)
        after = resolve(before, [approve()], keys=TRUSTED, now=NOW)
        print(f"{amount} USD, risk {risk}: {before.decision_output} -> {after.decision_output}")
        if after.reason:
            print(f"  {after.reason} {after.how_to_proceed}")


if __name__ == "__main__":
    main()
