"""A message of a model's context: who says it, and how far that is to be trusted.

Two texts are the same, word for word, if they differ in nothing but white space and Unicode
composition (NFC). Case, punctuation and invisible characters count: a rule with a hidden
character in it is another rule.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args
from unicodedata import normalize

import msgspec

from demur.errors import InputError, InputTypeError
from demur.scan.fold import fold_text

__all__ = [
    "MAX_MESSAGE_LENGTH",
    "ContextMessage",
    "Role",
    "MessageWord",
    "normalize_text",
    "read_messages",
    "role_trust",
    "split_words",
]

Role = Literal["assistant", "developer", "system", "tool", "user"]

MAX_MESSAGE_LENGTH = 20_000_000
_TRUST = {"tool": 0, "assistant": 1, "user": 2, "developer": 3, "system": 3}
_OTHER_NAMES = {"ai": "assistant", "function": "tool", "human": "user", "model": "assistant"}
# Scripts that write no spaces: each character stands for a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff"
# Invisible characters do not split a word.
_HIDDEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_LETTERS = rf"[^\W{_UNSPACED}]+"
_WORD = re.compile(rf"[{_UNSPACED}]|{_LETTERS}(?:[{_HIDDEN}]+{_LETTERS})*")


class ContextMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message: its role and its text."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            known = ", ".join(get_args(Role))
            raise InputError(f"unknown role `{str(self.role)[:40]}`", help=f"one of {known}")
        if not isinstance(self.content, str):
            raise InputTypeError.wrong_type("content", "a text", self.content)
        if len(self.content) > MAX_MESSAGE_LENGTH:
            raise InputError(f"a message has more than {MAX_MESSAGE_LENGTH} characters")


class MessageWord(NamedTuple):
    """A word in its folded form, and where it stands."""

    text: str
    start: int
    end: int


def role_trust(role: str) -> int:
    """Return how much a role is trusted: tool, assistant, user, then system and developer."""
    return _TRUST[role]


def normalize_text(text: str) -> str:
    """Return `text` in NFC with single spaces; equal results are the same word for word."""
    return " ".join(normalize("NFC", text).split())


def split_words(text: str) -> list[MessageWord]:
    """Return the words of `text`, folded for comparison."""
    return [
        MessageWord(_fold_word(found[0]), found.start(), found.end())
        for found in _WORD.finditer(text)
    ]


@lru_cache(4096)
def _fold_word(word: str) -> str:
    """Return a word without look-alike letters, case and invisible characters."""
    return word.casefold() if word.isascii() else fold_text(word).data.decode("latin-1")


def read_messages(rows: Iterable[Mapping[str, Any]]) -> tuple[ContextMessage, ...]:
    """Return messages in the shapes that providers use: a text, or a list of parts with texts.

    Raises:
        InputError: A row has no known role, or no text.
    """
    return tuple(_read_message(index, row) for index, row in enumerate(rows))


def _read_message(index: int, row: Any) -> ContextMessage:
    if not isinstance(row, Mapping):
        raise InputTypeError.wrong_type(f"message {index}", "an object", row)
    role = row.get("role", row.get("type"))
    content = row.get("content")
    try:
        return ContextMessage(role=_OTHER_NAMES.get(role, role), content=_join_text(content))  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(error.problem, where=f"message {index}", help=error.help) from None
    except TypeError:
        raise InputTypeError.wrong_type(
            f"the content of message {index}", "a text", content
        ) from None


def _join_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TypeError
    return "\n".join(
        part if isinstance(part, str) else str(part.get("text") or part.get("content") or "")
        for part in content
        if isinstance(part, str | Mapping)
    )
