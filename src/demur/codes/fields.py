"""The fields of a registry entry: how each is read and checked."""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from demur.codes.entry import Entry
from demur.codes.vocabulary import (
    Advice,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
)
from demur.source.suggest import did_you_mean

__all__ = ["ENTRY_FIELDS", "FILE_FIELDS", "FieldError", "show"]

# `int` rejects numbers of thousands of digits.
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){2}\Z")


class FieldError(Exception):
    """Why the value of a field cannot be used."""

    def __init__(self, problem: str, help_text: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.help = help_text


def show(value: object) -> str:
    """Return `value` as JSON in backticks, at most 60 characters long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{text if len(text) <= 60 else text[:59] + '…'}`"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"must be a non-empty string, not {show(value)}")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise FieldError("contains a lone surrogate, which no file can hold")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise FieldError(f"must be true or false, not {show(value)}")
    return value


def _http(value: object) -> int:
    if not isinstance(value, int) or not 200 <= value <= 599:
        raise FieldError(f"must be an HTTP status from 200 to 599, not {show(value)}")
    return value


def _version(value: object) -> str:
    if not isinstance(value, str) or not _VERSION.match(value):
        raise FieldError(f"must be a version like `1.0.0`, not {show(value)}")
    return value


def _word(words: type[StrEnum]) -> Callable[[object], StrEnum]:
    known = [str(word) for word in words]

    def read(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else None
            raise FieldError(f"unknown value {show(value)}", hint or f"one of {', '.join(known)}")
        return words(value)

    return read


def _optional(read: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else read(value)


def _list(read: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise FieldError(f"must be a list, not {show(value)}")
        items = tuple(read(item) for item in value)
        if len(set(items)) < len(items):
            raise FieldError("lists the same value twice")
        return items

    return read_all


def _object(read: Callable[[object], Any]) -> Callable[[object], dict[str, Any]]:
    def read_all(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise FieldError(f"must be an object, not {show(value)}")
        return {_text(key): read(item) for key, item in value.items()}

    return read_all


def _examples(value: object) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = _object(_list(_text))(value)
    if extra := sorted(rows.keys() - {"refuse", "allow"}):
        raise FieldError(f"unknown kind of example `{extra[0]}`", "one of refuse, allow")
    if both := sorted(set(rows.get("refuse", ())) & set(rows.get("allow", ()))):
        raise FieldError(f"{show(both[0])} is both to refuse and to allow")
    return rows


ENTRY_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "code": _text,
    "family": _text,
    "title": _text,
    "description": _text,
    "effect": _word(Effect),
    "refusal_class": _optional(_word(RefusalClass)),
    "severity": _word(Severity),
    "advice": _optional(_word(Advice)),
    "retry_scope": _optional(_word(RetryScope)),
    "decided": _flag,
    "parent": _optional(_text),
    "grants": _list(_word(GrantKind)),
    "obligations": _list(_word(Obligation)),
    "surfaces": _list(_word(Surface)),
    "http": _http,
    "since": _version,
    "stability": _word(Stability),
    "deprecated": _flag,
    "deprecated_since": _optional(_version),
    "replacement": _optional(_text),
    "aliases": _list(_text),
    "evidence": _object(_text),
    "xref": _object(_list(_text)),
    "examples": _examples,
}
assert tuple(ENTRY_FIELDS) == Entry._fields

FILE_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "version": _version,
    "domain": _optional(_text),
    "min_core": _optional(_version),
    "phrases": _object(_text),
}
