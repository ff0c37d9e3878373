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

__all__ = ["ENTRY_FIELDS", "FILE_FIELDS", "RegistryFieldError", "show_value"]

# `int` rejects numbers of thousands of digits.
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){2}\Z")


class RegistryFieldError(Exception):
    """Why the value of a field cannot be used."""

    def __init__(self, problem: str, help_text: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.help = help_text


def show_value(value: object) -> str:
    """Return `value` as JSON in backticks, at most 60 characters long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{text if len(text) <= 60 else text[:59] + '…'}`"


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RegistryFieldError(f"must be a non-empty string, not {show_value(value)}")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise RegistryFieldError("contains a lone surrogate, which no file can hold")
    return value


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise RegistryFieldError(f"must be true or false, not {show_value(value)}")
    return value


def _read_status(value: object) -> int:
    if not isinstance(value, int) or not 200 <= value <= 599:
        raise RegistryFieldError(f"must be an HTTP status from 200 to 599, not {show_value(value)}")
    return value


def _read_version(value: object) -> str:
    if not isinstance(value, str) or not _VERSION.match(value):
        raise RegistryFieldError(f"must be a version like `1.0.0`, not {show_value(value)}")
    return value


def _word_reader(words: type[StrEnum]) -> Callable[[object], StrEnum]:
    known = [str(word) for word in words]

    def read(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else None
            raise RegistryFieldError(
                f"unknown value {show_value(value)}", hint or f"one of {', '.join(known)}"
            )
        return words(value)

    return read


def _optional_reader(read: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else read(value)


def _list_reader(read: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise RegistryFieldError(f"must be a list, not {show_value(value)}")
        items = tuple(read(item) for item in value)
        if len(set(items)) < len(items):
            raise RegistryFieldError("lists the same value twice")
        return items

    return read_all


def _object_reader(read: Callable[[object], Any]) -> Callable[[object], dict[str, Any]]:
    def read_all(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise RegistryFieldError(f"must be an object, not {show_value(value)}")
        return {_read_text(key): read(item) for key, item in value.items()}

    return read_all


def _read_examples(value: object) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = _object_reader(_list_reader(_read_text))(value)
    if extra := sorted(rows.keys() - {"refuse", "allow"}):
        raise RegistryFieldError(f"unknown kind of example `{extra[0]}`", "one of refuse, allow")
    if both := sorted(set(rows.get("refuse", ())) & set(rows.get("allow", ()))):
        raise RegistryFieldError(f"{show_value(both[0])} is both to refuse and to allow")
    return rows


ENTRY_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "code": _read_text,
    "family": _read_text,
    "title": _read_text,
    "description": _read_text,
    "effect": _word_reader(Effect),
    "refusal_class": _optional_reader(_word_reader(RefusalClass)),
    "severity": _word_reader(Severity),
    "advice": _optional_reader(_word_reader(Advice)),
    "retry_scope": _optional_reader(_word_reader(RetryScope)),
    "decided": _read_flag,
    "parent": _optional_reader(_read_text),
    "grants": _list_reader(_word_reader(GrantKind)),
    "obligations": _list_reader(_word_reader(Obligation)),
    "surfaces": _list_reader(_word_reader(Surface)),
    "http": _read_status,
    "since": _read_version,
    "stability": _word_reader(Stability),
    "deprecated": _read_flag,
    "deprecated_since": _optional_reader(_read_version),
    "replacement": _optional_reader(_read_text),
    "aliases": _list_reader(_read_text),
    "evidence": _object_reader(_read_text),
    "xref": _object_reader(_list_reader(_read_text)),
    "examples": _read_examples,
}
assert tuple(ENTRY_FIELDS) == Entry._fields

FILE_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "version": _read_version,
    "domain": _optional_reader(_read_text),
    "min_core": _optional_reader(_read_version),
    "phrases": _object_reader(_read_text),
}
