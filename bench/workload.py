"""The work that all benches do: rules shaped like those of a support desk, and requests.

Ten rules an action. Rules are data here, so that each peer gets the same ones in its own
language; values are well typed, because on others the peers' meanings differ by design.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

__all__ = ["CHANGED_SMALL", "RULES_AN_ACTION", "Rule", "Test", "requests", "rules"]

RULES_AN_ACTION = 10
CHANGED_SMALL = 30
_SMALL = 60
_LIMIT = 200


class Test(NamedTuple):
    """One comparison: of `amount`, or of a field of the evidence."""

    field: str
    operator: str
    value: Any = None


class Rule(NamedTuple):
    """One rule; it asks for all of its tests, or for any of them."""

    id: str
    action: str
    stage: str
    verdict: str
    code: str
    tests: tuple[Test, ...]
    any_of: bool = False


class _Kind(NamedTuple):
    stage: str
    verdict: str
    code: str
    tests: tuple[Test, ...]
    any_of: bool = False


def _kinds(small: float) -> tuple[_Kind, ...]:
    return (
        _Kind(
            "REQUIREMENTS",
            "DENY",
            "MISSING_EVIDENCE_REFUND",
            (Test("ticket_id", "missing"), Test("order_id", "missing")),
            any_of=True,
        ),
        _Kind(
            "REQUIREMENTS",
            "ESCALATE",
            "MISSING_EVIDENCE_REFUND",
            (Test("customer_id", "missing"),),
        ),
        _Kind(
            "HARD_BLOCKS",
            "DENY",
            "PAYMENT_INSTRUMENT_HIGH_RISK",
            (Test("instrument_risk", "eq", "high"),),
        ),
        _Kind(
            "HARD_BLOCKS",
            "DENY",
            "CHARGEBACK_RISK_BLOCK",
            (Test("chargeback_risk", "gte", 0.7),),
        ),
        _Kind(
            "HARD_BLOCKS",
            "DENY",
            "ACCOUNT_TAKEOVER_RISK_BLOCK",
            (Test("takeover_risk", "gte", 0.8),),
        ),
        _Kind(
            "ESCALATIONS",
            "ESCALATE",
            "REFUND_OVER_ESCALATION_LIMIT",
            (Test("amount", "gt", _LIMIT),),
        ),
        _Kind(
            "ESCALATIONS",
            "ESCALATE",
            "REFUND_OVER_ESCALATION_LIMIT",
            (Test("refunds", "gte", 2), Test("amount", "gt", 50)),
        ),
        _Kind(
            "ESCALATIONS",
            "ESCALATE",
            "REFUND_OVER_ESCALATION_LIMIT",
            (Test("customer_days", "lt", 14),),
        ),
        _Kind(
            "ALLOW_PATHS",
            "ALLOW",
            "",
            (
                Test("amount", "lte", small),
                Test("instrument_risk", "in", ("low", "medium")),
                Test("chargeback_risk", "lt", 0.35),
                Test("refunds", "lt", 2),
                Test("customer_days", "gte", 14),
            ),
        ),
        _Kind(
            "ALLOW_PATHS",
            "ALLOW",
            "",
            (Test("amount", "lte", 25), Test("customer_days", "gte", 365)),
        ),
    )


def rules(size: int, small: float = _SMALL) -> list[Rule]:
    """Return `size` rules, ten an action; amounts up to `small` can be allowed."""
    kinds = _kinds(small)
    return [
        Rule(f"R{action}_{number}", _action(action), *kind)
        for action in range(size // RULES_AN_ACTION)
        for number, kind in enumerate(kinds)
    ]


def requests(count: int, spread: int, *, tenants: int = 1, ids: str = "") -> list[dict[str, Any]]:
    """Return requests over `spread` actions; with `ids`, each has a request id that begins so."""
    return list(_requests(count, spread, tenants, ids))


def _requests(count: int, spread: int, tenants: int, ids: str) -> Iterator[dict[str, Any]]:
    for number in range(count):
        turn, action = divmod(number, spread)
        # What is asked must not depend on the action whose turn it is.
        request = _request(turn + 13 * action, _action(action), number)
        if tenants > 1:
            request["tenant"] = {"id": f"tenant-{number % tenants}"}
        if ids:
            request["request_id"] = f"{ids}-{number}"
        yield request


def _action(number: int) -> str:
    return f"support.action{number}"


def _request(kind: int, action: str, number: int) -> dict[str, Any]:
    return {
        "schema_version": "decision_request.v1",
        "subject": {"type": "agent", "id": f"desk-{number % 50}", "roles": ["support"]},
        "action": {
            "type": action,
            "intent": "give the customer their money back",
            "target": {"system": "shop", "resource_type": "order", "resource_id": f"O{number}"},
            "amount": {
                "value": 5 + (kind * 37 % 17) ** 2 + (0.5 if kind % 2 else 0),
                "currency": "USD",
            },
            "tags": ["refund"],
        },
        "evidence": _evidence(kind, number),
        "context": {
            "mode": "digest_only",
            "digest": f"sha256:{sha256(action.encode()).hexdigest()}",
        },
    }


def _evidence(kind: int, number: int) -> dict[str, Any]:
    evidence = {
        "ticket_id": f"T{number}",
        "order_id": f"O{number}",
        "customer_id": f"C{number}",
        "instrument_risk": ("low", "medium", "low", "medium", "high")[kind * 3 % 5],
        "chargeback_risk": (kind * 13 % 80) / 100,
        "takeover_risk": (kind * 7 % 85) / 100,
        "refunds": kind % 3,
        "customer_days": kind * 11 % 500,
    }
    # Some evidence is missing, sometimes; each field on its own account.
    for index, field in enumerate(tuple(evidence)):
        if (kind + 3 * index) % 17 == 0:
            del evidence[field]
    return evidence
