"""Build what the gate stores: the decision record, and the experience learned from an outcome.

A record has an open part and a sealed part; the open part holds the digest of the sealed one.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from math import isfinite
from threading import Lock
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from demur.canonical import canonical_bytes, digest_of_bytes, fast_encode
from demur.errors import InputError, InputTypeError
from demur.gate.clock import format_timestamp
from demur.gate.engine import DecisionEngine, EngineResult, paths_overlap
from demur.gate.inputs import PreparedRequest, grant_scope
from demur.gate.redaction import scrub_texts
from demur.memory.experience import ActionOutcome, Experience
from demur.memory.index import MemoryIndex
from demur.memory.projection import Projection
from demur.memory.recall import Recall
from demur.model.record import (
    Amount,
    DecisionRecord,
    Determinism,
    InvalidField,
    MatchedRule,
    Personal,
    PolicyRef,
    Redaction,
    freeze_json,
)
from demur.policy.policy import Mode
from demur.store.rows import ExperienceRow, Label
from demur.store.store import Store
from demur.version import __version__

_MAX_CACHED = 4096
_REFRESH_S = 1.0
_log = logging.getLogger("demur")
Basis = Literal["request", "resolution", "runtime"]
# The one derived fact; its number may have no canonical form.
_DERIVED = "amount_usd"


class Recorder:
    """Builds the records of one engine. Parts that all records share are built once.

    `registry` is the digest of its registry.
    """

    def __init__(self, engine: DecisionEngine, mode: Mode, profile: str, registry: str) -> None:
        policy = engine.policy
        self._enforced = mode is Mode.ENFORCE
        self._profile = profile
        self._policy = PolicyRef(
            policy_id=policy.policy_id,
            policy_version=policy.policy_version,
            digest=policy.digest,
            mode=mode,
        )
        stages = {rule.id: MatchedRule(rule_id=rule.id, stage=rule.stage) for rule in policy.rules}
        self._determinism = Determinism(
            engine_version=__version__,
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
        return DecisionRecord(
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
            explanation=result.explanation,
            determinism=determinism,
            sealed_digest=digest_of_bytes(sealed),
            basis=basis,
            enforced=self._enforced,
            request_id=request.request_id,
            continues=request.continues,
            root_id=prepared.attempt.root_id,
            attempt=prepared.attempt.number,
            amount=_build_amount(prepared.redacted.request),
            matched_rules=self._matched(evaluation.matched_rules),
            shadow_rules=evaluation.shadow_rules,
            shadowed_codes=evaluation.shadowed_codes,
            invalid=tuple(InvalidField(rule_id=f.rule_id, path=f.path) for f in evaluation.invalid)
            if evaluation.invalid
            else (),
            accepted=tuple(scrub_texts(decision.accepted, prepared.redacted.texts)),
            context_ref=prepared.redacted.request.get("context_ref"),
            redaction=Redaction(profile=self._profile, removed=removed)
            if removed
            else self._untouched,
            sealed=sealed,
        )

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
            scope=grant_scope(prepared) if refuses or inputs.grants else {},
            facts=_recordable_facts(result.facts, prepared),
            findings=inputs.findings,
            grants=inputs.grants,
            risk_signals=inputs.signals
            if recall is None
            else {**inputs.signals, **recall.risk_signals()},
        )
        plain = prepared.request.usual and _is_usual(personal.facts.get(_DERIVED))
        if plain and inputs.is_empty and recall is None:
            # The fast encoder writes all of these parts canonically.
            return fast_encode(personal)
        return canonical_bytes(msgspec.to_builtins(personal))


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


def _is_usual(value: float | None) -> bool:
    """Return whether the fast encoder writes a number canonically."""
    if value is None or value.__class__ is int:
        return True
    return 1e-5 <= value < 2**53 and not value.is_integer()


def _build_amount(request: Mapping[str, Any]) -> Amount | None:
    """Return the amount for the columns of a record; `value` is None if it is no number."""
    amount = request["action"].get("amount")
    if not isinstance(amount, dict):
        return None
    value, currency = _parse_number(amount.get("value")), amount.get("currency")
    return Amount(value=value, currency=currency if isinstance(currency, str) else None)


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


DEFAULT_SEVERITY = 3
_MAX_SEVERITY = 5
_MAX_NOTE_LENGTH = 2000


def build_experience(
    record: DecisionRecord,
    outcome: ActionOutcome | str,
    *,
    severity: int,
    note: str,
    projection: Projection,
    memory_id: str,
    now: datetime,
    expires_at: datetime | None,
) -> ExperienceRow:
    """Return the experience for a record and its outcome.

    Raises:
        InputError: The outcome or the severity is unknown, or the record was erased.
    """
    personal = record.personal
    if personal is None:
        problem = f"decision `{record.decision_id}` was erased: nothing can be learned from it"
        raise InputError(problem)
    if severity.__class__ is not int or not 1 <= severity <= _MAX_SEVERITY:
        raise InputError(f"a severity is a number from 1 to {_MAX_SEVERITY}, not `{severity}`")
    _check_text("a note", note)
    if len(note) > _MAX_NOTE_LENGTH:
        raise InputError(f"a note has at most {_MAX_NOTE_LENGTH} characters, not {len(note)}")
    _check_expiry(expires_at, now)
    try:
        kind = ActionOutcome(str(outcome).lower())
    except ValueError:
        known = " or ".join(ActionOutcome)
        raise InputError(f"unknown outcome `{outcome}`", help=known) from None
    return ExperienceRow(
        memory_id=memory_id,
        tenant=record.tenant,
        decision_id=record.decision_id,
        outcome=kind,
        severity=severity,
        note=note,
        action_type=record.action_type,
        projection=projection.name,
        vector=projection.project(personal.request).to_bytes(),
        created_at=format_timestamp(now),
        expires_at=None if expires_at is None else format_timestamp(expires_at),
    )


def build_label(experience: ExperienceRow, reviewer: str) -> Label:
    """Return the label of an experience; it stays when the experience is forgotten."""
    _check_text("the reviewer", reviewer)
    return Label(
        decision_id=experience.decision_id,
        tenant=experience.tenant,
        created_at=experience.created_at,
        kind="outcome",
        value=experience.outcome,
        note=experience.note,
        by=reviewer,
    )


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise InputTypeError.wrong_type(what, "a string", text)
    canonical_bytes(text)


def _check_expiry(expires_at: object, now: datetime) -> None:
    if expires_at is None:
        return
    if not isinstance(expires_at, datetime):
        raise InputTypeError.wrong_type("`expires_at`", "a datetime", expires_at)
    if expires_at.tzinfo is None:
        raise InputError("`expires_at` needs a time zone", help="like datetime.now(UTC)")
    if expires_at <= now:
        raise InputError("`expires_at` must lie in the future")


class _CachedIndex(NamedTuple):
    version: int
    checked: float
    snapshot: MemoryIndex


class TenantMemories:
    """The memory indexes of all tenants.

    Experiences of this process count at once, those of other processes within a second.
    """

    def __init__(
        self, store: Store, projection: str, *, clock_s: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._projection = projection
        self._elapsed = clock_s
        self._locks: dict[str, Lock] = {}
        self._kept: dict[str, _CachedIndex] = {}

    def load_index(self, tenant: str, now: datetime) -> MemoryIndex:
        """Return a tenant's current memory index."""
        at_hand = self.cached_index(tenant, now)
        if at_hand is not None:
            return at_hand
        # Lock per tenant: indexing a large memory takes a while.
        with self._locks.setdefault(tenant, Lock()):
            kept, elapsed = self._kept.get(tenant), self._elapsed()
            version = self._store.memory_version(tenant)
            if kept is None or kept.version != version or _is_expired(kept.snapshot, now):
                index = self._read_index(tenant, now)
            else:
                index = kept.snapshot
            self._kept[tenant] = _CachedIndex(version, elapsed, index)
            return index

    def cached_index(self, tenant: str, now: datetime) -> MemoryIndex | None:
        """Return a tenant's memory index if it is cached and fresh, without reading the store."""
        kept = self._kept.get(tenant)
        if kept is None or self._elapsed() - kept.checked >= _REFRESH_S:
            return None
        return None if _is_expired(kept.snapshot, now) else kept.snapshot

    def _read_index(self, tenant: str, now: datetime) -> MemoryIndex:
        rows = self._store.list_experiences(tenant, format_timestamp(now))
        # Vectors of different projections cannot be compared.
        usable = [row for row in rows if row.projection == self._projection]
        if ignored := len(rows) - len(usable):
            words = "ignoring %d experiences of tenant %s: made by another projection"
            _log.warning(words, ignored, tenant)
        experiences = [Experience.from_fields(row._asdict()) for row in usable]
        return MemoryIndex(experiences, projection=self._projection)

    def invalidate(self, tenant: str) -> None:
        """Drop a tenant's cached index, so that the next use reads it again."""
        self._kept.pop(tenant, None)


def _is_expired(index: MemoryIndex, now: datetime) -> bool:
    until = index.expires_at
    return until is not None and until <= now
