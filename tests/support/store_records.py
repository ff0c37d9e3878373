"""Valid decision records for tests of the store; a test says only what is special about one."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from demur.canonical import canonical_bytes, digest, digest_of_bytes
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.model.record import (
    Amount,
    DecisionRecord,
    Determinism,
    Explanation,
    MatchedRule,
    Personal,
    PolicyRef,
)

DIGEST = digest({})


def personal(**fields: Any) -> Personal:
    """Return a sealed part."""
    given: dict[str, Any] = {
        "salt": "c2FsdA",
        "fingerprint": DIGEST,
        "inputs_digest": DIGEST,
        "request": {"action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}}},
        "requester": "user:ada",
        **fields,
    }
    return Personal(**given)


def decision_id(number: int) -> str:
    """Return an id of the usual length that grows with `number`."""
    return f"01J{number:023d}"


def moment(number: int) -> str:
    """Return a time that grows with `number`, by milliseconds."""
    seconds, milliseconds = divmod(number, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"2027-01-{1 + days:02d}T{hours:02d}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}Z"


def make_record(
    number: int = 1, *, sealed: Mapping[str, Any] | None = None, **fields: Any
) -> DecisionRecord:
    """Return a record; `number` orders its id and its time."""
    raw = canonical_bytes(msgspec.to_builtins(personal(**(sealed or {}))))
    given: dict[str, Any] = {
        "decision_id": decision_id(number),
        "created_at": moment(number),
        "tenant": "acme",
        "action_type": "refund",
        "policy": PolicyRef(
            policy_id="support", policy_version="1.0.0", digest=DIGEST, mode="enforce"
        ),
        "verdict": Verdict.ESCALATE,
        "decision_output": DecisionOutput.NEED_CONTEXT,
        "refusal_class": RefusalClass.WORKFLOW_BLOCK,
        "reason_codes": ("REFUND_OVER_ESCALATION_LIMIT",),
        "explanation": Explanation(summary="The refund is too large.", details="R_REFUND_LIMIT"),
        "determinism": Determinism(
            engine_version="1.0.0",
            registry_version="1.0.0",
            registry_digest=DIGEST,
            policy_digest=DIGEST,
        ),
        "amount": Amount(value=400, currency="USD"),
        "matched_rules": (MatchedRule(rule_id="R_REFUND_LIMIT", stage="ESCALATIONS"),),
        "sealed_digest": digest_of_bytes(raw),
        "sealed": raw,
        **fields,
    }
    return DecisionRecord(**given)


def tamper_with(path: Path, statement: str, *values: Any) -> int:
    """Write to a SQLite store as somebody would who hides it; return how many rows changed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        return connection.execute(statement, values).rowcount
