"""The form of each part of a refusal, so that parts fit together in every language."""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["MAX_PART_LENGTH", "PART_NAMES", "find_text_problem"]

PART_NAMES = (
    "acknowledgment",
    "boundary",
    "reason",
    "alternatives",
    "engagement",
    "how_to_proceed",
)
MAX_PART_LENGTH = 240

_ASKS = ("?", "\N{FULLWIDTH QUESTION MARK}")
_ENDS = (*_ASKS, ".", "!", "…", "。", "\N{FULLWIDTH EXCLAMATION MARK}")
# Parts that are joined into a sentence with others.
_CLAUSES: Mapping[str, str] = {
    "boundary": "the boundary is joined with the reason into one sentence",
    "reason": "the reason is one clause, joined with the boundary",
    "alternatives": "alternatives are joined into one sentence",
}


class _TextProblem(NamedTuple):
    problem: str
    help: str | None


def find_text_problem(part: str, text: str) -> _TextProblem | None:
    """Return the problem with the form of one part, or None."""
    if len(text) > MAX_PART_LENGTH or not text.isprintable():
        return _TextProblem(f"`{part}` is one line of at most {MAX_PART_LENGTH} characters", None)
    if text != text.strip():
        return _TextProblem(f"`{part}` begins or ends with a space", None)
    if part in _CLAUSES:
        ended = any(mark in text for mark in _ENDS)
        return (
            _TextProblem(f"`{part}` holds the end of a sentence", _CLAUSES[part]) if ended else None
        )
    if part == "engagement" and not text.endswith(_ASKS):
        return _TextProblem("`engagement` asks nothing", "end it with a question")
    if not text.endswith(_ENDS):
        return _TextProblem(f"`{part}` is a whole sentence", "end it with a full stop")
    return None
