"""Build the decision record that the gate stores.

A record has an open part and a sealed part; the open part holds the digest of the sealed one.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from demur.canonical import (
    canonical_bytes,
    digest_of_bytes,
    fast_encode,
    is_fast_canonical_number,
)
from demur.gate.clock import format_timestamp
from demur.gate.engine import FIRST_ENGINE, DecisionEngine, EngineResult, paths_overlap
from demur.gate.inputs import PreparedRequest, grant_scope
from demur.gate.redaction import scrub_texts
from demur.memory.recall import Recall
from demur.model.record import (
    Amount,
    DecisionRecord,
    Determinism,
    Explanation,
    InvalidField,
    MatchedRule,
    Personal,
    PolicyRef,
    Redaction,
    freeze_json,
)
from demur.policy.facts import is_ambiguous_amount
from demur.policy.policy import Mode

_MAX_CACHED = 4096
Basis = Literal["request", "resolution", "runtime"]
# The one derived fact; its number may have no canonical form.
_DERIVED = "amount_usd"
_QUOTING_FIELDS = ("explanation", "invalid", "reason", "what_can_be_done_now", "how_to_proceed")


class Recorder:
    """Builds the records of one engine. Parts that all records share are built once.

    `registry` is the digest of its registry.
    """

    def __init__(self, engine: DecisionEngine, mode: Mode, profile: str, registry: str) -> None:
        policy = engine.policy
        self._enforced = mode is Mode.ENFORCE
        # The first engine recorded no leading code, and the text `1.000` as an amount of 1.
        self._is_first = engine.version == FIRST_ENGINE
        self._profile = profile
        self._policy = PolicyRef(
            policy_id=policy.policy_id,
            policy_version=policy.policy_version,
            digest=policy.digest,
            mode=mode,
        )
        stages = {rule.id: MatchedRule(rule_id=rule.id, stage=rule.stage) for rule in policy.rules}
        self._determinism = Determinism(
            engine_version=engine.version,
            registry_version=engine.registry.label,
            registry_digest=registry,
            policy_digest=policy.digest,
        )
        # There are few different lists of rules, so they are cached.
        self._matched = lru_cache(_MAX_CACHED)(lambda ids: tuple(map(stages.__getitem__, ids)))
        self._memory = None if engine.memory is None else freeze_json(engine.memory.as_json())
        self._untouched = Redaction(profile=profile)

    def build_record(
        self,
        prepared: PreparedRequest,
        result: EngineResult,
        *,
        decision_id: str,
        salt: str,
        recall: Recall | None,
        basis: Basis = "request",
    ) -> DecisionRecord:
        """Return the sealed record; it is not stored yet."""
        decision, evaluation = result.decision, result.evaluation
        request, removed = prepared.request, prepared.redacted.removed
        sealed, determinism = self._seal_inputs(prepared, result, salt, recall), self._determinism
        if recall is not None:
            kept = {"memory_digest": recall.digest, "memory_settings": self._memory}
            determinism = replace(determinism, **kept)
        if prepared.models:
            determinism = replace(determinism, models=prepared.models)
        record = DecisionRecord(
            decision_id=decision_id,
            created_at=format_timestamp(prepared.now),
            tenant=prepared.tenant,
            action_type=request.action.type,
            policy=self._policy,
            # One by one: every decision passes here, and a dict of fields takes longer.
            verdict=decision.verdict,
            decision_output=decision.decision_output,
            reason_codes=decision.reason_codes,
            refusal_class=decision.refusal_class,
            attempts_left=decision.attempts_left,
            constraints=decision.constraints,
            missing=decision.missing,
            resolved_codes=decision.resolved_codes,
            lifted_by=decision.lifted_by,
            ignored_grants=decision.ignored_grants,
            obligations=decision.obligations,
            reason=decision.reason,
            what_can_be_done_now=decision.what_can_be_done_now,
            how_to_proceed=decision.how_to_proceed,
            next_step=decision.next_step,
            recorded_lead=None if self._is_first else decision.leading_code,
            fallback_codes=decision.fallback_codes,
            approvals=decision.approvals,
            explanation=result.explanation,
            determinism=determinism,
            sealed_digest=digest_of_bytes(sealed),
            basis=basis,
            enforced=self._enforced,
            request_id=request.request_id,
            continues=request.continues,
            root_id=prepared.attempt.root_id,
            attempt=prepared.attempt.number,
            amount=_build_amount(prepared.redacted.request, allow_ambiguous=self._is_first),
            matched_rules=self._matched(evaluation.matched_rules),
            shadow_rules=evaluation.shadow_rules,
            shadowed_codes=evaluation.shadowed_codes,
            invalid=evaluation.invalid,
            accepted=tuple(scrub_texts(decision.accepted, prepared.redacted.texts)),
            context_ref=prepared.redacted.request.get("context_ref"),
            redaction=Redaction(profile=self._profile, removed=removed)
            if removed
            else self._untouched,
            sealed=sealed,
        )
        texts = prepared.redacted.texts
        return _scrub_words(record, texts) if texts else record

    def _seal_inputs(
        self, prepared: PreparedRequest, result: EngineResult, salt: str, recall: Recall | None
    ) -> bytes:
        inputs, redacted = prepared.stored_inputs, prepared.redacted
        refuses = result.decision.refusal_class is not None
        personal = Personal(
            salt=salt,
            fingerprint=prepared.fingerprint(salt),
            inputs_digest=prepared.inputs_digest(),
            request=redacted.request,
            requester=prepared.request.requester,
            # Grants apply only to a request that is refused or was.
            scope=grant_scope(prepared, salt) if refuses or inputs.grants else {},
            facts=_recordable_facts(result.facts, prepared),
            findings=inputs.findings,
            grants=inputs.grants,  # type: ignore[arg-type] # stored inputs hold recorded ones
            risk_signals=inputs.signals
            if recall is None
            else {**inputs.signals, **recall.risk_signals()},
            # INVARIANT: what was said is sealed, and in no open part, log, metric or answer.
            excerpt=prepared.excerpt,
        )
        amount = personal.facts.get(_DERIVED)
        is_fast = prepared.request.is_fast_canonical and is_fast_canonical_number(amount)
        if is_fast and inputs.is_empty and recall is None and prepared.excerpt is None:
            # The fast encoder writes all of these parts canonically.
            return fast_encode(personal)
        return canonical_bytes(msgspec.to_builtins(personal))


def _scrub_words(record: DecisionRecord, texts: frozenset[str]) -> DecisionRecord:
    """Return the record without removed texts in the words that may quote the request."""
    words = {name: msgspec.to_builtins(getattr(record, name)) for name in _QUOTING_FIELDS}
    types = {"explanation": Explanation, "invalid": tuple[InvalidField, ...]}
    clean = scrub_texts(words, texts)
    return replace(
        record, **{name: msgspec.convert(clean[name], types.get(name, Any)) for name in words}
    )


def _recordable_facts(facts: Mapping[str, Any], prepared: PreparedRequest) -> Mapping[str, Any]:
    """Return the facts that the policy compared, without those that redaction removed."""
    if not isfinite(facts.get(_DERIVED, 0)):
        # Not a finite number, so the policy could not use it either.
        facts = {path: value for path, value in facts.items() if path != _DERIVED}
    removed = prepared.redacted.removed
    if not removed:
        return facts
    gone = {path for path in facts if any(paths_overlap(path, other) for other in removed)}
    return {path: value for path, value in facts.items() if path not in gone}


def _build_amount(request: Mapping[str, Any], *, allow_ambiguous: bool) -> Amount | None:
    """Return the amount for the columns of a record; `value` is None if it is no number."""
    amount = request["action"].get("amount")
    if not isinstance(amount, dict):
        return None
    value, currency = amount.get("value"), amount.get("currency")
    number = None if is_ambiguous_amount(value) and not allow_ambiguous else _parse_number(value)
    return Amount(value=number, currency=currency if isinstance(currency, str) else None)


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
