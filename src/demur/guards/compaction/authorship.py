"""Whether messages kept their author and their order in a compaction.

A compaction drops messages and adds a summary. What it keeps, it keeps as it was: nobody is made
to say what another said, and nothing that was said later comes first. Texts of a few words are
said by everybody and prove nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import Message, flat, trust, words
from demur.model.finding import Finding, Span

__all__ = ["changed_authors", "changed_order"]

_FEWEST_WORDS = 5
_RULERS = 3
_RUN = 6
# The share of a user's message that, copied from one other message, makes it that one's text.
_MOSTLY = 0.8


def changed_authors(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Finding]:
    """Yield a finding for each message that changed its author."""
    authors: dict[str, set[str]] = {}
    for message in before:
        authors.setdefault(flat(message.content), set()).add(message.role)
    for index, message in enumerate(after):
        known = authors.get(flat(message.content))
        if known is None:
            if message.role == "user" and (role := _mostly(message, before)):
                yield _author(index, message, role)
        elif message.role not in known and _proves(message):
            yield _author(index, message, min(known, key=trust))


def _proves(message: Message) -> bool:
    # A text that gained the trust of a system message is reported as promoted.
    return trust(message.role) < _RULERS and len(words(message.content)) >= _FEWEST_WORDS


def _mostly(message: Message, before: Sequence[Message]) -> str | None:
    """Return the role that said nearly all of this message before, if that was not the user."""
    mine = _runs(message)
    if not mine:
        return None
    said = set().union(*(_runs(m) for m in before if trust(m.role) >= trust("user")))
    for other in before:
        if other.role in {"tool", "assistant"}:
            shared = (mine & _runs(other)) - said
            if len(shared) >= _MOSTLY * len(mine):
                return other.role
    return None


def _runs(message: Message) -> set[tuple[str, ...]]:
    texts = [word.text for word in words(message.content)]
    return set(zip(*(texts[start:] for start in range(_RUN)), strict=False))


def changed_order(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Finding]:
    """Yield a finding for the first kept message that comes too early or too late.

    System messages may be moved to the front, so they and the conversation are each compared
    with their own order.
    """
    for rulers in (True, False):
        row = [_key(m) for m in before if (trust(m.role) >= _RULERS) is rulers]
        known = set(row)
        place = 0
        for index, message in enumerate(after):
            key = _key(message)
            if (trust(message.role) >= _RULERS) is not rulers or key not in known:
                continue
            if len(words(message.content)) < _FEWEST_WORDS:
                continue
            try:
                place = row.index(key, place) + 1
            except ValueError:
                yield _finding(index, message, "ORDER_CHANGED", "was moved", {})
                break


def _key(message: Message) -> tuple[str, str]:
    return message.role, flat(message.content)


def _author(index: int, message: Message, role: str) -> Finding:
    detail = f"was said by {'an' if role == 'assistant' else 'a'} {role} before"
    return _finding(index, message, "AUTHOR_CHANGED", detail, {"author": role})


def _finding(
    index: int, message: Message, rule: str, problem: str, facts: dict[str, Any]
) -> Finding:
    return Finding(
        code=ReasonCode.INTEGRITY_FAILURE,
        surface=Surface.COMPACTION,
        span=Span(start=0, end=len(message.content)),
        detail=f"a kept {message.role} message {problem}",
        evidence={
            "rule": rule,
            "segment": f"message {index}",
            "in": "after",
            "message": index,
            "role": message.role,
            **facts,
        },
    )
