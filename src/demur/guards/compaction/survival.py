"""Whether pinned texts survived a compaction, word for word, in their place and their role.

A pinned message may stand by itself or within a longer message of the same trust. There it must
begin and end like a text of its own: a sentence that goes on after it could take it back.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unicodedata import is_normalized, normalize

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import ContextMessage, normalize_text, role_trust
from demur.guards.compaction.pinning import Pin, content_digest
from demur.model.finding import Finding, Span

__all__ = ["find_lost_pins"]

_TOKEN = re.compile(r"\S+")
_ENDS = tuple(".!?;:)]}>\"'…\u3002\uff01\uff1f")
_BEGINS = (*_ENDS, "*", "-", "#", "•", ",")
# The share of a text's words that another must hold to count as a changed copy.
_MIN_SIMILARITY = 0.6


class _PinPlace(NamedTuple):
    message: int
    start: int


def find_lost_pins(
    pins: Sequence[Pin], before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for each pin that is gone, changed, demoted or out of order."""
    roles = {pin.role for pin in pins if pin.text is None}
    origin = {(m.role, content_digest(m.content)): m.content for m in before if m.role in roles}
    last = _PinPlace(-1, -1)
    for pin in pins:
        text = pin.text if pin.text is not None else origin.get((pin.role, pin.digest))
        if text is None:
            yield _pin_finding(
                pin, "is not in the context that was to be compacted", {"in": "before"}
            )
            continue
        places = sorted(_find_places(normalize_text(text), pin, after))
        if not places:
            yield _lost_finding(pin, normalize_text(text), after)
            continue
        # Pinned rules may stand anywhere; pinned messages keep their order.
        if pin.text is None:
            following = [place for place in places if place > last]
            if not following:
                where = {"in": "after", "message": places[0].message}
                yield _pin_finding(pin, "is out of order", where)
            last = following[0] if following else last


def _find_places(text: str, pin: Pin, after: Sequence[ContextMessage]) -> Iterator[_PinPlace]:
    for index, message in enumerate(after):
        if role_trust(message.role) >= role_trust(pin.role):
            for start in _find_starts(text, message.content):
                yield _PinPlace(index, start)


def _find_starts(text: str, content: str) -> Iterator[int]:
    """Yield where `text` stands in `content` as a text of its own."""
    whole = normalize_text(content)
    start = whole.find(text) if text else -1
    gaps = _line_gaps(content) if start >= 0 and len(whole) > len(text) else frozenset()
    while start >= 0:
        end = start + len(text)
        begins = start == 0 or start - 1 in gaps or whole[:start].rstrip().endswith(_BEGINS)
        ends = end == len(whole) or end in gaps or text.endswith(_ENDS)
        if begins and ends and (end == len(whole) or whole[end] == " "):
            yield start
        start = whole.find(text, start + 1)


def _line_gaps(content: str) -> frozenset[int]:
    """Return which spaces of the flat text were line breaks."""
    gaps = set()
    place = 0
    end = 0
    composed = normalize("NFC", content)
    for found in _TOKEN.finditer(composed):
        if place:
            if "\n" in composed[end : found.start()]:
                gaps.add(place)
            place += 1
        place += len(found[0])
        end = found.end()
    return frozenset(gaps)


def _lost_finding(pin: Pin, text: str, after: Sequence[ContextMessage]) -> Finding:
    """Return the finding for a lost pin: demoted, changed or gone."""
    for index, message in enumerate(after):
        if any(True for _ in _find_starts(text, message.content)):
            facts = {"in": "after", "message": index, "found_role": message.role}
            return _pin_finding(pin, "has lost its role", facts)
    for index, message in enumerate(after):
        if role_trust(message.role) >= role_trust(pin.role) and _is_similar(
            text, normalize_text(message.content)
        ):
            facts = {"in": "after", "message": index}
            found = content_digest(message.content)
            span = Span(start=_first_difference(text, message.content), end=len(message.content))
            return _pin_finding(pin, "was changed", {**facts, "actual_digest": found}, span)
    return _pin_finding(pin, "is gone", {"in": "after"})


def _is_similar(one: str, other: str) -> bool:
    mine, theirs = set(one.casefold().split()), set(other.casefold().split())
    return len(mine & theirs) >= _MIN_SIMILARITY * max(len(mine), 1)


def _first_difference(text: str, content: str) -> int:
    """Return the place where `content` first differs from `text`."""
    if not is_normalized("NFC", content):
        return 0
    expected = text.split()
    end = 0
    for token, found in zip(expected, _TOKEN.finditer(content), strict=False):
        if token != found[0]:
            return found.start()
        end = found.end()
    return end


def _pin_finding(
    pin: Pin, problem: str, facts: dict[str, Any], span: Span | None = None
) -> Finding:
    kind = "rule" if pin.text is not None else f"{pin.role} message"
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=Surface.COMPACTION,
        span=span,
        detail=f"a pinned {kind} {problem}",
        evidence={
            "rule": "PIN_LOST",
            "segment": f"pin {pin.order}",
            "role": pin.role,
            "expected_digest": pin.digest,
            **facts,
        },
    )
