"""The gate: request in, durable decision out.

`Gate` is the one place that knows the order: prepare, recall, evaluate, build the record, persist,
notify. Bad input is a typed error and nothing is stored. After that nothing raises: an internal
error, or a store that cannot be reached, becomes an ABSTAIN with a runtime code.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, Self

import msgspec

from demur.canonical import digest_of_bytes
from demur.codes.loading import bundle_registry, default_registry
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError
from demur.gate.clock import (
    Clock,
    Entropy,
    IdSource,
    format_timestamp,
    system_clock,
    system_entropy,
)
from demur.gate.engine import (
    DecisionEngine,
    EngineInput,
    EngineResult,
    conflict_result,
    internal_error_result,
    resolution_result,
    storage_unavailable_result,
)
from demur.gate.inputs import (
    DEFAULT_TENANT,
    Inputs,
    PreparedRequest,
    attach_history,
    check_policy_pin,
    check_resolvable,
    grant_scope,
    prepare_request,
    require_record,
)
from demur.gate.record import DEFAULT_SEVERITY, Basis, Recorder, build_experience, build_label
from demur.gate.redaction import DEFAULT_PROFILE, RedactionProfile, check_profile
from demur.grants import KeyRing
from demur.memory.experience import ActionOutcome, Experience
from demur.memory.index import MemoryIndex
from demur.memory.projection import HashedProjection, Projection
from demur.memory.recall import MemorySettings, Recall, recall_similar
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.policy import Mode, Policy
from demur.store.backend import StorageError
from demur.store.rows import ExperienceRow, Snapshot
from demur.store.spool import Spool
from demur.store.store import Store, StoredRecord

Sink = Callable[[DecisionRecord], None]

_log = logging.getLogger("demur")


def notify_sinks(sinks: Iterable[Sink], record: DecisionRecord) -> None:
    """Pass the record to every sink, even if one of them fails."""
    for sink in sinks:
        try:
            sink(record)
        except Exception:  # noqa: BLE001 - a sink may raise anything
            _log.exception("a sink failed for decision %s", record.decision_id)


_REFRESH_S = 1.0


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
            same = (
                kept is not None and kept.version == version and not _is_expired(kept.snapshot, now)
            )
            index = kept.snapshot if kept is not None and same else self._read_index(tenant, now)
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
        if len(usable) < len(rows):
            _log.warning(
                "ignoring %d experiences of tenant %s: made by another projection",
                len(rows) - len(usable),
                tenant,
            )
        return MemoryIndex(
            [Experience.from_fields(row._asdict()) for row in usable], projection=self._projection
        )

    def invalidate(self, tenant: str) -> None:
        """Drop a tenant's cached index, so that the next use reads it again."""
        self._kept.pop(tenant, None)


def _is_expired(index: MemoryIndex, now: datetime) -> bool:
    until = index.expires_at
    return until is not None and until <= now


MAX_ATTEMPTS = 3
_SALT_BYTES = 16


class _DraftDecision(NamedTuple):
    """A prepared request and its record, not stored yet."""

    asked: PreparedRequest
    record: DecisionRecord


class Gate:
    """Decides requests by a policy, and stores each decision before it is returned.

    Safe to share between threads and tasks. Without a store, decisions are
    returned but cannot be proved later. The operator's choices (`mode`, `redaction`,
    `memory`, the tenant of a call) cannot be changed from inside a request.
    """

    def __init__(
        self,
        policy: Policy,
        store: Store | None = None,
        *,
        registry: Registry | None = None,
        mode: Mode | None = None,
        redaction: RedactionProfile = DEFAULT_PROFILE,
        memory: MemorySettings | None = None,
        projection: Projection | None = None,
        keys: KeyRing | None = None,
        revoked: Collection[str] = (),
        attempts: int = MAX_ATTEMPTS,
        sinks: Sequence[Sink] = (),
        spool: Spool | None = None,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
    ) -> None:
        self.registry = default_registry() if registry is None else registry
        self.policy = policy
        self.store = store
        self.mode = policy.mode if mode is None else _parse_mode(mode)
        text = bundle_registry(self.registry)
        registry_digest = digest_of_bytes(text.encode())
        self._snapshots = (
            Snapshot(policy.digest, "policy", policy.text),
            Snapshot(registry_digest, "registry", text),
        )
        self._projection = HashedProjection() if projection is None else projection
        self._memories = (
            None
            if store is None or memory is None
            else TenantMemories(store, self._projection.name)
        )
        self._engine = DecisionEngine(
            policy, registry=self.registry, memory=memory, keys=keys, revoked=revoked
        )
        self._recorder = Recorder(self._engine, self.mode, redaction.name, registry_digest)
        self._redaction = check_profile(redaction)
        self._attempts = _check_attempts(attempts)
        self._sinks = tuple(sinks)
        self._spool = spool
        self._clock = clock
        self._entropy = entropy
        self._ids = IdSource(clock, entropy)

    def decide(
        self,
        request: Mapping[str, Any],
        *,
        findings: Iterable[Finding] = (),
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        signals: Mapping[str, Any] | None = None,
        tenant: str | None = None,
    ) -> DecisionRecord:
        """Store and return the decision on a request.

        Findings of guards, authenticated grants, accepted constraints and scores of models are
        passed beside the request. `tenant` is set by the operator and overrides the caller's.

        Raises:
            InputError: The request cannot be used; `where` is the path to the part at fault.
            InputTypeError: A part has the wrong type.
        """
        given = Inputs(findings, grants, accepted, signals, tenant)
        return self._notify_sinks(
            self._persist(self._draft_decision(self._prepare_pinned(request, given)))
        )

    def check_request(self, request: Mapping[str, Any], *, tenant: str | None = None) -> None:
        """Check a request without deciding on it.

        Raises:
            InputError: The request cannot be used; `where` is the path to the part at fault.
            InputTypeError: A part has the wrong type.
        """
        self._prepare_pinned(request, Inputs(tenant=tenant))

    async def adecide(
        self,
        request: Mapping[str, Any],
        *,
        findings: Iterable[Finding] = (),
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        signals: Mapping[str, Any] | None = None,
        tenant: str | None = None,
    ) -> DecisionRecord:
        """Return the decision on a request, like `decide`, without blocking the event loop."""
        asked = self._prepare_pinned(request, Inputs(findings, grants, accepted, signals, tenant))
        waits = self._reads_store(asked)
        made = (
            await asyncio.to_thread(self._draft_decision, asked)
            if waits
            else self._draft_decision(asked)
        )
        return self._notify_sinks(await self._apersist(made))

    def decide_many(
        self, requests: Iterable[Mapping[str, Any]], *, tenant: str | None = None
    ) -> list[DecisionRecord]:
        """Return the decisions on requests in order, stored in one commit.

        Raises:
            InputError: A request cannot be used; then none is decided.
        """
        asked = [self._prepare_pinned(request, Inputs(tenant=tenant)) for request in requests]
        made = [self._draft_decision(one) for one in asked]
        if self.store is None:
            return [self._notify_sinks(one.record) for one in made]
        try:
            stored = self.store.put_many([one.record for one in made], self._snapshots)
        except StorageError as error:
            return [self._notify_sinks(self._spool_unstored(one, error)) for one in made]
        return [
            self._notify_sinks(self._confirm_stored(*pair))
            for pair in zip(made, stored, strict=True)
        ]

    def resolve(
        self,
        decision_id: str,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        tenant: str | None = None,
    ) -> DecisionRecord:
        """Apply grants and accepted constraints to an earlier decision and store the result.

        The policy is not evaluated again. The new record continues the earlier one, and later
        requests that continue it inherit its grants.

        Raises:
            InputError: There is no such decision, it was erased, or there is nothing to resolve.
            StorageError: The store cannot be read.
        """
        _, before = require_record(self.store, decision_id, tenant)
        personal = before.personal
        if personal is None:
            raise InputError(f"decision `{decision_id}` was erased and cannot be resolved")
        check_resolvable(before)
        follow_up = {**personal.request, "request_id": None, "continues": decision_id}
        given = Inputs(personal.findings, grants, accepted, None, before.tenant)
        asked = attach_history(self.store, self._prepare_request(follow_up, given), self._attempts)
        # Grants refer to the original request, before redaction.
        asked = msgspec.structs.replace(asked, scope=personal.scope)
        decision = self._engine.resolve(before.decision, _engine_input(asked, None))
        judgement = resolution_result(decision, decision_id)
        record = self._build_record(asked, judgement, None, basis="resolution")
        return self._notify_sinks(self._persist(_DraftDecision(asked, record)))

    def learn(
        self,
        decision_id: str,
        outcome: ActionOutcome | str,
        *,
        severity: int = DEFAULT_SEVERITY,
        note: str = "",
        reviewer: str = "",
        expires_at: datetime | None = None,
        tenant: str | None = None,
    ) -> ExperienceRow:
        """Store the outcome of a decision as an experience that later requests are compared with.

        Raises:
            InputError: There is no such decision, it was erased, or the label cannot be used.
            StorageError: It could not be stored.
        """
        store, record = require_record(self.store, decision_id, tenant)
        experience = build_experience(
            record,
            outcome,
            severity=severity,
            note=note,
            projection=self._projection,
            memory_id=self._ids(),
            now=self._clock(),
            expires_at=expires_at,
        )
        store.add_experience(experience, build_label(experience, reviewer))
        if self._memories is not None:
            self._memories.invalidate(record.tenant)
        return experience

    def forget(self, memory_ids: Collection[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete experiences and return how many; the labels they came from stay.

        Raises:
            StorageError: The store cannot be reached.
        """
        count = 0 if self.store is None else self.store.forget_experiences(tenant, memory_ids, None)
        if self._memories is not None:
            self._memories.invalidate(tenant)
        return count

    def close(self) -> None:
        """Close the store."""
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The steps, in the order of `decide`.

    def _prepare_request(self, request: Mapping[str, Any], inputs: Inputs) -> PreparedRequest:
        return prepare_request(
            request, inputs, registry=self.registry, profile=self._redaction, now=self._clock()
        )

    def _prepare_pinned(self, request: Mapping[str, Any], inputs: Inputs) -> PreparedRequest:
        asked = self._prepare_request(request, inputs)
        check_policy_pin(asked, self.policy)
        return asked

    def _draft_decision(self, prepared: PreparedRequest) -> _DraftDecision:
        try:
            prepared = attach_history(self.store, prepared, self._attempts)
        except StorageError as error:
            return _DraftDecision(
                prepared,
                self._build_runtime_record(
                    prepared, storage_unavailable_result(self.registry, error)
                ),
            )
        return _DraftDecision(prepared, self._evaluate_request(prepared))

    def _evaluate_request(self, prepared: PreparedRequest) -> DecisionRecord:
        try:
            recalled = self._recall_similar(prepared)
            judgement = self._engine.evaluate(_engine_input(prepared, recalled))
            return self._build_record(prepared, judgement, recalled)
        except StorageError as error:
            return self._build_runtime_record(
                prepared, storage_unavailable_result(self.registry, error)
            )
        except Exception as error:  # noqa: BLE001 - any error refuses and is recorded
            # Log only place and type: the message of an error may quote the request.
            place = "".join(traceback.format_tb(error.__traceback__))
            _log.error("the decision failed: %s\n%s", type(error).__name__, place)
            return self._build_runtime_record(prepared, internal_error_result(self.registry, error))

    def _reads_store(self, prepared: PreparedRequest) -> bool:
        """Return whether the decision has to read the store."""
        memories = self._memories
        recalls = (
            memories is not None and memories.cached_index(prepared.tenant, prepared.now) is None
        )
        return recalls or prepared.request.continues is not None

    def _recall_similar(self, prepared: PreparedRequest) -> Recall | None:
        if self._memories is None or self._engine.memory is None:
            return None
        index = self._memories.load_index(prepared.tenant, prepared.now)
        if not index:
            return None
        vector = self._projection.project(prepared.redacted.request)
        return recall_similar(index, vector, self._engine.memory)

    def _build_record(
        self,
        prepared: PreparedRequest,
        result: EngineResult,
        recall: Recall | None,
        basis: Basis = "request",
    ) -> DecisionRecord:
        return self._recorder.build_record(
            prepared,
            result,
            decision_id=self._ids(prepared.now),
            salt=self._entropy(_SALT_BYTES).hex(),
            recall=recall,
            basis=basis,
        )

    def _build_runtime_record(
        self, prepared: PreparedRequest, result: EngineResult
    ) -> DecisionRecord:
        record = self._build_record(prepared, result, None, basis="runtime")
        # Leave the request id free, so that a retry of the same request is evaluated. The sealed
        # request still holds it.
        return msgspec.structs.replace(record, request_id=None)

    def _persist(self, draft: _DraftDecision) -> DecisionRecord:
        if self.store is None:
            return draft.record
        try:
            stored = self.store.put(draft.record, self._snapshots)
        except StorageError as error:
            return self._spool_unstored(draft, error)
        return self._confirm_stored(draft, stored)

    async def _apersist(self, draft: _DraftDecision) -> DecisionRecord:
        if self.store is None:
            return draft.record
        try:
            stored = await self.store.aput(draft.record, self._snapshots)
        except StorageError as error:
            return await asyncio.to_thread(self._spool_unstored, draft, error)
        if self._is_same_request(stored, draft.asked):
            return stored.record
        return await self._apersist(self._draft_conflict(draft, stored))

    def _confirm_stored(self, draft: _DraftDecision, stored: StoredRecord) -> DecisionRecord:
        """Return the stored record; for a repeated request id, the first decision."""
        if self._is_same_request(stored, draft.asked):
            return stored.record
        return self._persist(self._draft_conflict(draft, stored))

    def _is_same_request(self, stored: StoredRecord, prepared: PreparedRequest) -> bool:
        """Return whether a stored record is the decision on this same request."""
        if not stored.duplicate:
            return True
        first = stored.record
        # A decision made in advisory mode cannot answer a request to an enforcing gate.
        if first.enforced != (self.mode is Mode.ENFORCE):
            return False
        personal = first.personal if first.seal_holds else None
        return personal is not None and prepared.fingerprint(personal.salt) == personal.fingerprint

    def _draft_conflict(self, draft: _DraftDecision, stored: StoredRecord) -> _DraftDecision:
        judgement = conflict_result(self.registry, stored.record.decision_id)
        return _DraftDecision(draft.asked, self._build_runtime_record(draft.asked, judgement))

    def _spool_unstored(self, draft: _DraftDecision, error: StorageError) -> DecisionRecord:
        """Spool a decision that could not be stored, and return its refusal."""
        record = self._build_runtime_record(
            draft.asked, storage_unavailable_result(self.registry, error)
        )
        _log.error("decision %s could not be stored: %s", record.decision_id, error.problem)
        try:
            if self._spool is not None:
                self._spool.add(record)
        except StorageError:
            _log.exception("decision %s could not be spooled", record.decision_id)
        return record

    def _notify_sinks(self, record: DecisionRecord) -> DecisionRecord:
        if self._sinks:
            notify_sinks(self._sinks, record)
        return record


def _parse_mode(mode: str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        help_text = f"one of {', '.join(Mode)}"
        raise InputError(f"unknown mode `{mode}`", where="mode", help=help_text) from None


def _check_attempts(attempts: int) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        raise InputTypeError.wrong_type("attempts", "a whole number", attempts)
    if attempts < 1:
        raise InputError(f"there is at least one attempt, not {attempts}", where="attempts")
    return attempts


def _engine_input(prepared: PreparedRequest, recall: Recall | None) -> EngineInput:
    grants, accepted = prepared.grants, prepared.beside.accepted
    # Requester and scope matter only to grants.
    authority = bool(grants or accepted)
    return EngineInput(
        request=prepared.request.facts,
        findings=prepared.beside.findings,
        recall=recall,
        grants=grants,
        accepted=accepted,
        attempts_left=prepared.continued.attempts_left,
        requester=prepared.request.requester if authority else None,
        scope=grant_scope(prepared) if authority else {},
        now=prepared.now,
    )
