"""Text that gained trust in a compaction: what a tool or a user said, now said by those who rule.

Compared by runs of words, so a copied passage is seen inside a longer message and with other
punctuation. A passage that the rulers said before as well is not promoted. A paraphrase shares
no run of words and is not seen here.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import (
    ContextMessage,
    MessageWord,
    normalize_text,
    role_trust,
    split_words,
)
from demur.model.finding import Action, Finding, Span

__all__ = ["find_promoted_text"]

_RULERS = 3
_WordRun = tuple[str, ...]


class _CopiedPassage(NamedTuple):
    """Words `first` to `last` of a message, found in an earlier one."""

    source: int
    first: int
    last: int


def find_promoted_text(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage], min_words: int
) -> Iterator[Finding]:
    """Yield each passage of `length` words or more that now stands in a more trusted role."""
    kept = {(message.role, normalize_text(message.content)) for message in before}
    spoken: set[_WordRun] | None = None
    for index, message in enumerate(after):
        if (
            role_trust(message.role) < _RULERS
            or (message.role, normalize_text(message.content)) in kept
        ):
            continue
        if spoken is None:
            spoken = {
                run
                for m in before
                if role_trust(m.role) >= _RULERS
                for run in _word_runs(split_words(m.content), min_words)
            }
        told = split_words(message.content)
        for copy in _find_copies(told, before, spoken, min_words):
            yield _promotion_finding(index, message, told, copy, before[copy.source])


def _word_runs(message_words: Sequence[MessageWord], length: int) -> list[_WordRun]:
    texts = [word.text for word in message_words]
    return list(zip(*(texts[start:] for start in range(length)), strict=False))


def _find_copies(
    message_words: Sequence[MessageWord],
    before: Sequence[ContextMessage],
    trusted_runs: set[_WordRun],
    length: int,
) -> Iterator[_CopiedPassage]:
    places: dict[_WordRun, list[int]] = {}
    for place, run in enumerate(_word_runs(message_words, length)):
        if run not in trusted_runs:
            places.setdefault(run, []).append(place)
    if not places:
        return
    # The least trusted source counts: text of a tool stays a tool's if a user repeats it.
    sources = sorted(
        (role_trust(m.role), index)
        for index, m in enumerate(before)
        if role_trust(m.role) < _RULERS
    )
    taken: set[int] = set()
    for _, source in sources:
        found = {
            place
            for run in _word_runs(split_words(before[source].content), length)
            for place in places.get(run, ())
        } - taken
        taken |= found
        for first, last in _join_neighbours(sorted(found)):
            yield _CopiedPassage(source, first, last + length - 1)


def _join_neighbours(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each row of neighbouring places."""
    first = before = None
    for place in places:
        if before is not None and place != before + 1:
            assert first is not None
            yield first, before
            first = place
        first = place if first is None else first
        before = place
    if first is not None and before is not None:
        yield first, before


def _promotion_finding(
    index: int,
    message: ContextMessage,
    message_words: Sequence[MessageWord],
    copy: _CopiedPassage,
    origin: ContextMessage,
) -> Finding:
    # Every summary repeats text of the assistant.
    action = Action.WARN if origin.role == "assistant" else Action.BLOCK
    return Finding(
        code=ReasonCode.CONTEXT_INJECTION,
        surface=Surface.COMPACTION,
        span=Span(start=message_words[copy.first].start, end=message_words[copy.last].end),
        detail=f"text of a {origin.role} message now stands in a {message.role} message",
        evidence={
            "rule": "PROMOTED_TEXT",
            "source": origin.role,
            "in": "after",
            "message": index,
            "role": message.role,
            "from_message": copy.source,
            "words": copy.last - copy.first + 1,
        },
        action=action,
    )
