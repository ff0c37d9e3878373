"""The gate: request in, durable decision out.

`Gate` is the one place that knows the order: prepare, recall, evaluate, build the record, persist,
notify. Bad input is a typed error and nothing is stored. After that nothing raises: an internal
error, or a store that cannot be reached, becomes an ABSTAIN with a runtime code.
"""

import asyncio
import copy
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self, get_args

import msgspec

from demur.canonical import digest_of_bytes
from demur.codes.loading import bundle_registry, default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, InputTypeError
from demur.gate.approvals import ApprovalSettings
from demur.gate.clock import Clock, Entropy, IdSource, system_clock, system_entropy
from demur.gate.engine import (
    DecisionEngine,
    EngineInput,
    EngineResult,
    conflict_result,
    internal_error_result,
    resolution_result,
    storage_unavailable_result,
)
from demur.gate.excerpt import ExcerptMode, Utterance, make_excerpt
from demur.gate.grants import (
    ApprovalKeys,
    GrantStatus,
    grants_to_store,
    read_grant_status,
    resolution_grants,
)
from demur.gate.inputs import (
    PreparedRequest,
    attach_history,
    check_policy_pin,
    grant_scope,
    prepare_request,
    require_record,
)
from demur.gate.memory import (
    DEFAULT_SEVERITY,
    TenantMemories,
    build_experience,
    build_label,
    describe_effect,
)
from demur.gate.record import Basis, Recorder
from demur.gate.redaction import DEFAULT_PROFILE, RedactionProfile, check_profile
from demur.grants.keys import KeyRing
from demur.grants.revocations import RevocationFile
from demur.memory.experience import ActionOutcome
from demur.memory.projection import HashedProjection, Projection
from demur.memory.recall import MemorySettings, Recall, recall_similar
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord, ModelRef
from demur.model.request import DEFAULT_TENANT
from demur.policy.policy import Mode, Policy
from demur.store.backend import StorageError, UnansweredError
from demur.store.grant_tables import NO_GRANTS, RecordGrants
from demur.store.rows import ExperienceRow, Snapshot
from demur.store.spool import OutageLog, Spool
from demur.store.store import Store, StoredRecord

Sink = Callable[[DecisionRecord], None]

_log = logging.getLogger("demur")

DEFAULT_MAX_ATTEMPTS = 3
# Failures count wherever there is a store; successes lift nothing.
DEFAULT_MEMORY = MemorySettings()
DEFAULT_APPROVALS = ApprovalSettings()
_SALT_BYTES = 16


class _DraftDecision(NamedTuple):
    """A prepared request and its record, not stored yet."""

    prepared: PreparedRequest
    record: DecisionRecord
    # The decision that this one resolves.
    resolved: DecisionRecord | None = None
    grants: RecordGrants = NO_GRANTS
    # The store did not answer; it is not asked to store either, which would wait as long again.
    outage: UnansweredError | None = None


class Gate:
    """Decides requests by a policy, and stores each decision before it is returned.

    Safe to share between threads and tasks. Without a store, you get
    decisions but cannot prove them later. The operator's choices (`mode`, `redaction`,
    `memory`, the tenant of a call) cannot be changed from inside a request.

    `excerpts` records what was said at checks of guards, in the sealed part.

    With a store, the gate escalates or denies requests that resemble a failure; `memory=None` turns
    that off.

    A grant counts unless its id is in `revoked`, in the file of `revocations`, or revoked in the
    store; file and store are read anew for each request with grants. A grant that a person signed
    through the service counts if one of the `issuers` certified the key, and it is not retired.

    With a store, a refusal that people can lift begins a request for approval; `approvals` says how
    long it waits, and for whom.
    """

    def __init__(
        self,
        policy: Policy,
        store: Store | None = None,
        *,
        registry: Registry | None = None,
        mode: Mode | None = None,
        redaction: RedactionProfile = DEFAULT_PROFILE,
        excerpts: ExcerptMode = "off",
        memory: MemorySettings | None = DEFAULT_MEMORY,
        projection: Projection | None = None,
        keys: KeyRing | None = None,
        issuers: KeyRing | None = None,
        revoked: Collection[str] = (),
        revocations: RevocationFile | None = None,
        approvals: ApprovalSettings = DEFAULT_APPROVALS,
        attempts: int = DEFAULT_MAX_ATTEMPTS,
        sinks: Sequence[Sink] = (),
        spool: Spool | None = None,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
    ) -> None:
        _check_types(policy, store)
        self.registry = default_registry() if registry is None else registry
        self.policy = policy
        self.store = store
        if mode is not None and mode not in set(Mode):
            help_text = f"one of {', '.join(Mode)}"
            raise InputError(f"unknown mode `{mode}`", where="mode", help=help_text)
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise InputTypeError.wrong_type("attempts", "a whole number", attempts)
        if attempts < 1:
            raise InputError(f"there is at least one attempt, not {attempts}", where="attempts")
        self.mode = policy.mode if mode is None else Mode(mode)
        text = bundle_registry(self.registry)
        registry_digest = digest_of_bytes(text.encode())
        self._snapshots = (
            Snapshot(policy.digest, "policy", policy.text),
            Snapshot(registry_digest, "registry", text),
        )
        self._projection = HashedProjection() if projection is None else projection
        self._memories: TenantMemories | None = None
        if store is not None and memory is not None:
            self._memories = TenantMemories(store, self._projection.name)
        self.approvals = approvals
        self._approvals = ApprovalKeys(keys or {}, entropy)
        self._engine = DecisionEngine(
            policy, registry=self.registry, memory=memory, keys=self._approvals, revoked=revoked
        )
        self._recorder = Recorder(self._engine, self.mode, redaction.name, registry_digest)
        self._redaction = check_profile(redaction)
        self._excerpts = _check_excerpts(excerpts, redaction)
        self._revocations = revocations
        self._issuers = KeyRing() if issuers is None else issuers
        self._max_attempts = attempts
        self._sinks = tuple(sinks)
        self._outages = OutageLog(spool)
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
        guard_signals: Mapping[str, Any] | None = None,
        guard_models: Mapping[str, ModelRef] | None = None,
        tenant: str | None = None,
        subjects: Collection[str] | None = None,
        said: Utterance | None = None,
    ) -> DecisionRecord:
        """Store and return the decision on a request.

        Findings of guards, authenticated grants, accepted constraints and signals are passed beside
        the request. A signal is a number, a text or a boolean that rules read as `signals.NAME`.
        `guard_signals` are those of your own guards and models, which rules read as
        `signals.guards.GUARD.NAME`; never pass on what a caller sent there. `guard_models` names
        the models that gave them, for the record. The operator sets `tenant`; a request that names
        another one is an error. `subjects` are those that you authenticated the caller as, like
        `agent:billing`: grants to others lift nothing. Without it, the caller is trusted to name
        the subject. `said` is what was said where the guards looked: it decides nothing, and an
        excerpt of it is recorded if the gate records `excerpts`.

        If the store cannot be reached, the decision is ABSTAIN with STORAGE_UNAVAILABLE; it is not
        an error.

        Raises:
            InputError: The request cannot be used; `where` is the path to the part at fault.
            InputTypeError: A part has the wrong type.
        """
        prepared = self._prepare(
            request,
            tenant,
            findings=findings,
            grants=grants,
            accepted=accepted,
            signals=signals,
            guard_signals=guard_signals,
            guard_models=guard_models,
            subjects=subjects,
            said=said,
        )
        return self._notify_sinks(self._persist(self._draft_decision(prepared)))

    def with_mode(self, mode: Mode) -> Self:
        """Return a gate on the same store that enforces or only records."""
        if mode is self.mode:
            return self
        changed = copy.copy(self)
        return changed._set_mode(mode)  # noqa: SLF001 - a copy of our own

    def _set_mode(self, mode: Mode) -> Self:
        self.mode, registry_digest = mode, self._snapshots[1].digest
        self._recorder = Recorder(self._engine, mode, self._redaction.name, registry_digest)
        return self

    def check_request(self, request: Mapping[str, Any], *, tenant: str | None = None) -> None:
        """Check a request without deciding on it.

        Raises:
            InputError: The request cannot be used; `where` is the path to the part at fault.
            InputTypeError: A part has the wrong type.
        """
        self._prepare(request, tenant)

    async def adecide(
        self,
        request: Mapping[str, Any],
        *,
        findings: Iterable[Finding] = (),
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        signals: Mapping[str, Any] | None = None,
        guard_signals: Mapping[str, Any] | None = None,
        guard_models: Mapping[str, ModelRef] | None = None,
        tenant: str | None = None,
        subjects: Collection[str] | None = None,
        said: Utterance | None = None,
    ) -> DecisionRecord:
        """Return the decision on a request, like `decide`, without blocking the event loop."""
        prepared = self._prepare(
            request,
            tenant,
            findings=findings,
            grants=grants,
            accepted=accepted,
            signals=signals,
            guard_signals=guard_signals,
            guard_models=guard_models,
            subjects=subjects,
            said=said,
        )
        memories, now = self._memories, prepared.now
        is_cached = memories is None or memories.cached_index(prepared.tenant, now) is not None
        if is_cached and prepared.request.continues is None and not prepared.grants:
            draft = self._draft_decision(prepared)
        else:
            # It has to read the store.
            draft = await asyncio.to_thread(self._draft_decision, prepared)
        return self._notify_sinks(await self._apersist(draft))

    def decide_many(
        self, requests: Iterable[Mapping[str, Any]], *, tenant: str | None = None
    ) -> list[DecisionRecord]:
        """Return the decisions on requests in order, stored in one commit.

        Raises:
            InputError: A request cannot be used; then none is decided.
        """
        prepared = [self._prepare(request, tenant) for request in requests]
        drafts: list[_DraftDecision] = []
        outage: UnansweredError | None = None
        for one in prepared:
            draft = self._draft_outage(one, outage) if outage else self._draft_decision(one)
            drafts.append(draft)
            outage = draft.outage
        records = [draft.record for draft in drafts]
        if outage is not None:
            records = [self._spool_unstored(draft, outage) for draft in drafts]
        elif self.store is not None:
            try:
                grants = {
                    draft.record.decision_id: draft.grants
                    for draft in drafts
                    if draft.grants is not NO_GRANTS
                }
                stored = self.store.put_many(records, self._snapshots, grants)
            except StorageError as error:
                records = [self._spool_unstored(draft, error) for draft in drafts]
            else:
                self._outages.end()
                records = list(map(self._settle_stored, drafts, stored))
        return list(map(self._notify_sinks, records))

    def resolve(
        self,
        decision_id: str,
        *,
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        tenant: str | None = None,
        subjects: Collection[str] | None = None,
        approved: bool = False,
    ) -> DecisionRecord:
        """Apply grants and accepted constraints to an earlier decision and store the result.

        The policy is not evaluated again. The new record continues the earlier one, and later
        requests that continue it inherit its grants. `subjects` are as in `decide`. `approved` says
        that the grants are those of a closed request for approval: the resolution takes no use.

        Raises:
            InputError: There is no such decision, it was erased, or there is nothing to resolve.
            StorageError: The store cannot be read.
        """
        _, before = require_record(self.store, decision_id, tenant)
        personal = before.personal
        if personal is None:
            raise InputError(f"decision `{decision_id}` was erased and cannot be resolved")
        if before.verdict is Verdict.ALLOW:
            raise InputError(f"decision `{decision_id}` allows: there is nothing to resolve")
        prepared = prepare_request(
            {**personal.request, "request_id": None, "continues": decision_id},
            registry=self.registry,
            profile=self._redaction,
            now=self._clock(),
            tenant=before.tenant,
            findings=personal.findings,
            grants=grants,
            accepted=accepted,
            subjects=subjects,
        )
        prepared = attach_history(self.store, prepared, self._max_attempts)
        # Grants refer to the original request, before redaction.
        prepared = msgspec.structs.replace(prepared, scope=personal.scope)
        draft = self._draft_resolution(prepared, before, approved=approved)
        return self._notify_sinks(self._persist(draft))

    def approve(self, record: DecisionRecord, person: str) -> tuple[Grant, ...]:
        """Return grants for the request of one refused decision, given by a person.

        The caller has authenticated the person. The grants hold in this process, for a few minutes
        and once, if the store can count that. Pass them with the same request.

        Raises:
            InputError: Nobody can approve the decision, or the person has no name.
        """
        counted = self.store is not None
        return self._approvals.sign(
            record, person, self._ids, self._clock(), counted=counted, registry=self.registry
        )

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

        If memory is off, the outcome cannot matter and a warning is logged. `describe_effect` says
        what an outcome does; a success does nothing unless `lift` is on.

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
        if self._engine.memory is None:
            effect = self.describe_effect(experience)
            _log.warning("outcome of decision %s: %s", record.decision_id, effect)
        return experience

    def describe_effect(self, experience: ExperienceRow) -> str:
        """Return in words what an experience does to later requests by this gate's settings."""
        return describe_effect(experience, self._engine.memory)

    def forget(self, memory_ids: Collection[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete experiences and return how many; the labels they came from stay.

        Raises:
            StorageError: The store does not answer.
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

    def _prepare(
        self,
        request: Mapping[str, Any],
        tenant: str | None,
        *,
        findings: Iterable[Finding] = (),
        grants: Iterable[Grant] = (),
        accepted: Iterable[str] = (),
        signals: Mapping[str, Any] | None = None,
        guard_signals: Mapping[str, Any] | None = None,
        guard_models: Mapping[str, ModelRef] | None = None,
        subjects: Collection[str] | None = None,
        said: Utterance | None = None,
    ) -> PreparedRequest:
        prepared = prepare_request(
            request,
            registry=self.registry,
            profile=self._redaction,
            now=self._clock(),
            tenant=tenant,
            findings=findings,
            grants=grants,
            accepted=accepted,
            signals=signals,
            guard_signals=guard_signals,
            guard_models=guard_models,
            subjects=subjects,
        )
        check_policy_pin(prepared, self.policy)
        found = prepared.inputs.findings
        if said is None or self._excerpts == "off" or (self._excerpts == "findings" and not found):
            return prepared
        excerpt = make_excerpt(said, found, self._redaction, prepared.redacted)
        return msgspec.structs.replace(prepared, excerpt=excerpt)

    def _draft_decision(self, prepared: PreparedRequest) -> _DraftDecision:
        try:
            prepared = attach_history(self.store, prepared, self._max_attempts)
        except StorageError as error:
            return self._draft_outage(prepared, error)
        recall, memories = None, self._memories
        try:
            if memories is not None and self._engine.memory is not None:
                index = memories.load_index(prepared.tenant, prepared.now)
                if index.experiences:
                    vector = self._projection.project(prepared.redacted.request)
                    recall = recall_similar(index, vector, self._engine.memory)
            status = read_grant_status(self.store, self._revocations, prepared, self._issuers)
            result = self._engine.evaluate(_engine_input(prepared, recall, status))
            record = self._build_record(prepared, result, recall)
            grants = grants_to_store(prepared, record, self.registry, self.approvals)
            return _DraftDecision(prepared, record, grants=grants)
        except StorageError as error:
            return self._draft_outage(prepared, error)
        except Exception as error:  # noqa: BLE001 - any error refuses and is recorded
            # Log only place and type: the message of an error may quote the request.
            place = "".join(traceback.format_tb(error.__traceback__))
            _log.error("the decision failed: %s\n%s", type(error).__name__, place)
            return self._draft_runtime(prepared, internal_error_result(self.registry, error))

    def _draft_resolution(
        self, prepared: PreparedRequest, before: DecisionRecord, *, approved: bool = False
    ) -> _DraftDecision:
        status = read_grant_status(self.store, self._revocations, prepared, self._issuers)
        decision = self._engine.resolve(before.decision, _engine_input(prepared, None, status))
        result = resolution_result(decision, before.decision_id)
        record = self._build_record(prepared, result, None, basis="resolution")
        grants = resolution_grants(prepared, record, approved=approved)
        return _DraftDecision(prepared, record, before, grants)

    def _draft_again(self, draft: _DraftDecision) -> _DraftDecision:
        """Return the decision without a grant whose last use another decision took meanwhile."""
        if draft.resolved is not None:
            return self._draft_resolution(draft.prepared, draft.resolved)
        return self._draft_decision(draft.prepared)

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

    def _draft_outage(self, prepared: PreparedRequest, error: StorageError) -> _DraftDecision:
        draft = self._draft_runtime(prepared, storage_unavailable_result(self.registry, error))
        outage = error if isinstance(error, UnansweredError) else None
        return draft._replace(outage=outage)

    def _draft_runtime(self, prepared: PreparedRequest, result: EngineResult) -> _DraftDecision:
        record = self._build_record(prepared, result, None, basis="runtime")
        # Leave the request id free, so that a retry of the same request is evaluated. The sealed
        # request still holds it.
        return _DraftDecision(prepared, msgspec.structs.replace(record, request_id=None))

    def _persist(self, draft: _DraftDecision) -> DecisionRecord:
        if self.store is None:
            return draft.record
        if draft.outage is not None:
            return self._spool_unstored(draft, draft.outage)
        try:
            stored = self.store.put(draft.record, self._snapshots, draft.grants)
        except StorageError as error:
            return self._spool_unstored(draft, error)
        self._outages.end()
        return self._settle_stored(draft, stored)

    async def _apersist(self, draft: _DraftDecision) -> DecisionRecord:
        if self.store is None:
            return draft.record
        if draft.outage is not None:
            return await asyncio.to_thread(self._spool_unstored, draft, draft.outage)
        try:
            stored = await self.store.aput(draft.record, self._snapshots, draft.grants)
        except StorageError as error:
            return await asyncio.to_thread(self._spool_unstored, draft, error)
        self._outages.end()
        if stored.used_up:
            return await self._apersist(await asyncio.to_thread(self._draft_again, draft))
        if self._is_same_request(stored, draft.prepared):
            return stored.record
        return await self._apersist(self._draft_conflict(draft, stored))

    def _settle_stored(self, draft: _DraftDecision, stored: StoredRecord) -> DecisionRecord:
        """Return the stored record, which for a repeated request id is the first decision.

        If the first decision was on another request, persist and return a conflict. If a grant was
        used up meanwhile, decide again without it.
        """
        if stored.used_up:
            return self._persist(self._draft_again(draft))
        if self._is_same_request(stored, draft.prepared):
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
        # A caller who may not use its grants is not told that they allowed it.
        subjects = prepared.subjects
        if first.lifted_by and subjects is not None and prepared.request.requester not in subjects:
            return False
        personal = first.personal if first.seal_holds else None
        return personal is not None and prepared.fingerprint(personal.salt) == personal.fingerprint

    def _draft_conflict(self, draft: _DraftDecision, stored: StoredRecord) -> _DraftDecision:
        result = conflict_result(self.registry, stored.record.decision_id)
        return self._draft_runtime(draft.prepared, result)

    def _spool_unstored(self, draft: _DraftDecision, error: StorageError) -> DecisionRecord:
        """Spool a decision that could not be stored, and return its refusal."""
        result = storage_unavailable_result(self.registry, error)
        record = self._draft_runtime(draft.prepared, result).record
        self._outages.add(record, error)
        return record

    def _notify_sinks(self, record: DecisionRecord) -> DecisionRecord:
        for sink in self._sinks:
            try:
                sink(record)
            except Exception:  # noqa: BLE001 - a sink may raise anything
                _log.exception("a sink failed for decision %s", record.decision_id)
        return record


def _check_excerpts(mode: ExcerptMode, profile: RedactionProfile) -> ExcerptMode:
    """Return the mode, if there is one of that name and the redaction leaves something to keep."""
    known = get_args(ExcerptMode)
    if mode not in known:
        raise InputError(
            f"unknown mode `{mode}`", where="excerpts", help=f"one of {', '.join(known)}"
        )
    if mode != "off" and profile.details:
        problem = f"the redaction profile `{profile.name}` keeps nothing that was said"
        help_text = 'set `excerpts = "off"`, or another profile'
        raise InputError(problem, where="excerpts", help=help_text)
    return mode


def _check_types(policy: object, store: object) -> None:
    """Refuse a path where a gate needs the policy or the store itself."""
    if not isinstance(policy, Policy):
        help_text = "`load_policy(path)` reads one; `open_enforcer(policy=path)` takes the path"
        raise InputTypeError.wrong_type("policy", "a `Policy`", policy, help_text)
    if store is not None and not isinstance(store, Store):
        help_text = "`open_store(path)` opens one; `open_enforcer(store=path)` takes the path"
        raise InputTypeError.wrong_type("store", "a `Store` or None", store, help_text)


def _engine_input(
    prepared: PreparedRequest, recall: Recall | None, status: GrantStatus
) -> EngineInput:
    grants, accepted = prepared.grants, prepared.inputs.accepted
    # Requester and scope matter only to grants.
    is_resolvable = bool(grants or accepted)
    return EngineInput(
        request=prepared.request.facts,
        findings=prepared.inputs.findings,
        signals=prepared.inputs.signals,
        recall=recall,
        grants=grants,
        accepted=accepted,
        attempts_left=prepared.attempt.attempts_left,
        requester=prepared.request.requester if is_resolvable else None,
        scope=grant_scope(prepared) if is_resolvable else {},
        now=prepared.now,
        revoked=status.revoked,
        subjects=prepared.subjects,
        used_up=status.used_up,
        person_keys=status.person_keys,
    )
