"""Read a refusal envelope from an untrusted source, within bounds and against the registry.

For a code that is known here, the claims of an envelope can be stricter than the registry, never
looser: it cannot turn a hard block into a soft one, nor a stop into a retry.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from demur.codes.default import registry_or_core
from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity
from demur.model.refusal import Refusal

__all__ = ["held", "received"]

_MOST_VALUES = 20_000
_MOST_CHARACTERS = 2_000_000
_OF_ANY_SIZE = ("evidence", "source")
_SCOPES = (None, *RetryScope)
_SEVERITIES = tuple(Severity)


def received(data: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal in an envelope, tightened to the registry, or None. Never raises.

    If the envelope is too large, evidence and source are left out, and the evidence says so.
    """
    try:
        small = dict(data) if _fits(data) else _without(data)
        # Round trip through JSON, so that the evidence can be sent on.
        refusal = msgspec.json.decode(msgspec.json.encode(small), type=Refusal)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return held(refusal)


def held(refusal: Refusal, *, registry: Registry | None = None) -> Refusal:
    """Return the refusal with the registry's facts where its own are looser.

    A code that is not registered keeps what its envelope says.
    """
    known = registry_or_core() if registry is None else registry
    entry = known.get(refusal.code)
    if entry is None:
        return refusal
    # INVARIANT: a refusal with a known code is never looser than the registry.
    facts = {
        "refusal_class": _stricter(refusal.refusal_class, entry.refusal_class),
        "advice": _advice(refusal.advice, entry),
        "retry_scope": max(refusal.retry_scope, entry.retry_scope, key=_SCOPES.index),
        "severity": max(refusal.severity, entry.severity, key=_SEVERITIES.index),
        "decided": entry.decided,
        "parent": entry.parent,
    }
    if all(getattr(refusal, name) == value for name, value in facts.items()):
        return refusal
    return msgspec.structs.replace(refusal, registry=known.label, **facts)


def _without(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope without the members of unbounded size."""
    names = set(Refusal.__struct_fields__) - set(_OF_ANY_SIZE)
    kept = {name: data[name] for name in names if name in data}
    if not _fits(kept):
        raise ValueError
    return {**kept, "evidence": {"left_out": [name for name in _OF_ANY_SIZE if name in data]}}


def _fits(data: object) -> bool:
    """Return whether the value is small enough to copy; shared parts count each time."""
    waiting, values, characters = [data], 0, 0
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, str | bytes):
            characters += len(one)
        elif type(one) is dict:
            waiting += [*one, *one.values()]
        elif type(one) is list or type(one) is tuple:
            waiting += one
        elif isinstance(one, dict | list | tuple):
            # A subclass may iterate without end.
            return False
        if values + len(waiting) > _MOST_VALUES or characters > _MOST_CHARACTERS:
            return False
    return True


def _stricter(one: RefusalClass | None, other: RefusalClass | None) -> RefusalClass | None:
    return max(one, other, key=lambda kind: 0 if kind is None else kind.strictness)


def _advice(claimed: Advice | None, entry: Entry) -> Advice | None:
    """Return the registry's advice, unless the envelope claims a plain stop."""
    return claimed if claimed in {None, Advice.DO_NOT_RETRY} else entry.advice
