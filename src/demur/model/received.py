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

__all__ = ["tighten_to_registry", "refusal_from_envelope"]

_MAX_VALUES = 20_000
_MAX_CHARACTERS = 2_000_000
_OF_ANY_SIZE = ("evidence", "source")
_SCOPES = (None, *RetryScope)
_SEVERITIES = tuple(Severity)


def refusal_from_envelope(data: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal in an envelope, tightened to the registry, or None. Never raises.

    If the envelope is too large, evidence and source are left out, and the evidence says so.
    """
    try:
        small = dict(data) if _is_small(data) else _without_large_members(data)
        # Round trip through JSON, so that the evidence can be sent on.
        refusal = msgspec.json.decode(msgspec.json.encode(small), type=Refusal)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return tighten_to_registry(refusal)


def tighten_to_registry(refusal: Refusal, *, registry: Registry | None = None) -> Refusal:
    """Return the refusal with the registry's facts where its own are looser.

    A code that is not registered keeps what its envelope says.
    """
    known = registry_or_core() if registry is None else registry
    entry = known.get(refusal.code)
    if entry is None:
        return refusal
    # INVARIANT: a refusal with a known code is never looser than the registry.
    facts = {
        "refusal_class": _stricter_class(refusal.refusal_class, entry.refusal_class),
        "advice": _stricter_advice(refusal.advice, entry),
        "retry_scope": max(refusal.retry_scope, entry.retry_scope, key=_SCOPES.index),
        "severity": max(refusal.severity, entry.severity, key=_SEVERITIES.index),
        "decided": entry.decided,
        "parent": entry.parent,
    }
    if all(getattr(refusal, name) == value for name, value in facts.items()):
        return refusal
    return msgspec.structs.replace(refusal, registry=known.label, **facts)


def _without_large_members(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope without the members of unbounded size."""
    names = set(Refusal.__struct_fields__) - set(_OF_ANY_SIZE)
    kept = {name: data[name] for name in names if name in data}
    if not _is_small(kept):
        raise ValueError
    return {**kept, "evidence": {"left_out": [name for name in _OF_ANY_SIZE if name in data]}}


def _is_small(data: object) -> bool:
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
        if values + len(waiting) > _MAX_VALUES or characters > _MAX_CHARACTERS:
            return False
    return True


def _stricter_class(one: RefusalClass | None, other: RefusalClass | None) -> RefusalClass | None:
    return max(one, other, key=lambda kind: 0 if kind is None else kind.strictness)


def _stricter_advice(claimed: Advice | None, entry: Entry) -> Advice | None:
    """Return the registry's advice, unless the envelope claims a plain stop."""
    return claimed if claimed in {None, Advice.DO_NOT_RETRY} else entry.advice
