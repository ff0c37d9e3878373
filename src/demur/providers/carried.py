"""A refusal of our own inside another system's answer: whole, as its line, or as its code.

Guards put a refusal where a framework leaves room for one: in `structuredContent`, in
`output_info`, in the reason of a hook. Found there, it is worth more than anything that
the framework says about it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from demur.codes.default import registry_or_core
from demur.codes.find import find_refusals
from demur.codes.line import MARK
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.providers.node import Node
from demur.providers.plain import plain
from demur.providers.signal import Outcome, Signal

__all__ = ["carried", "coded"]

_CODES = ("reasonCode", "reasonCodes", "code", "codes", "reason")


def carried(name: str, *places: Node, **more: Any) -> Signal | None:
    """Return the first refusal that a place is, holds as `refusal`, or says in a line.

    `name` says who carried it; `more` adds to a signal that a line made. An envelope stays
    as it was written.
    """
    for place in places:
        for node in (place, place["refusal"]):
            found = _whole(name, node) or _lined(name, node, more)
            if found is not None:
                return found
    return None


def coded(name: str, place: Node, **more: Any) -> Signal | None:
    """Return the refusal by the registered code that `place` is or names in a field, or None."""
    codes = [(known, node) for node in _named(place) if (known := _refusing(node.text or ""))]
    if not codes:
        return None
    (code, refusal_class), node = max(codes, key=lambda found: found[0][1].strictness)
    said = {"path": node.path, "native": place.raw, "refusal_class": refusal_class}
    return Signal(name=name, code=code, outcome=_outcome(code), **{**said, **more})


def _whole(name: str, node: Node) -> Signal | None:
    refusal = _envelope(node)
    if refusal is None or refusal.refusal_class is None:
        return None
    return Signal(
        name=name,
        path=node.path,
        native=node.raw,
        code=refusal.code,
        outcome=Outcome.REFUSAL if refusal.decided else Outcome.NOT_JUDGED,
        refusal_class=refusal.refusal_class,
        refusal=refusal,
    )


def _envelope(node: Node) -> Refusal | None:
    if isinstance(node.raw, Refusal):
        return node.raw
    if node["schema_version"].text != "refusal.v1":
        return None
    raw = dict(node.raw) if isinstance(node.raw, Mapping) else plain(node.raw).value
    try:
        # Through JSON: evidence that could not travel on would be no evidence.
        refusal = msgspec.json.decode(msgspec.json.encode(raw), type=Refusal)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return _held_to_registry(refusal)


def _held_to_registry(refusal: Refusal) -> Refusal:
    """Return the refusal with the registry's facts if it claims others for a code we know.

    An envelope may come from anyone: it must not talk a hard block into a soft one.
    """
    entry = registry_or_core().get(refusal.code)
    claimed = (refusal.refusal_class, refusal.decided)
    if entry is None or claimed == (entry.refusal_class, entry.decided):
        return refusal
    return Refusal.of(
        entry.code,
        refusal.detail,
        evidence=refusal.evidence,
        surface=refusal.surface,
        source=refusal.source,
        decision_id=refusal.decision_id,
        registry=registry_or_core(),
    )


def _lined(name: str, node: Node, more: dict[str, Any]) -> Signal | None:
    text = node.text
    if text is None or MARK not in text:
        return None
    for found in find_refusals(text):
        known = None if found.legacy else _refusing(found.code)
        if known is not None:
            code, refusal_class = known
            said = {"path": node.path, "native": text, "refusal_class": refusal_class}
            said |= {"code": code, "outcome": _outcome(code), "detail": found.detail}
            return Signal(name=name, **{**said, **more})
    return None


def _named(place: Node) -> Iterator[Node]:
    yield place
    for field in _CODES:
        yield place[field]
        yield from place[field]


def _refusing(code: str) -> tuple[str, RefusalClass] | None:
    """Return the registered code that refuses, with its class; a code that allows is none."""
    entry = registry_or_core().get(code)
    if entry is None or entry.refusal_class is None:
        return None
    return str(entry.code), entry.refusal_class


def _outcome(code: str) -> Outcome:
    return Outcome.REFUSAL if registry_or_core()[code].decided else Outcome.NOT_JUDGED
