"""Grants by call: a grant for a call also covers its result."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from weakref import WeakKeyDictionary

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.model.grant import Grant

__all__ = ["CallGrants", "call_grants"]

_MOST_CALLS = 1000


class CallGrants:
    """Grants of the last `max_calls` calls that had some. Safe to share between threads.

    A grant for a call also covers its result.
    """

    def __init__(self, most: int = _MOST_CALLS) -> None:
        self._most = most
        self._lock = Lock()
        self._calls: OrderedDict[str, tuple[Grant, ...]] = OrderedDict()

    def keep(self, call_id: str | None, grants: Iterable[Grant]) -> None:
        """Keep the grants of a call, if it has any."""
        given = tuple(grants)
        if not call_id or not given:
            return
        with self._lock:
            self._calls[call_id] = given
            self._calls.move_to_end(call_id)
            if len(self._calls) > self._most:
                self._calls.popitem(last=False)

    def of(self, call_id: str | None) -> tuple[Grant, ...]:
        """Return the grants of a call."""
        return self._calls.get(call_id or "", ())


_KNOWN: WeakKeyDictionary[Gate, CallGrants] = WeakKeyDictionary()
_LOCK = Lock()


def call_grants(by: Enforcer) -> CallGrants:
    """Return the grants that all enforcers of one gate share."""
    if by.gate is None:
        return CallGrants()
    with _LOCK:
        return _KNOWN.setdefault(by.gate, CallGrants())
