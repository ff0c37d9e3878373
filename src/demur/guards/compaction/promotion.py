"""Text that gained trust in a compaction: what a tool or a user said, now said by those who rule.

Compared by runs of words, so a copied passage is seen inside a longer message and with other
punctuation. A passage that the rulers said before as well is not promoted. A paraphrase shares
no run of words and is not seen here.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import Message, Word, flat, trust, words
from demur.model.finding import Action, Finding, Span

__all__ = ["promoted"]

_RULERS = 3
_Run = tuple[str, ...]


class _Copy(NamedTuple):
    """Words `first` to `last` of a message, found in an earlier one."""

    source: int
    first: int
    last: int


def promoted(before: Sequence[Message], after: Sequence[Message], length: int) -> Iterator[Finding]:
    """Yield each passage of `length` words or more that now stands in a more trusted role."""
    kept = {(message.role, flat(message.content)) for message in before}
    spoken: set[_Run] | None = None
    for index, message in enumerate(after):
        if trust(message.role) < _RULERS or (message.role, flat(message.content)) in kept:
            continue
        if spoken is None:
            spoken = {
                run
                for m in before
                if trust(m.role) >= _RULERS
                for run in _runs(words(m.content), length)
            }
        told = words(message.content)
        for copy in _copies(told, before, spoken, length):
            yield _finding(index, message, told, copy, before[copy.source])


def _runs(told: Sequence[Word], length: int) -> list[_Run]:
    texts = [word.text for word in told]
    return list(zip(*(texts[start:] for start in range(length)), strict=False))


def _copies(
    told: Sequence[Word], before: Sequence[Message], spoken: set[_Run], length: int
) -> Iterator[_Copy]:
    places: dict[_Run, list[int]] = {}
    for place, run in enumerate(_runs(told, length)):
        if run not in spoken:
            places.setdefault(run, []).append(place)
    if not places:
        return
    # The least trusted source counts: text of a tool stays a tool's if a user repeats it.
    sources = sorted(
        (trust(m.role), index) for index, m in enumerate(before) if trust(m.role) < _RULERS
    )
    taken: set[int] = set()
    for _, source in sources:
        found = {
            place
            for run in _runs(words(before[source].content), length)
            for place in places.get(run, ())
        } - taken
        taken |= found
        for first, last in _stretches(sorted(found)):
            yield _Copy(source, first, last + length - 1)


def _stretches(places: Sequence[int]) -> Iterator[tuple[int, int]]:
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


def _finding(
    index: int, message: Message, told: Sequence[Word], copy: _Copy, origin: Message
) -> Finding:
    # Every summary repeats text of the assistant.
    action = Action.WARN if origin.role == "assistant" else Action.BLOCK
    return Finding(
        code=ReasonCode.CONTEXT_INJECTION,
        surface=Surface.COMPACTION,
        span=Span(start=told[copy.first].start, end=told[copy.last].end),
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
