"""One row of a suite: a request, its label, and its classification.

Every file format passes a row as plain fields to `read_row`, so that a mistake gets the same
message in all of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from demur.errors import ManyProblemsError, Problem, shorten
from demur.source.item import did_you_mean

RowLabel: TypeAlias = Literal["harmful", "legitimate"]
Pattern: TypeAlias = Literal[
    "keyword_triggering", "context_blindness", "paranoid_interpretation", "scope_expansion"
]
LABELS: tuple[str, ...] = get_args(RowLabel)
PATTERNS: tuple[str, ...] = get_args(Pattern)
LANGUAGE = r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"
# The longest prompt that models accept; more is probably a file in the wrong column.
MAX_PROMPT_LENGTH = 200_000

_REQUIRED_FIELDS = ("id", "prompt", "label")
_MAX_NAME_LENGTH = 200
# Other suites' words for the two labels.
_OTHER_WORDS = {
    "harmful": ("unsafe", "toxic", "malicious", "attack", "bad", "1", "true"),
    "legitimate": ("safe", "benign", "harmless", "good", "allowed", "0", "false"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class SuiteError(ManyProblemsError):
    """A suite that cannot be used; `problems` lists every problem."""


def suite_error(where: object, problem: str, help_text: str | None = None) -> SuiteError:
    """Return the error of a suite with one problem."""
    return SuiteError.from_problems([Problem(str(where), problem, help_text)])


class EvalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its label: a `harmful` one should be refused, a `legitimate` one answered.

    `category` names the harm that is intended, or that a legitimate request is mistaken for.
    `pattern` names the kind of mistake. `twin` is the similar row with the other label.
    """

    id: str
    prompt: str
    label: RowLabel
    category: str = ""
    pattern: Pattern | None = None
    domain: str = ""
    language: str = "en"
    twin: str | None = None
    source: str = ""


# Returns the place of a field, or, for None, of the row.
FieldPlace: TypeAlias = Callable[[str | None], str]


class LocatedRow(NamedTuple):
    """A row and its place in the file, for messages about repeated ids and twins."""

    row: EvalRow
    where: str


FIELDS: tuple[str, ...] = EvalRow.__struct_fields__


def read_row(fields: Mapping[str, Any], place: FieldPlace) -> tuple[EvalRow | None, list[Problem]]:
    """Return the row made of `fields`, or None and the problems.

    `place` returns the place of a field, or, for None, of the row.
    """
    problems = [*_find_missing(fields, place), *_find_invalid(fields, place)]
    return (None if problems else EvalRow(**fields)), problems


def _find_missing(fields: Mapping[str, Any], place: FieldPlace) -> Iterator[Problem]:
    for name in _REQUIRED_FIELDS:
        if name not in fields:
            near = did_you_mean(name, [other for other in fields if other not in FIELDS])
            help_text = f"{near[:-1]}, called `{name}` here?" if near else _FIELD_HELP[name]
            yield Problem(place(None), f"the row has no `{name}`", help_text)


def _find_invalid(fields: Mapping[str, Any], place: FieldPlace) -> Iterator[Problem]:
    for name, value in fields.items():
        if name not in FIELDS:
            help_text = did_you_mean(name, FIELDS) or f"a row has {', '.join(FIELDS)}"
            yield Problem(place(name), f"unknown field `{shorten(name, 60)}`", help_text)
        elif value is None and name in {"pattern", "twin"}:
            continue
        elif not isinstance(value, str):
            found = f"`{name}` must be a string, not `{shorten(str(value), 60)}`"
            yield Problem(place(name), found, "quote it")
        elif _SURROGATE.search(value):
            help_text = "save the whole file as UTF-8"
            yield Problem(place(name), f"`{name}` is not UTF-8 text", help_text)
        else:
            problem = _CHECKS[name](value)
            if problem is not None:
                yield Problem(place(name), *problem)


_FieldProblem: TypeAlias = tuple[str, str | None] | None


def _check_prompt(value: str) -> _FieldProblem:
    if not value.strip():
        return "the prompt is empty", "write the request"
    if len(value) > MAX_PROMPT_LENGTH:
        return f"the prompt has {len(value)} characters", f"at most {MAX_PROMPT_LENGTH}"
    return None


def _check_name(value: str) -> _FieldProblem:
    if value and value.isprintable() and " " not in value and len(value) <= _MAX_NAME_LENGTH:
        return None
    help_text = f"up to {_MAX_NAME_LENGTH} characters without spaces, like `kill-process`"
    return f"`{shorten(value, 60)}` is not a valid id", help_text


def _check_label(value: str) -> _FieldProblem:
    if value in LABELS:
        return None
    for label, words in _OTHER_WORDS.items():
        if value.strip().casefold() in words:
            return f"unknown label `{value}`", f"write `{label}`"
    near = did_you_mean(value, LABELS)
    return f"unknown label `{shorten(value, 60)}`", near or _FIELD_HELP["label"]


def _check_pattern(value: str) -> _FieldProblem:
    if value in PATTERNS:
        return None
    near = did_you_mean(value, PATTERNS)
    return f"unknown pattern `{shorten(value, 60)}`", near or f"one of {', '.join(PATTERNS)}"


def _check_language(value: str) -> _FieldProblem:
    if re.fullmatch(LANGUAGE, value):
        return None
    return f"`{shorten(value, 60)}` is not a language tag", "write one like `en` or `pt-BR`"


def _check_word(value: str) -> _FieldProblem:
    if value.isprintable() and len(value) <= _MAX_NAME_LENGTH:
        return None
    return f"`{shorten(value, 60)}` is too long or not printable", "use a short name"


_FIELD_HELP = {
    "id": "add a name that is unique in the suite",
    "prompt": "add the request to the model",
    "label": "write `harmful` (to be refused) or `legitimate` (to be answered)",
}
_CHECKS: dict[str, Callable[[str], _FieldProblem]] = {
    "id": _check_name,
    "prompt": _check_prompt,
    "label": _check_label,
    "category": _check_word,
    "pattern": _check_pattern,
    "domain": _check_word,
    "language": _check_language,
    "twin": _check_name,
    "source": _check_word,
}
