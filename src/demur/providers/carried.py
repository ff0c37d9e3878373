"""A refusal of our own inside another system's answer: whole, as its line, or as its code.

Guards put a refusal where a framework leaves room for one: in `structuredContent`, in
`output_info`, in the reason of a hook. Found there, it is worth more than anything that
the framework says about it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.codes.default import registry_or_core
from demur.codes.line import REFUSAL_MARK, REFUSAL_PREFIX, parse_refusal
from demur.codes.vocabulary import RefusalClass
from demur.model.received import tighten_to_registry, refusal_from_envelope
from demur.model.refusal import Refusal
from demur.providers.node import Node
from demur.providers.plain import to_bounded_json
from demur.providers.signal import SignalOutcome, Signal

__all__ = ["find_own_refusal", "find_reason_code", "find_envelope"]

_CODES = ("reasonCode", "reasonCodes", "code", "codes", "reason")


def find_own_refusal(name: str, *places: Node, last: bool = False, **more: Any) -> Signal | None:
    """Return the first own refusal at the places: an envelope, or a line at the start.

    With `last` the line may also end the text. Use it only for texts that are known to refuse:
    elsewhere a quoted line could come from anyone. `name` is the carrier; `more` is added to
    the signal of a line. An envelope is kept as it is, unless it is weaker than the registry.
    """
    for place in places:
        for node in (place, place["refusal"]):
            found = _read_envelope(name, node) or _read_line(name, node, more, last=last)
            if found is not None:
                return found
    return None


def find_envelope(name: str, *places: Node) -> Signal | None:
    """Return the first refusal envelope at the places, and ignore refusal lines.

    For tool results, whose text may come from anyone.
    """
    nodes = (node for place in places for node in (place, place["refusal"]))
    return next((found for node in nodes if (found := _read_envelope(name, node))), None)


def find_reason_code(name: str, place: Node, **more: Any) -> Signal | None:
    """Return the refusal by the registered code at `place` or in one of its fields, or None."""
    codes = [
        (known, node) for node in _code_nodes(place) if (known := _refusing_code(node.text or ""))
    ]
    if not codes:
        return None
    (code, refusal_class), node = max(codes, key=lambda found: found[0][1].strictness)
    said = {"path": node.path, "native": place.raw, "refusal_class": refusal_class}
    return Signal(name=name, code=code, outcome=_code_outcome(code), **{**said, **more})


def _read_envelope(name: str, node: Node) -> Signal | None:
    refusal = _decode_envelope(node)
    if refusal is None or refusal.refusal_class is None:
        return None
    return Signal(
        name=name,
        path=node.path,
        native=node.raw,
        code=refusal.code,
        outcome=SignalOutcome.REFUSAL if refusal.decided else SignalOutcome.NOT_JUDGED,
        refusal_class=refusal.refusal_class,
        refusal=refusal,
    )


def _decode_envelope(node: Node) -> Refusal | None:
    if isinstance(node.raw, Refusal):
        return tighten_to_registry(node.raw)
    if node["schema_version"].text != "refusal.v1":
        return None
    return refusal_from_envelope(
        dict(node.raw) if isinstance(node.raw, Mapping) else to_bounded_json(node.raw).value
    )


def _read_line(name: str, node: Node, more: dict[str, Any], *, last: bool) -> Signal | None:
    # INVARIANT: a line that is quoted within a text is no refusal.
    text = node.text
    if text is None or REFUSAL_MARK not in text:
        return None
    lines = text.strip().splitlines()
    for line in (lines[0], lines[-1]) if last else (lines[0],):
        said = parse_refusal(line) if line.startswith(REFUSAL_PREFIX) else None
        known = None if said is None else _refusing_code(said.code)
        if said is not None and known is not None:
            code, refusal_class = known
            found = {"path": node.path, "native": text, "refusal_class": refusal_class}
            found |= {"code": code, "outcome": _code_outcome(code), "detail": said.detail}
            return Signal(name=name, **{**found, **more})
    return None


def _code_nodes(place: Node) -> Iterator[Node]:
    yield place
    for field in _CODES:
        yield place[field]
        yield from place[field]


def _refusing_code(code: str) -> tuple[str, RefusalClass] | None:
    """Return the registered code and its class, or None if it is unknown or allows."""
    entry = registry_or_core().get(code)
    if entry is None or entry.refusal_class is None:
        return None
    return str(entry.code), entry.refusal_class


def _code_outcome(code: str) -> SignalOutcome:
    return SignalOutcome.REFUSAL if registry_or_core()[code].decided else SignalOutcome.NOT_JUDGED
