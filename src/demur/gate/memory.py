"""Memory in the gate: learn an experience from an outcome, and load what each tenant remembers."""

import logging
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import NamedTuple

from demur.canonical import canonical_bytes
from demur.errors import InputError, InputTypeError
from demur.gate.clock import format_timestamp
from demur.memory.experience import ActionOutcome, Experience
from demur.memory.index import MemoryIndex
from demur.memory.projection import Projection
from demur.memory.recall import MemorySettings
from demur.model.record import DecisionRecord
from demur.store.rows import ExperienceRow, Label
from demur.store.store import Store

_REFRESH_S = 1.0
_log = logging.getLogger("demur")
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


def describe_effect(experience: ExperienceRow, memory: MemorySettings | None) -> str:
    """Return in words what an experience does to later requests under these settings."""
    if memory is None:
        return "memory is off in the settings, so this has no effect"
    if experience.outcome == ActionOutcome.SUCCESS:
        if memory.lift:
            return f"escalated requests are allowed from similarity {memory.allow}"
        return "stored without effect; set `lift` under [memory] to let it lift escalations"
    if experience.severity < memory.block_severity:
        return f"similar requests escalate from similarity {memory.escalate}"
    return (
        f"similar requests are denied from similarity {memory.block}, "
        f"and escalate from {memory.escalate}"
    )


# The indexes of tenants that did not decide for longest are read again when they do.
MAX_CACHED_TENANTS = 1000
_LOCKS = 64


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
        # Indexing a large memory takes a while, so few tenants share a lock.
        self._locks = tuple(Lock() for _ in range(_LOCKS))
        self._cache_lock = Lock()
        self._cached: dict[str, _CachedIndex] = {}

    def load_index(self, tenant: str, now: datetime) -> MemoryIndex:
        """Return a tenant's current memory index."""
        cached = self.cached_index(tenant, now)
        if cached is not None:
            return cached
        with self._locks[hash(tenant) % _LOCKS]:
            entry, elapsed = self._cached.get(tenant), self._elapsed()
            version = self._store.memory_version(tenant)
            if entry is None or entry.version != version or _is_expired(entry.snapshot, now):
                index = self._read_index(tenant, now)
            else:
                index = entry.snapshot
            self._keep(tenant, _CachedIndex(version, elapsed, index))
            return index

    def _keep(self, tenant: str, entry: _CachedIndex) -> None:
        # INVARIANT: no more than `MAX_CACHED_TENANTS` memory indexes are cached.
        with self._cache_lock:
            if tenant not in self._cached and len(self._cached) >= MAX_CACHED_TENANTS:
                del self._cached[min(self._cached, key=lambda name: self._cached[name].checked)]
            self._cached[tenant] = entry

    def cached_index(self, tenant: str, now: datetime) -> MemoryIndex | None:
        """Return a tenant's memory index if it is cached and fresh, without reading the store."""
        entry = self._cached.get(tenant)
        if entry is None or self._elapsed() - entry.checked >= _REFRESH_S:
            return None
        return None if _is_expired(entry.snapshot, now) else entry.snapshot

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
        with self._cache_lock:
            self._cached.pop(tenant, None)


def _is_expired(index: MemoryIndex, now: datetime) -> bool:
    until = index.expires_at
    return until is not None and until <= now
