"""The gate: request in, durable decision out.

`Gate` is the one place that knows the order: prepare, recall, evaluate, build the record,
persist, notify. Bad input is a typed error and nothing is stored. After that nothing raises: an
internal error, or a store that cannot be reached, becomes an ABSTAIN with a runtime code.
"""

import asyncio
import logging
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec

from demur.canonical import digest_of_bytes
from demur.classification.keys import KeyRing
from demur.codes.bundle import bundle
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError
from demur.gate.asking import DEFAULT_TENANT, Asked, Given, check_pin, gather, scope_of
from demur.gate.clock import Clock, Entropy, system_clock, system_entropy
from demur.gate.earlier import check_resolvable, continued, known
from demur.gate.engine import Engine, Judgement, Question
from demur.gate.ids import IdSource
from demur.gate.learning import MIDDLE_SEVERITY, experience_of, label_of
from demur.gate.recording import Basis, Recorder
from demur.gate.redaction import DEFAULT, Profile, check_profile
from demur.gate.remembering import Memories
from demur.gate.runtime import conflict, internal_error, resolution, storage_unavailable
from demur.gate.sink import Sink, tell
from demur.memory.experience import Outcome
from demur.memory.projection import HashedProjection, Projection
from demur.memory.recall import Recall, recall
from demur.memory.settings import MemorySettings
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.policy import Mode, Policy
from demur.store.backend import StorageError
from demur.store.rows import Experience, Snapshot
from demur.store.spool import Spool
from demur.store.store import Store, Stored

__all__ = ["MOST_ATTEMPTS", "Gate"]

MOST_ATTEMPTS = 3
_SALT_BYTES = 16

_log = logging.getLogger("demur")


class _Made(NamedTuple):
    """A prepared request and its record, not stored yet."""

    asked: Asked
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
        redaction: Profile = DEFAULT,
        memory: MemorySettings | None = None,
        projection: Projection | None = None,
        keys: KeyRing | None = None,
        revoked: Collection[str] = (),
        attempts: int = MOST_ATTEMPTS,
        sinks: Sequence[Sink] = (),
        spool: Spool | None = None,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
    ) -> None:
        self.registry = default_registry() if registry is None else registry
        self.policy = policy
        self.store = store
        self.mode = policy.mode if mode is None else _mode(mode)
        text = bundle(self.registry)
        registry_digest = digest_of_bytes(text.encode())
        self._snapshots = (
            Snapshot(policy.digest, "policy", policy.text),
            Snapshot(registry_digest, "registry", text),
        )
        self._projection = HashedProjection() if projection is None else projection
        self._memories = (
            None if store is None or memory is None else Memories(store, self._projection.name)
        )
        self._engine = Engine(
            policy, registry=self.registry, memory=memory, keys=keys, revoked=revoked
        )
        self._recorder = Recorder(self._engine, self.mode, redaction.name, registry_digest)
        self._redaction = check_profile(redaction)
        self._attempts = _attempts(attempts)
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
        given = Given(findings, grants, accepted, signals, tenant)
        return self._told(self._stored(self._made(self._asked(request, given))))

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
        asked = self._asked(request, Given(findings, grants, accepted, signals, tenant))
        waits = self._reads_store(asked)
        made = await asyncio.to_thread(self._made, asked) if waits else self._made(asked)
        return self._told(await self._astored(made))

    def decide_many(
        self, requests: Iterable[Mapping[str, Any]], *, tenant: str | None = None
    ) -> list[DecisionRecord]:
        """Return the decisions on requests in order, stored in one commit.

        Raises:
            InputError: A request cannot be used; then none is decided.
        """
        asked = [self._asked(request, Given(tenant=tenant)) for request in requests]
        made = [self._made(one) for one in asked]
        if self.store is None:
            return [self._told(one.record) for one in made]
        try:
            stored = self.store.put_many([one.record for one in made], self._snapshots)
        except StorageError as error:
            return [self._told(self._unavailable(one, error)) for one in made]
        return [self._told(self._settled(*pair)) for pair in zip(made, stored, strict=True)]

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
        _, before = known(self.store, decision_id, tenant)
        personal = before.personal
        if personal is None:
            raise InputError(f"decision `{decision_id}` was erased and cannot be resolved")
        check_resolvable(before)
        follow_up = {**personal.request, "request_id": None, "continues": decision_id}
        given = Given(personal.findings, grants, accepted, None, before.tenant)
        asked = continued(self.store, self._gathered(follow_up, given), self._attempts)
        # Grants refer to the original request, before redaction.
        asked = msgspec.structs.replace(asked, scope=personal.scope)
        decision = self._engine.resolve(before.decision, _question(asked, None))
        judgement = resolution(decision, decision_id)
        record = self._record(asked, judgement, None, basis="resolution")
        return self._told(self._stored(_Made(asked, record)))

    def learn(
        self,
        decision_id: str,
        outcome: Outcome | str,
        *,
        severity: int = MIDDLE_SEVERITY,
        note: str = "",
        by: str = "",
        expires_at: datetime | None = None,
        tenant: str | None = None,
    ) -> Experience:
        """Store the outcome of a decision as an experience that later requests are compared with.

        Raises:
            InputError: There is no such decision, it was erased, or the label cannot be used.
            StorageError: It could not be stored.
        """
        store, record = known(self.store, decision_id, tenant)
        experience = experience_of(
            record,
            outcome,
            severity=severity,
            note=note,
            projection=self._projection,
            memory_id=self._ids(),
            now=self._clock(),
            expires_at=expires_at,
        )
        store.add_experience(experience, label_of(experience, by))
        if self._memories is not None:
            self._memories.changed(record.tenant)
        return experience

    def forget(self, memory_ids: Collection[str], *, tenant: str = DEFAULT_TENANT) -> int:
        """Delete experiences and return how many; the labels they came from stay.

        Raises:
            StorageError: The store cannot be reached.
        """
        count = 0 if self.store is None else self.store.forget(tenant, memory_ids, None)
        if self._memories is not None:
            self._memories.changed(tenant)
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

    def _gathered(self, request: Mapping[str, Any], given: Given) -> Asked:
        return gather(
            request, given, registry=self.registry, profile=self._redaction, now=self._clock()
        )

    def _asked(self, request: Mapping[str, Any], given: Given) -> Asked:
        asked = self._gathered(request, given)
        check_pin(asked, self.policy)
        return asked

    def _made(self, asked: Asked) -> _Made:
        try:
            asked = continued(self.store, asked, self._attempts)
        except StorageError as error:
            return _Made(asked, self._runtime(asked, storage_unavailable(self.registry, error)))
        return _Made(asked, self._judged(asked))

    def _judged(self, asked: Asked) -> DecisionRecord:
        try:
            recalled = self._recall(asked)
            judgement = self._engine.judge(_question(asked, recalled))
            return self._record(asked, judgement, recalled)
        except StorageError as error:
            return self._runtime(asked, storage_unavailable(self.registry, error))
        except Exception as error:  # noqa: BLE001 - any error refuses and is recorded
            # Log only place and type: the message of an error may quote the request.
            place = "".join(traceback.format_tb(error.__traceback__))
            _log.error("the decision failed: %s\n%s", type(error).__name__, place)
            return self._runtime(asked, internal_error(self.registry, error))

    def _reads_store(self, asked: Asked) -> bool:
        """Return whether the decision has to read the store."""
        memories = self._memories
        recalls = memories is not None and memories.at_hand(asked.tenant, asked.now) is None
        return recalls or asked.request.continues is not None

    def _recall(self, asked: Asked) -> Recall | None:
        if self._memories is None or self._engine.memory is None:
            return None
        index = self._memories.index(asked.tenant, asked.now)
        if not index:
            return None
        vector = self._projection.project(asked.redacted.request)
        return recall(index, vector, self._engine.memory)

    def _record(
        self,
        asked: Asked,
        judgement: Judgement,
        recalled: Recall | None,
        basis: Basis = "request",
    ) -> DecisionRecord:
        return self._recorder.record(
            asked,
            judgement,
            decision_id=self._ids(asked.now),
            salt=self._entropy(_SALT_BYTES).hex(),
            recall=recalled,
            basis=basis,
        )

    def _runtime(self, asked: Asked, judgement: Judgement) -> DecisionRecord:
        record = self._record(asked, judgement, None, basis="runtime")
        # Leave the request id free, so that a retry of the same request is evaluated. The sealed
        # request still holds it.
        return msgspec.structs.replace(record, request_id=None)

    def _stored(self, made: _Made) -> DecisionRecord:
        if self.store is None:
            return made.record
        try:
            stored = self.store.put(made.record, self._snapshots)
        except StorageError as error:
            return self._unavailable(made, error)
        return self._settled(made, stored)

    async def _astored(self, made: _Made) -> DecisionRecord:
        if self.store is None:
            return made.record
        try:
            stored = await self.store.aput(made.record, self._snapshots)
        except StorageError as error:
            return await asyncio.to_thread(self._unavailable, made, error)
        if self._answers(stored, made.asked):
            return stored.record
        return await self._astored(self._conflicting(made, stored))

    def _settled(self, made: _Made, stored: Stored) -> DecisionRecord:
        """Return the stored record; for a repeated request id, the first decision."""
        if self._answers(stored, made.asked):
            return stored.record
        return self._stored(self._conflicting(made, stored))

    def _answers(self, stored: Stored, asked: Asked) -> bool:
        """Return whether a stored record is the decision on this same request."""
        if not stored.duplicate:
            return True
        first = stored.record
        # A decision made in advisory mode cannot answer a request to an enforcing gate.
        if first.enforced != (self.mode is Mode.ENFORCE):
            return False
        personal = first.personal if first.seal_holds else None
        return personal is not None and asked.fingerprint(personal.salt) == personal.fingerprint

    def _conflicting(self, made: _Made, stored: Stored) -> _Made:
        judgement = conflict(self.registry, stored.record.decision_id)
        return _Made(made.asked, self._runtime(made.asked, judgement))

    def _unavailable(self, made: _Made, error: StorageError) -> DecisionRecord:
        """Spool a decision that could not be stored, and return its refusal."""
        record = self._runtime(made.asked, storage_unavailable(self.registry, error))
        _log.error("decision %s could not be stored: %s", record.decision_id, error.problem)
        try:
            if self._spool is not None:
                self._spool.add(record)
        except StorageError:
            _log.exception("decision %s could not be spooled", record.decision_id)
        return record

    def _told(self, record: DecisionRecord) -> DecisionRecord:
        if self._sinks:
            tell(self._sinks, record)
        return record


def _mode(mode: str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        help_text = f"one of {', '.join(Mode)}"
        raise InputError(f"unknown mode `{mode}`", where="mode", help=help_text) from None


def _attempts(attempts: int) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        raise InputTypeError.expected("attempts", "a whole number", attempts)
    if attempts < 1:
        raise InputError(f"there is at least one attempt, not {attempts}", where="attempts")
    return attempts


def _question(asked: Asked, recalled: Recall | None) -> Question:
    grants, accepted = asked.grants, asked.beside.accepted
    # Requester and scope matter only to grants.
    authority = bool(grants or accepted)
    return Question(
        request=asked.request.facts,
        findings=asked.beside.findings,
        recall=recalled,
        grants=grants,
        accepted=accepted,
        attempts_left=asked.continued.attempts_left,
        requester=asked.request.requester if authority else None,
        scope=scope_of(asked) if authority else {},
        now=asked.now,
    )
