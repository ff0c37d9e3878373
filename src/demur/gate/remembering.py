"""Each tenant's memory as the gate uses it: read from the store, cached until it changes."""

import logging
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import NamedTuple

from demur.gate.clock import format_timestamp
from demur.memory.experience import Experience
from demur.memory.index import MemoryIndex
from demur.store.store import Store

__all__ = ["TenantMemories"]

_REFRESH_S = 1.0

_log = logging.getLogger("demur")


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
