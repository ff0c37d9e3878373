"""Each tenant's memory as the gate uses it: read from the store, cached until it changes."""

import logging
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import NamedTuple

from demur.gate.clock import timestamp
from demur.memory.experience import Experience
from demur.memory.index import Index
from demur.store.store import Store

__all__ = ["Memories"]

_REFRESH_S = 1.0

_log = logging.getLogger("demur")


class _Kept(NamedTuple):
    version: int
    checked: float
    snapshot: Index


class Memories:
    """The memory indexes of all tenants.

    Experiences of this process count at once, those of other processes within a second.
    """

    def __init__(
        self, store: Store, projection: str, *, elapsed: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._projection = projection
        self._elapsed = elapsed
        self._locks: dict[str, Lock] = {}
        self._kept: dict[str, _Kept] = {}

    def index(self, tenant: str, now: datetime) -> Index:
        """Return a tenant's current memory index."""
        at_hand = self.at_hand(tenant, now)
        if at_hand is not None:
            return at_hand
        # Lock per tenant: indexing a large memory takes a while.
        with self._locks.setdefault(tenant, Lock()):
            kept, elapsed = self._kept.get(tenant), self._elapsed()
            version = self._store.memory_version(tenant)
            same = kept is not None and kept.version == version and not _over(kept.snapshot, now)
            index = kept.snapshot if kept is not None and same else self._read(tenant, now)
            self._kept[tenant] = _Kept(version, elapsed, index)
            return index

    def at_hand(self, tenant: str, now: datetime) -> Index | None:
        """Return a tenant's memory index if it is cached and fresh, without reading the store."""
        kept = self._kept.get(tenant)
        if kept is None or self._elapsed() - kept.checked >= _REFRESH_S:
            return None
        return None if _over(kept.snapshot, now) else kept.snapshot

    def _read(self, tenant: str, now: datetime) -> Index:
        rows = self._store.experiences(tenant, timestamp(now))
        # Vectors of different projections cannot be compared.
        usable = [row for row in rows if row.projection == self._projection]
        if len(usable) < len(rows):
            _log.warning(
                "ignoring %d experiences of tenant %s: made by another projection",
                len(rows) - len(usable),
                tenant,
            )
        return Index(
            [Experience.from_fields(row._asdict()) for row in usable], projection=self._projection
        )

    def changed(self, tenant: str) -> None:
        """Drop a tenant's cached index, so that the next use reads it again."""
        self._kept.pop(tenant, None)


def _over(index: Index, now: datetime) -> bool:
    until = index.holds_until
    return until is not None and until <= now
