"""The form of each part of a refusal, so that parts fit together in every language."""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["LONGEST", "PARTS", "text_problem"]

PARTS = ("acknowledgment", "boundary", "reason", "alternatives", "engagement", "how_to_proceed")
LONGEST = 240

_ASKS = ("?", "\N{FULLWIDTH QUESTION MARK}")
_ENDS = (*_ASKS, ".", "!", "…", "。", "\N{FULLWIDTH EXCLAMATION MARK}")
# Parts that are joined into a sentence with others.
_CLAUSES: Mapping[str, str] = {
    "boundary": "the boundary is joined with the reason into one sentence",
    "reason": "the reason is one clause, joined with the boundary",
    "alternatives": "alternatives are joined into one sentence",
}


class _Complaint(NamedTuple):
    problem: str
    help: str | None


def text_problem(part: str, text: str) -> _Complaint | None:
    """Return the problem with the form of one part, or None."""
    if len(text) > LONGEST or not text.isprintable():
        return _Complaint(f"`{part}` is one line of at most {LONGEST} characters", None)
    if text != text.strip():
        return _Complaint(f"`{part}` begins or ends with a space", None)
    if part in _CLAUSES:
        ended = any(mark in text for mark in _ENDS)
        return (
            _Complaint(f"`{part}` holds the end of a sentence", _CLAUSES[part]) if ended else None
        )
    if part == "engagement" and not text.endswith(_ASKS):
        return _Complaint("`engagement` asks nothing", "end it with a question")
    if not text.endswith(_ENDS):
        return _Complaint(f"`{part}` is a whole sentence", "end it with a full stop")
    return None
