"""Gates for tests: one policy of every kind of outcome, a clock that stands, known randomness."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey, sign_grant
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy
from demur.store.opening import open_store
from demur.store.store import Store

__all__ = [
    "AGENT",
    "CORE",
    "KEY",
    "NOON",
    "POLICY",
    "RING",
    "TEXT",
    "Ticking",
    "cleanup",
    "entropy_of",
    "finding",
    "gate_over",
    "grant",
    "opened",
    "refund",
    "rows",
    "stored",
]

CORE = Registry.load()
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
AGENT = {"type": "agent", "id": "billing"}
KEY = SigningKey.from_randomness(bytes(32), key_id="k1", holder="user:mary")
RING = KeyRing([KEY.trusted_key()])

TEXT = """
schema_version: policy.v1
policy_id: support
policy_version: 1.0.0
defaults: {verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE}
rates: {EUR: 1.25}
rules:
  - id: R_TICKET
    stage: REQUIREMENTS
    if: {action_type: refund, evidence.ticket_id: {missing: true}}
    then: {verdict: ESCALATE, reason_codes: [MISSING_EVIDENCE_REFUND]}
  - id: R_CHARGEBACK
    stage: HARD_BLOCKS
    if: {action_type: refund, evidence.chargeback_risk: {gte: 0.9}}
    then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}
  - id: R_LIMIT
    stage: ESCALATIONS
    if: {action_type: refund, amount_usd: {gt: 250}}
    then:
      verdict: ESCALATE
      reason_codes: [REFUND_OVER_ESCALATION_LIMIT]
      obligations: [human_review]
  - id: R_DELETE
    stage: ESCALATIONS
    if: {action_type: cleanup}
    then: {verdict: ESCALATE, reason_codes: [DESTRUCTIVE_ACTION], constraints: [dry_run]}
  - id: R_TRIAL
    stage: ESCALATIONS
    shadow: true
    if: {amount_usd: {gt: 100}}
    then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING]}
  - id: R_SMALL
    stage: ALLOW_PATHS
    if: {action_type: refund, amount_usd: {lte: 250}, evidence.ticket_id: {exists: true}}
    then: {verdict: ALLOW}
"""
POLICY = parse_policy(TEXT, "support.yaml", registry=CORE)


class Ticking:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, **span: float) -> None:
        """Move it on."""
        self.now += timedelta(**span)


def entropy_of(seed: str = "seed") -> Any:
    """Return a source of bytes that gives the same ones each time it is made."""
    count = iter(range(10**9))
    return lambda size: sha256(f"{seed} {next(count)}".encode()).digest()[:size]


def gate_over(store: Store | None, policy: Policy = POLICY, **settings: Any) -> Gate:
    """Return a gate with a clock that stands at noon."""
    usual: dict[str, Any] = {
        "registry": CORE,
        "clock": Ticking(),
        "entropy": entropy_of(),
        "keys": RING,
    }
    return Gate(policy, store, **{**usual, **settings})


@contextmanager
def opened(policy: Policy = POLICY, **settings: Any) -> Iterator[Gate]:
    """Yield a gate over a store in memory, and close it."""
    with gate_over(open_store(":memory:"), policy, **settings) as gate:
        yield gate


def refund(value: Any = 20, **more: Any) -> dict[str, Any]:
    """Return a request for a refund that passes unless the test says otherwise."""
    return {
        "action": {"type": "refund", "amount": {"value": value, "currency": "USD"}},
        "subject": AGENT,
        "evidence": {"ticket_id": "T-1"},
        **more,
    }


def cleanup(**more: Any) -> dict[str, Any]:
    """Return a request that needs constraints to be accepted."""
    return {"action": {"type": "cleanup"}, "subject": AGENT, **more}


def finding(code: str = "RCE_RISK", **more: Any) -> Finding:
    """Return what a guard saw."""
    return Finding(code=code, **{"surface": Surface.INPUT, **more})


def grant(scope: Mapping[str, str], **more: Any) -> Grant:
    """Return an approval for the agent, signed by Mary, good around noon."""
    usual: dict[str, Any] = {
        "grant_id": "g1",
        "kind": "approval",
        "granted_to": "agent:billing",
        "not_before": NOON - timedelta(hours=1),
        "expires_at": NOON + timedelta(hours=1),
    }
    return sign_grant(KEY, scope=dict(scope), **{**usual, **more})


def stored(gate: Gate) -> Store:
    """Return the gate's store, which is there."""
    assert gate.store is not None
    return gate.store


def rows(gate: Gate) -> list[DecisionRecord]:
    """Return everything that the gate stored."""
    return list(stored(gate).find_records())
