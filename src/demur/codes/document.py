"""A registry file as it was written: read, checked field by field, not yet merged.

Structure is judged here (types, known fields, closed words); how entries stand
to each other is judged in `rules`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from demur.codes.fields import ENTRY_FIELDS, FILE_FIELDS, RegistryFieldError, show_value
from demur.errors import Problem, RegistryError
from demur.source.suggest import did_you_mean

__all__ = ["SCHEMA_VERSION", "RegistryDocument", "RegistryRow", "read_document"]

SCHEMA_VERSION = "reason_codes.v1"


class RegistryRow(NamedTuple):
    """One entry as written: its fields, and its place in the file."""

    where: str
    fields: Mapping[str, Any]

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


_CODE_KEY = re.compile(r'"code"\s*:\s*"([^"\\\n]*)"')


def _lines_of_codes(text: str) -> dict[str, list[int]]:
    """Return the line numbers of each `code`, for error messages."""
    lines: dict[str, list[int]] = {}
    line, position = 1, 0
    for found in _CODE_KEY.finditer(text):
        line += text.count("\n", position, found.start())
        position = found.start()
        lines.setdefault(found[1], []).append(line)
    return lines


class _RegistryReader:
    """Collects every problem of one file instead of stopping at the first."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.lines = _lines_of_codes(text)
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
            reader = ENTRY_FIELDS.get(name)
            if reader is None:
                self.report(f"{place}: {name}", "unknown field", did_you_mean(name, ENTRY_FIELDS))
                continue
            try:
                good[name] = reader(value)
            except RegistryFieldError as wrong:
                self.report(f"{place}: {name}", wrong.problem, wrong.help)
        return good


def read_document(source: Path | str, text: str | None = None) -> RegistryDocument:
    """Return the registry file at `source`, or the one in `text` if that is given.

    Raises:
        RegistryError: The file cannot be read, or a field is invalid.
    """
    where = str(source)
    if text is None:
        text = _read_file(where)
    reader = _RegistryReader(where, text)
    document = _build_document(reader, _parse_json(where, text))
    if reader.problems:
        raise RegistryError.from_problems(reader.problems)
    return document


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
                raise RegistryError(f"the key `{key}` stands twice in one object", where=place)
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
        shown = show_value(raw.get("schema_version"))
        raise RegistryError(
            f"unknown schema version {shown}",
            where=f"{where}: schema_version",
            help=f"this reads `{SCHEMA_VERSION}`",
        )
    known = ("schema_version", *FILE_FIELDS, "codes")
    for name in raw:
        if name not in known:
            reader.report(f"{where}: {name}", "unknown field", did_you_mean(name, known))
    head = _read_head(reader, raw)
    codes = raw.get("codes")
    if not isinstance(codes, list):
        reader.report(f"{where}: codes", f"must be a list of entries, not {show_value(codes)}")
        codes = []
    rows = tuple(
        row
        for index, item in enumerate(codes)
        if (row := _read_row(reader, index, item)) is not None
    )
    return RegistryDocument(where=where, rows=rows, **head)


def _read_head(reader: _RegistryReader, raw: Mapping[str, Any]) -> dict[str, Any]:
    head: dict[str, Any] = {}
    for name, read in FILE_FIELDS.items():
        given = raw.get(name, {} if name == "phrases" else None)
        try:
            head[name] = read(given)
        except RegistryFieldError as wrong:
            reader.report(f"{reader.where}: {name}", wrong.problem, wrong.help)
            head[name] = given
    return head


def _read_row(reader: _RegistryReader, index: int, item: object) -> RegistryRow | None:
    if not isinstance(item, dict):
        reader.report(
            f"{reader.where}: codes[{index}]", f"must be an object, not {show_value(item)}"
        )
        return None
    code = item.get("code")
    if not isinstance(code, str) or not code.strip():
        reader.report(f"{reader.where}: codes[{index}]", "an entry needs a `code`")
        return None
    place = reader.locate_entry(code)
    return RegistryRow(place, reader.check_fields(place, item))
