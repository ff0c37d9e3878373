"""Build the record of an engine result: the open part, and the sealed part with its digest."""

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

import msgspec

from demur.canonical import canonical_bytes, digest_of_bytes, fast_encode
from demur.gate.asking import Asked, scope_of
from demur.gate.clock import timestamp
from demur.gate.engine import Engine, Judgement, overlap
from demur.gate.redaction import scrub
from demur.memory.recall import Recall
from demur.model.frozen import frozen
from demur.model.record import (
    Amount,
    DecisionRecord,
    Determinism,
    InvalidField,
    MatchedRule,
    Personal,
    PolicyRef,
    Redaction,
)
from demur.policy.evaluation import Evaluation
from demur.policy.policy import Mode
from demur.version import __version__

__all__ = ["Basis", "Recorder"]

_MOST_REMEMBERED = 4096
Basis = Literal["request", "resolution", "runtime"]
# The one derived fact; its number may have no canonical form.
_DERIVED = "amount_usd"


class Recorder:
    """Builds the records of one engine. Parts that all records share are built once."""

    def __init__(self, engine: Engine, mode: Mode, profile: str, registry_digest: str) -> None:
        policy = engine.policy
        self._enforced = mode is Mode.ENFORCE
        self._profile = profile
        self._policy = PolicyRef(
            policy_id=policy.policy_id,
            policy_version=policy.policy_version,
            digest=policy.digest,
            mode=mode,
        )
        self._stages = {
            rule.id: MatchedRule(rule_id=rule.id, stage=rule.stage) for rule in policy.rules
        }
        self._plain = Determinism(
            engine_version=__version__,
            registry_version=engine.registry.label,
            registry_digest=registry_digest,
            policy_digest=policy.digest,
        )
        # There are few different lists of rules, so they are cached.
        self._matched = lru_cache(_MOST_REMEMBERED)(self._rules)
        self._memory = None if engine.memory is None else frozen(engine.memory.as_json())
        self._untouched = Redaction(profile=profile)

    def record(
        self,
        asked: Asked,
        judgement: Judgement,
        *,
        decision_id: str,
        salt: str,
        recall: Recall | None,
        basis: Basis = "request",
    ) -> DecisionRecord:
        """Return the sealed record; it is not stored yet."""
        decision, evaluation = judgement.decision, judgement.evaluation
        request = asked.request
        sealed = self._seal(asked, judgement, salt, recall)
        removed = asked.redacted.removed
        return DecisionRecord(
            decision_id=decision_id,
            created_at=timestamp(asked.now),
            tenant=asked.tenant,
            action_type=request.action.type,
            policy=self._policy,
            verdict=decision.verdict,
            decision_output=decision.decision_output,
            reason_codes=decision.reason_codes,
            explanation=judgement.explanation,
            determinism=self._determinism(recall),
            sealed_digest=digest_of_bytes(sealed),
            basis=basis,
            enforced=self._enforced,
            refusal_class=decision.refusal_class,
            request_id=request.request_id,
            continues=request.continues,
            root_id=asked.continued.root_id,
            attempt=asked.continued.attempt,
            attempts_left=decision.attempts_left,
            amount=_amount(asked.redacted.request),
            matched_rules=self._matched(evaluation.matched_rules),
            shadow_rules=evaluation.shadow_rules,
            shadowed_codes=evaluation.shadowed_codes,
            invalid=_invalid(evaluation) if evaluation.invalid else (),
            constraints=decision.constraints,
            missing=decision.missing,
            accepted=tuple(scrub(decision.accepted, asked.redacted.texts)),
            resolved_codes=decision.resolved_codes,
            lifted_by=decision.lifted_by,
            ignored_grants=decision.ignored_grants,
            obligations=decision.obligations,
            reason=decision.reason,
            what_can_be_done_now=decision.what_can_be_done_now,
            how_to_proceed=decision.how_to_proceed,
            next_step=decision.next_step,
            context_ref=asked.redacted.request.get("context_ref"),
            redaction=Redaction(profile=self._profile, removed=removed)
            if removed
            else self._untouched,
            sealed=sealed,
        )

    def _rules(self, ids: tuple[str, ...]) -> tuple[MatchedRule, ...]:
        return tuple(self._stages[rule_id] for rule_id in ids)

    def _determinism(self, recall: Recall | None) -> Determinism:
        if recall is None:
            return self._plain
        return msgspec.structs.replace(
            self._plain, memory_digest=recall.digest, memory_settings=self._memory
        )

    def _seal(self, asked: Asked, judgement: Judgement, salt: str, recall: Recall | None) -> bytes:
        beside, redacted = asked.recorded, asked.redacted
        refuses = judgement.decision.refusal_class is not None
        personal = Personal(
            salt=salt,
            fingerprint=asked.fingerprint(salt),
            inputs_digest=asked.inputs_digest(),
            request=redacted.request,
            requester=asked.request.requester,
            # Grants apply only to a request that is refused or was.
            scope=scope_of(asked) if refuses or beside.grants else {},
            facts=_facts(judgement.facts, asked),
            findings=beside.findings,
            grants=beside.grants,
            risk_signals=_signals(beside.signals, recall),
        )
        plain = asked.request.usual and _is_usual(personal.facts.get(_DERIVED))
        if plain and beside.empty and recall is None:
            # The fast encoder writes all of these parts canonically.
            return fast_encode(personal)
        return canonical_bytes(msgspec.to_builtins(personal))


def _invalid(evaluation: Evaluation) -> tuple[InvalidField, ...]:
    return tuple(InvalidField(rule_id=f.rule_id, path=f.path) for f in evaluation.invalid)


def _facts(facts: Mapping[str, Any], asked: Asked) -> Mapping[str, Any]:
    """Return the facts that the policy compared, without those that redaction removed."""
    if not isfinite(facts.get(_DERIVED, 0)):
        # Not a finite number, so the policy could not use it either.
        facts = {path: value for path, value in facts.items() if path != _DERIVED}
    removed = asked.redacted.removed
    if not removed:
        return facts
    return {
        path: value
        for path, value in facts.items()
        if not any(overlap(path, gone) for gone in removed)
    }


def _is_usual(value: float | None) -> bool:
    """Return whether the fast encoder writes a number canonically."""
    if value is None or value.__class__ is int:
        return True
    return 1e-5 <= value < 2**53 and not value.is_integer()


def _signals(signals: Mapping[str, Any], recall: Recall | None) -> Mapping[str, Any]:
    if recall is None:
        return signals
    return {**signals, **recall.risk_signals()}


def _amount(request: Mapping[str, Any]) -> Amount | None:
    """Return the amount for the columns of a record; `value` is None if it is no number."""
    amount = request["action"].get("amount")
    if not isinstance(amount, dict):
        return None
    value, currency = amount.get("value"), amount.get("currency")
    return Amount(value=_number(value), currency=currency if isinstance(currency, str) else None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
