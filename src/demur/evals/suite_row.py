"""One row of a suite: a request, its label, and its classification.

Every file format passes a row as plain fields to `read_row`, so that a mistake gets the same
message in all of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from demur.errors import ManyProblemsError, Problem
from demur.source.suggest import did_you_mean

__all__ = [
    "FIELDS",
    "LABELS",
    "LANGUAGE",
    "LONGEST_PROMPT",
    "PATTERNS",
    "Label",
    "Pattern",
    "Placed",
    "Row",
    "SuiteError",
    "read_row",
]

Label: TypeAlias = Literal["harmful", "legitimate"]
Pattern: TypeAlias = Literal[
    "keyword_triggering", "context_blindness", "paranoid_interpretation", "scope_expansion"
]
LABELS: tuple[str, ...] = get_args(Label)
PATTERNS: tuple[str, ...] = get_args(Pattern)
LANGUAGE = r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"
# The longest prompt that models accept; more is probably a file in the wrong column.
LONGEST_PROMPT = 200_000

_NEEDED = ("id", "prompt", "label")
_LONGEST_NAME = 200
# Other suites' words for the two labels.
_OTHER_WORDS = {
    "harmful": ("unsafe", "toxic", "malicious", "attack", "bad", "1", "true"),
    "legitimate": ("safe", "benign", "harmless", "good", "allowed", "0", "false"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class SuiteError(ManyProblemsError):
    """A suite that cannot be used; `problems` lists every problem."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its label: a `harmful` one should be refused, a `legitimate` one answered.

    `category` names the harm that is intended, or that a legitimate request is mistaken for.
    `pattern` names the kind of mistake. `twin` is the similar row with the other label.
    """

    id: str
    prompt: str
    label: Label
    category: str = ""
    pattern: Pattern | None = None
    domain: str = ""
    language: str = "en"
    twin: str | None = None
    source: str = ""


class Placed(NamedTuple):
    """A row and its place in the file, for messages about repeated ids and twins."""

    row: Row
    where: str


FIELDS: tuple[str, ...] = Row.__struct_fields__


def read_row(
    fields: Mapping[str, Any], place: Callable[[str | None], str]
) -> tuple[Row | None, list[Problem]]:
    """Return the row made of `fields`, or None and the problems.

    `place` returns the place of a field, or, for None, of the row.
    """
    problems = [*_missing(fields, place), *_wrong(fields, place)]
    return (None if problems else Row(**fields)), problems


def _missing(fields: Mapping[str, Any], place: Callable[[str | None], str]) -> Iterator[Problem]:
    for name in _NEEDED:
        if name not in fields:
            unknown = [other for other in fields if other not in FIELDS]
            near = did_you_mean(name, unknown)
            help_text = f"{near[:-1]}, called `{name}` here?" if near else _WANTED[name]
            yield Problem(place(None), f"the row has no `{name}`", help_text)


def _wrong(fields: Mapping[str, Any], place: Callable[[str | None], str]) -> Iterator[Problem]:
    for name, value in fields.items():
        if name not in FIELDS:
            help_text = did_you_mean(name, FIELDS) or f"a row has {', '.join(FIELDS)}"
            yield Problem(place(name), f"unknown field `{_short(name)}`", help_text)
        elif value is None and name in {"pattern", "twin"}:
            continue
        elif not isinstance(value, str):
            found = f"`{name}` must be a string, not `{_short(str(value))}`"
            yield Problem(place(name), found, "quote it")
        elif _SURROGATE.search(value):
            help_text = "save the whole file as UTF-8"
            yield Problem(place(name), f"`{name}` is not UTF-8 text", help_text)
        else:
            problem = _CHECKS[name](value)
            if problem is not None:
                yield Problem(place(name), *problem)


_Said: TypeAlias = tuple[str, str | None] | None


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _prompt(value: str) -> _Said:
    if not value.strip():
        return "the prompt is empty", "write the request"
    if len(value) > LONGEST_PROMPT:
        return f"the prompt has {len(value)} characters", f"at most {LONGEST_PROMPT}"
    return None


def _name(value: str) -> _Said:
    if value and value.isprintable() and " " not in value and len(value) <= _LONGEST_NAME:
        return None
    help_text = f"up to {_LONGEST_NAME} characters without spaces, like `kill-process`"
    return f"`{_short(value)}` is not a valid id", help_text


def _label(value: str) -> _Said:
    if value in LABELS:
        return None
    for label, words in _OTHER_WORDS.items():
        if value.strip().casefold() in words:
            return f"unknown label `{value}`", f"write `{label}`"
    near = did_you_mean(value, LABELS)
    return f"unknown label `{_short(value)}`", near or _WANTED["label"]


def _pattern(value: str) -> _Said:
    if value in PATTERNS:
        return None
    near = did_you_mean(value, PATTERNS)
    return f"unknown pattern `{_short(value)}`", near or f"one of {', '.join(PATTERNS)}"


def _language(value: str) -> _Said:
    if re.fullmatch(LANGUAGE, value):
        return None
    return f"`{_short(value)}` is not a language tag", "write one like `en` or `pt-BR`"


def _word(value: str) -> _Said:
    if value.isprintable() and len(value) <= _LONGEST_NAME:
        return None
    return f"`{_short(value)}` is too long or not printable", "use a short name"


_WANTED = {
    "id": "add a name that is unique in the suite",
    "prompt": "add the request to the model",
    "label": "write `harmful` (to be refused) or `legitimate` (to be answered)",
}
_CHECKS: dict[str, Callable[[str], _Said]] = {
    "id": _name,
    "prompt": _prompt,
    "label": _label,
    "category": _word,
    "pattern": _pattern,
    "domain": _word,
    "language": _language,
    "twin": _name,
    "source": _word,
}
