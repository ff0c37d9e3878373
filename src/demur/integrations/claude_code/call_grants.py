"""Grants by call: a grant for a call also covers its result."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from weakref import WeakKeyDictionary

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.model.grant import Grant

__all__ = ["CallGrants", "grants_by_call"]

_MAX_CALLS = 1000


class CallGrants:
    """Grants of the last `max_calls` calls that had some. Safe to share between threads.

    A grant for a call also covers its result.
    """

    def __init__(self, max_calls: int = _MAX_CALLS) -> None:
        self._max_calls = max_calls
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
            if len(self._calls) > self._max_calls:
                self._calls.popitem(last=False)

    def granted_for(self, call_id: str | None) -> tuple[Grant, ...]:
        """Return the grants of a call."""
        return self._calls.get(call_id or "", ())


_GRANTS_BY_GATE: WeakKeyDictionary[Gate, CallGrants] = WeakKeyDictionary()
_GRANTS_LOCK = Lock()


def grants_by_call(enforcer: Enforcer) -> CallGrants:
    """Return the grants that all enforcers of one gate share."""
    if enforcer.gate is None:
        return CallGrants()
    with _GRANTS_LOCK:
        return _GRANTS_BY_GATE.setdefault(enforcer.gate, CallGrants())
