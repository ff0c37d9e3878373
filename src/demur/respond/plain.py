"""Text from elsewhere, made fit to stand inside a sentence for people.

Evidence and slots may hold anything that somebody sent. What is not plain words is left
out rather than repaired: a sentence with its usual words beats one with a stranger's link.
"""

import re
import unicodedata
from collections.abc import Mapping

__all__ = ["clean_path", "clean_line", "clean_name", "readable_name", "clean_phrase"]

MAX_PHRASE_LENGTH = 80
MAX_NAME_LENGTH = 60
MAX_PATH_LENGTH = 120
MAX_LINE_LENGTH = 160

_JOINTS = frozenset(" ,'-&/()%+\N{RIGHT SINGLE QUOTATION MARK}\N{EN DASH}")
# Up to three words: more of them make a sentence.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?: [A-Za-z0-9_-]+){0,2}(?<![ _-])\Z")
# Five digits in a phrase, even with signs between them, can be somebody's number.
_NUMBER = re.compile(r"\d(?:[ ,'()/+-]*\d){4}")
# A word of this length with letters and digits may be a credential.
_TOKEN = re.compile(r"(?=\w*\d)(?=\w*[^\W\d])\w{9}")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?/[\w./@+ -]*\Z")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*\Z")
# Characters with a meaning in Markdown, HTML and templates.
_ACTIVE = str.maketrans(dict.fromkeys("[]<>*`#|\\{}~_", " "))
# Chat programs take a word with a dot inside for an address.
_ADDRESS_DOT = re.compile(r"(?<=\w)\.(?=\w*[^\W\d])|:(?=//)|(?<=\w)@(?=\w)")
_MAX_MARKS = 3


def clean_phrase(value: object, max_length: int = MAX_PHRASE_LENGTH) -> str | None:
    """Return a phrase in any script that cannot end the sentence it stands in, or None.

    Text that could be somebody's number or key is no phrase.
    """
    if not isinstance(value, str) or len(value) > max_length * 2:
        return None
    text = " ".join(unicodedata.normalize("NFC", value).split())
    if not 0 < len(text) <= max_length or not text[0].isalnum() or "//" in text:
        return None
    if _NUMBER.search(text) or _TOKEN.search(text):
        return None
    return text if all(map(_is_plain, text)) and not _is_piled(text) else None


def _is_plain(character: str) -> bool:
    return character in _JOINTS or unicodedata.category(character)[0] in "LMN"


def _is_piled(text: str) -> bool:
    """Return whether one letter has so many marks that they cover the lines around it."""
    marks = "".join("x" if unicodedata.category(c)[0] == "M" else " " for c in text)
    return "x" * (_MAX_MARKS + 1) in marks


def clean_name(value: object) -> str | None:
    """Return the name of a tool or the like, or None if it holds anything but its letters."""
    fits = isinstance(value, str) and len(value) <= MAX_NAME_LENGTH and _NAME.match(value)
    return str(value) if fits else None


def clean_path(value: object) -> str | None:
    """Return a path that begins like one, or None: other text could be an address."""
    if not isinstance(value, str) or len(value) > MAX_PATH_LENGTH or not value.isprintable():
        return None
    fits = _PATH.match(value) and "//" not in value and "www." not in value.casefold()
    return value if fits else None


def clean_line(value: object, max_length: int = MAX_LINE_LENGTH) -> str:
    """Return whatever is given as one line without markup or addresses; it may be empty."""
    # The text is cut first, so that a megabyte that is not shown costs no time.
    text = "".join(c if c.isprintable() else " " for c in str(value)[: max_length * 4])
    text = " ".join(_ADDRESS_DOT.sub(" ", text.translate(_ACTIVE)).split()).lstrip("-+=>. ")
    return text if len(text) <= max_length else f"{text[: max_length - 1].rstrip()}…"


def readable_name(value: object, known: Mapping[str, str], *, trusted: bool) -> str:
    """Return the readable name of a field or condition: `evidence.ticket_id` is a ticket id.

    Trusted text, such as a policy's own words, may be any line. Other text must be plain words,
    or the result is empty.
    """
    text = str(value).strip()
    if text in known:
        return known[text]
    if len(text) <= MAX_LINE_LENGTH and _FIELD.match(text):
        last = text.rpartition(".")[2]
        return known.get(last, " ".join(last.split("_")).strip())
    return clean_line(text) if trusted else clean_phrase(text) or ""
