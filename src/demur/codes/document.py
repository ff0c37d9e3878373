"""Read a registry file and check it field by field.

This module checks structure: types, known fields and closed vocabularies. `registry` merges
files and checks how entries relate to each other.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

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
from demur.errors import Problem, RegistryError
from demur.source.item import did_you_mean

SCHEMA_VERSION = "reason_codes.v1"
# `int` rejects numbers of thousands of digits.
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){2}\Z")

_Read = Callable[[object], Any]


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


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RegistryFieldError(f"must be a non-empty string, not {show_value(value)}")
    if _LONE_SURROGATE.search(value):
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


def _word_reader(words: type[StrEnum]) -> _Read:
    known = [str(word) for word in words]

    def read(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else None
            hint = hint or f"one of {', '.join(known)}"
            raise RegistryFieldError(f"unknown value {show_value(value)}", hint)
        return words(value)

    return read


def _optional_reader(read: _Read) -> _Read:
    return lambda value: None if value is None else read(value)


def _list_reader(read: _Read) -> _Read:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise RegistryFieldError(f"must be a list, not {show_value(value)}")
        items = tuple(read(item) for item in value)
        if len(set(items)) < len(items):
            raise RegistryFieldError("lists the same value twice")
        return items

    return read_all


def _object_reader(read: _Read) -> _Read:
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


ENTRY_FIELDS: Mapping[str, _Read] = {
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
FILE_FIELDS: Mapping[str, _Read] = {
    "version": _read_version,
    "domain": _optional_reader(_read_text),
    "min_core": _optional_reader(_read_version),
    "phrases": _object_reader(_read_text),
}


# These stand for values that were reported, so that the rest of the file can be checked.
_UNREAD_HEAD: Mapping[str, Any] = {
    "version": "0.0.0",
    "domain": None,
    "min_core": None,
    "phrases": {},
}


class RegistryRow(NamedTuple):
    """One entry as written: its fields, and its place in the file.

    `unread` names the fields whose value was reported and is not among `fields`.
    """

    where: str
    fields: Mapping[str, Any]
    unread: frozenset[str] = frozenset()

    @property
    def code(self) -> str:
        """The registered code."""
        return str(self.fields["code"])


class RegistryDocument(NamedTuple):
    """One registry file. `domain` is None for the core."""

    where: str
    version: str
    domain: str | None
    min_core: str | None
    phrases: Mapping[str, str]
    rows: tuple[RegistryRow, ...]


class DocumentReading(NamedTuple):
    """What could be read of a file, and all problems that were found in it on the way."""

    document: RegistryDocument | None
    problems: tuple[Problem, ...]


_CODE_KEY = re.compile(r'"code"\s*:\s*"([^"\\\n]*)"')


class _RegistryReader:
    """Collects every problem of one file instead of stopping at the first."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        lines: dict[str, list[int]] = {}
        line, position = 1, 0
        for found in _CODE_KEY.finditer(text):
            line += text.count("\n", position, found.start())
            position = found.start()
            lines.setdefault(found[1], []).append(line)
        self.lines = lines
        self.problems: list[Problem] = []

    def report(self, place: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(place, problem, help_text))

    def locate_entry(self, code: str) -> str:
        """Return `file:line: code` of the next entry of `code`, or `file: code`."""
        lines = self.lines.get(code)
        return f"{self.where}:{lines.pop(0)}: {code}" if lines else f"{self.where}: {code}"

    def check_fields(self, place: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all well-formed fields, and report the others."""
        good: dict[str, Any] = {}
        for name, value in fields.items():
            read = ENTRY_FIELDS.get(name)
            if read is None:
                self.report(f"{place}: {name}", "unknown field", did_you_mean(name, ENTRY_FIELDS))
                continue
            try:
                good[name] = read(value)
            except RegistryFieldError as wrong:
                self.report(f"{place}: {name}", wrong.problem, wrong.help)
        return good


def read_document(source: Path | str, text: str | None = None) -> RegistryDocument:
    """Return the registry file at `source`, or the one in `text` if that is given.

    Raises:
        RegistryError: demur cannot read the file, or a field is invalid.
    """
    document, problems = scan_document(source, text)
    if document is None or problems:
        raise RegistryError.from_problems(problems)
    return document


def scan_document(source: Path | str, text: str | None = None) -> DocumentReading:
    """Return what can be read of a registry file, so that its entries can be checked as well."""
    where = str(source)
    try:
        text = _read_file(where) if text is None else text
        reader = _RegistryReader(where, text)
        document = _build_document(reader, _parse_json(where, text))
    except RegistryError as error:
        return DocumentReading(None, error.problems)
    return DocumentReading(document, tuple(reader.problems))


def _read_file(where: str) -> str:
    try:
        return Path(where).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RegistryError("cannot read the registry: not UTF-8 text", where=where) from error
    # A path with a NUL or a lone surrogate raises ValueError, not OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise RegistryError(f"cannot read the registry: {reason}", where=where) from error


def _parse_json(where: str, text: str) -> object:
    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in pairs:
            if key in fields:
                place = _RegistryReader(where, text).locate_entry(str(fields.get("code", key)))
                raise RegistryError(f"the key `{key}` appears twice in one object", where=place)
            fields[key] = value
        return fields

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise RegistryError(f"not JSON: {error.msg.lower()}", where=place) from error
    except RecursionError as error:
        raise RegistryError("not a registry: nested too deep", where=where) from error
    except RegistryError:
        raise
    # The only other ValueError that `json.loads` raises.
    except ValueError as error:
        raise RegistryError("not a registry: a number has too many digits", where=where) from error


def _build_document(reader: _RegistryReader, raw: object) -> RegistryDocument:
    where = reader.where
    if not isinstance(raw, dict):
        raise RegistryError("a registry is a JSON object", where=where)
    if raw.get("schema_version") != SCHEMA_VERSION:
        problem = f"unknown schema version {show_value(raw.get('schema_version'))}"
        help_text = f"this reads `{SCHEMA_VERSION}`"
        raise RegistryError(problem, where=f"{where}: schema_version", help=help_text)
    known = ("schema_version", *FILE_FIELDS, "codes")
    for name in raw:
        if name not in known:
            reader.report(f"{where}: {name}", "unknown field", did_you_mean(name, known))
    head: dict[str, Any] = {}
    for name, read in FILE_FIELDS.items():
        head[name] = raw.get(name, {} if name == "phrases" else None)
        try:
            head[name] = read(head[name])
        except RegistryFieldError as wrong:
            reader.report(f"{where}: {name}", wrong.problem, wrong.help)
            head[name] = _UNREAD_HEAD[name]
    codes = raw.get("codes")
    if not isinstance(codes, list):
        reader.report(f"{where}: codes", f"must be a list of entries, not {show_value(codes)}")
        codes = []
    rows = (_read_row(reader, index, item) for index, item in enumerate(codes))
    return RegistryDocument(where=where, rows=tuple(filter(None, rows)), **head)


def _read_row(reader: _RegistryReader, index: int, item: object) -> RegistryRow | None:
    place = f"{reader.where}: codes[{index}]"
    if not isinstance(item, dict):
        reader.report(place, f"must be an object, not {show_value(item)}")
        return None
    code = item.get("code")
    if not isinstance(code, str) or not code.strip():
        reader.report(place, "an entry needs a `code`")
        return None
    place = reader.locate_entry(code)
    fields = reader.check_fields(place, item)
    return RegistryRow(place, fields, frozenset(item.keys() & ENTRY_FIELDS.keys() - fields.keys()))
