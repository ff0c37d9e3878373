"""Whether messages kept their author and their order in a compaction.

A compaction drops messages and adds a summary. What it keeps, it keeps as it was: nobody is made
to say what another said, and nothing that was said later comes first. Texts of a few words are
said by everybody and prove nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.compaction.message import ContextMessage, normalize_text, role_trust, split_words
from demur.model.finding import Finding, Span

__all__ = ["find_changed_authors", "find_changed_order"]

_MIN_WORDS = 5
_RULERS = 3
_RUN_WORDS = 6
# The share of a user's message that, copied from one other message, makes it that one's text.
_MIN_COPIED_SHARE = 0.8


def find_changed_authors(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for each message that changed its author."""
    authors: dict[str, set[str]] = {}
    for message in before:
        authors.setdefault(normalize_text(message.content), set()).add(message.role)
    for index, message in enumerate(after):
        known = authors.get(normalize_text(message.content))
        if known is None:
            if message.role == "user" and (role := _main_source(message, before)):
                yield _author_finding(index, message, role)
        elif message.role not in known and _is_telling(message):
            yield _author_finding(index, message, min(known, key=role_trust))


def _is_telling(message: ContextMessage) -> bool:
    # A text that gained the trust of a system message is reported as promoted.
    return role_trust(message.role) < _RULERS and len(split_words(message.content)) >= _MIN_WORDS


def _main_source(message: ContextMessage, before: Sequence[ContextMessage]) -> str | None:
    """Return the role that said nearly all of this message before, if that was not the user."""
    mine = _message_runs(message)
    if not mine:
        return None
    said = set().union(
        *(_message_runs(m) for m in before if role_trust(m.role) >= role_trust("user"))
    )
    for other in before:
        if other.role in {"tool", "assistant"}:
            shared = (mine & _message_runs(other)) - said
            if len(shared) >= _MIN_COPIED_SHARE * len(mine):
                return other.role
    return None


def _message_runs(message: ContextMessage) -> set[tuple[str, ...]]:
    texts = [word.text for word in split_words(message.content)]
    return set(zip(*(texts[start:] for start in range(_RUN_WORDS)), strict=False))


def find_changed_order(
    before: Sequence[ContextMessage], after: Sequence[ContextMessage]
) -> Iterator[Finding]:
    """Yield a finding for the first kept message that comes too early or too late.

    System messages may be moved to the front, so they and the conversation are each compared
    with their own order.
    """
    for rulers in (True, False):
        row = [_message_key(m) for m in before if (role_trust(m.role) >= _RULERS) is rulers]
        known = set(row)
        place = 0
        for index, message in enumerate(after):
            key = _message_key(message)
            if (role_trust(message.role) >= _RULERS) is not rulers or key not in known:
                continue
            if len(split_words(message.content)) < _MIN_WORDS:
                continue
            try:
                place = row.index(key, place) + 1
            except ValueError:
                yield _kept_finding(index, message, "ORDER_CHANGED", "was moved", {})
                break


def _message_key(message: ContextMessage) -> tuple[str, str]:
    return message.role, normalize_text(message.content)


def _author_finding(index: int, message: ContextMessage, role: str) -> Finding:
    detail = f"was said by {'an' if role == 'assistant' else 'a'} {role} before"
    return _kept_finding(index, message, "AUTHOR_CHANGED", detail, {"author": role})


def _kept_finding(
    index: int, message: ContextMessage, rule: str, problem: str, facts: dict[str, Any]
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
