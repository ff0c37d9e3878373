"""A short cache of results, because many users open the same page."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from demur.service.service import Service

__all__ = ["cached_result"]

T = TypeVar("T")
_MAX_CACHED_RESULTS = 1000
_cached_results: WeakKeyDictionary[Service, dict[Hashable, tuple[datetime, Any]]] = (
    WeakKeyDictionary()
)
_cache_lock = Lock()


def cached_result(service: Service, key: Hashable, seconds: float, compute: Callable[[], T]) -> T:
    """Return the result of `compute`, cached for this service and key for some seconds."""
    now = service.clock()
    with _cache_lock:
        known = _cached_results.setdefault(service, {})
        found = known.get(key)
    if found is not None and now < found[0]:
        return cast("T", found[1])
    made = compute()
    with _cache_lock:
        if len(known) >= _MAX_CACHED_RESULTS:
            known.clear()
        known[key] = (now + timedelta(seconds=seconds), made)
    return made
