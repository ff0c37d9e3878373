"""A short cache of results, because many users open the same page."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from demur.service.service import Service

__all__ = ["recent"]

T = TypeVar("T")
_MOST = 1000
_kept: WeakKeyDictionary[Service, dict[Hashable, tuple[datetime, Any]]] = WeakKeyDictionary()
_lock = Lock()


def recent(service: Service, key: Hashable, seconds: float, make: Callable[[], T]) -> T:
    """Return the result of `compute`, cached for this service and key for some seconds."""
    now = service.clock()
    with _lock:
        known = _kept.setdefault(service, {})
        found = known.get(key)
    if found is not None and now < found[0]:
        return cast("T", found[1])
    made = make()
    with _lock:
        if len(known) >= _MOST:
            known.clear()
        known[key] = (now + timedelta(seconds=seconds), made)
    return made
