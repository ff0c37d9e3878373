"""Fill the slots of a template with text that is safe to show.

Evidence and slots may hold anything that somebody sent. Text that is not plain words is left
out rather than repaired: a sentence with its default words is better than one with a stranger's
link.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from string import Formatter
from typing import Any

from demur.respond.template import Slot, SlotKind

MAX_PHRASE_LENGTH = 80
MAX_NAME_LENGTH = 60
MAX_PATH_LENGTH = 120
MAX_LINE_LENGTH = 160

_JOINTS = frozenset(" ,'-&/()%+\N{RIGHT SINGLE QUOTATION MARK}\N{EN DASH}")
# Signs that follow each other, or a blank on the wrong side of one, make no phrase.
_BROKEN = re.compile(r"[^\w\s)]{2}|\s[,')%\N{RIGHT SINGLE QUOTATION MARK}]|\(\s|[^\w\s)%]\Z")
# A single letter or number names nothing, but one character of Chinese can be a word.
_WORD = re.compile(r"[^\W\d_]{2}|[^\W\d_a-zA-Z\u00c0-\u024f\u0370-\u052f]")
# Up to three words: more of them make a sentence.
_NAME = re.compile(
    r"(?=.*[A-Za-z]{2})[A-Za-z0-9][A-Za-z0-9_-]*(?: [A-Za-z0-9_-]+){0,2}(?<![ _-])\Z"
)
# Five digits in a phrase, even with signs between them, can be somebody's number.
_NUMBER = re.compile(r"\d(?:[ ,'()/+-]*\d){4}")
# A word of this length with letters and digits may be a credential.
_TOKEN = re.compile(r"(?=\w*\d)(?=\w*[^\W\d])\w{9}")
# A root, a home or a row of dots is no path that a sentence can name.
_PATH = re.compile(r"(?=.*\w)(?:~|\.{1,2}|[A-Za-z]:)?(?:/[\w.@+-]+(?: [\w.@+-]+)*)+(?<!\.)/?\Z")
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
    kinds = "".join(unicodedata.category(character)[0] for character in text)
    plain = all(kind in "LMN" or c in _JOINTS for kind, c in zip(kinds, text, strict=True))
    bare = "".join(c for kind, c in zip(kinds, text, strict=True) if kind != "M")
    if _BROKEN.search(bare) or not _WORD.search(bare) or bare.count("(") != bare.count(")"):
        return None
    # More marks on one letter would cover the lines around it.
    return text if plain and "M" * (_MAX_MARKS + 1) not in kinds else None


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


_MINUTE = 60
_HOUR = 3600
# Up to one and a half of the next unit, the smaller unit is clearer.
_SHORT = 1.5
_MAX_WAIT = 30 * 24 * _HOUR


def slot_names(text: str) -> Iterator[str]:
    """Yield the slots in a text.

    Raises:
        ValueError: A brace is open, or a slot is more than a name.
    """
    for _, slot, form, conversion in Formatter().parse(text):
        if slot is not None:
            if not slot.isidentifier() or form or conversion:
                raise ValueError(f"`{{{slot}}}` is no slot")
            yield slot


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its slots filled."""
    return text.format_map(values)


def fill_slot(
    slot: Slot, given: object, evidence: Mapping[str, Any], phrases: Mapping[str, str]
) -> str | None:
    """Return the text for a slot, or None if neither the caller nor evidence has a usable one."""
    from_evidence = None if slot.evidence is None else evidence.get(slot.evidence)
    # INVARIANT: a slot holds text that a sentence can hold, or else its default.
    candidates = (_fit_value(slot, value, phrases) for value in (given, from_evidence))
    return next((text for text in candidates if text is not None), None)


def _fit_value(slot: Slot, value: object, phrases: Mapping[str, str]) -> str | None:
    if slot.kind is SlotKind.DURATION:
        return _format_duration(value, phrases)
    if slot.kind is SlotKind.PATH:
        return clean_path(value)
    if slot.kind is SlotKind.CHOICE:
        return _choose_word(slot.words, value)
    return clean_name(value) if slot.kind is SlotKind.NAME else clean_phrase(value)


_LANGUAGE_LENGTH = 2


def _choose_word(words: Mapping[str, str], value: object) -> str | None:
    """Return the word for a value, or for the longest start of it: `SPY_PHONE` also finds `SPY`."""
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH:
        return None
    parts = value.split("_")
    # A rule for one language may begin with it: `NL_SPY` also finds `SPY`.
    begins = (0, 1) if len(parts[0]) == _LANGUAGE_LENGTH else (0,)
    starts = ("_".join(parts[i:end]) for i in begins for end in range(len(parts), i, -1))
    return next((words[start] for start in starts if start in words), None)


def _format_duration(value: object, phrases: Mapping[str, str]) -> str | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    # Written so that NaN is rejected as well.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MAX_WAIT:
        return None
    unit, size = "second", 1
    for longer, length in (("minute", _MINUTE), ("hour", _HOUR)):
        if value > length * _SHORT:
            unit, size = longer, length
    count = math.ceil(value / size)
    return phrases[unit if count == 1 else f"{unit}s"].replace("{n}", str(count))


_MAX_HELP_LINE = 200
_MAX_HELP_LINES = 8
# Markup is removed; addresses and numbers stay.
_MARKUP = str.maketrans(dict.fromkeys("[]<>`|\\{}", " "))


def format_help_line(resource: Any) -> str:
    """Return a help resource as one line; empty if it names none."""
    if isinstance(resource, Mapping):
        country = resource.get("country")
        place = f" ({country})" if country else ""
        resource = f"{resource.get('name', '')}{place}: {resource.get('contact', '')}"
    if not isinstance(resource, str):
        return ""
    text = "".join(c if c.isprintable() else " " for c in resource[: _MAX_HELP_LINE * 2])
    return " ".join(text.translate(_MARKUP).split())[:_MAX_HELP_LINE].strip(": ")


def choose_help_lines(named: Iterable[Any], usual: Iterable[Any]) -> tuple[str, ...]:
    """Return the lines that were named, each once, or else the usual ones."""
    found = dict.fromkeys(line for line in map(format_help_line, named) if line)
    return tuple(found)[:_MAX_HELP_LINES] or tuple(map(format_help_line, usual))
