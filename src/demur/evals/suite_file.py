"""Files in the form `eval_suite.v1`: YAML with a header, or JSON lines under a header line.

YAML is for people and read as a whole; JSON lines are for any number of rows and read one by
one.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.errors import Problem
from demur.evals.suite_lines import open_lines, read_whole
from demur.evals.suite_row import FIELDS, Placed, SuiteError, read_row
from demur.source import Item, SourceError, read_source
from demur.source.suggest import did_you_mean

__all__ = ["HEADER", "NAME", "SCHEMA_VERSION", "Header", "Report", "read_json_lines", "read_yaml"]

SCHEMA_VERSION = "eval_suite.v1"
NAME = r"[a-z0-9][a-z0-9._-]{0,99}"
HEADER = ("schema_version", "name", "version", "description")

Report = Callable[[Problem], None]


class Header(NamedTuple):
    """Name, version and description of a suite."""

    name: str
    version: str
    description: str


def read_yaml(path: Path, report: Report) -> tuple[Header, Iterator[Placed]]:
    """Return header and rows of a YAML file; problems of rows are reported.

    Raises:
        SuiteError: The file is not YAML, or its header is invalid.
    """
    try:
        item = read_source(str(path), read_whole(path).decode("utf-8"))
    except SourceError as error:
        raise SuiteError.of(error.problems) from error
    if not isinstance(item.value, dict):
        raise SuiteError.of([Problem(item.where, "a suite is a mapping", _FORM)])
    fields = dict(item.value)
    rows = fields.pop("rows", None)
    plain = {name: child.plain for name, child in fields.items()}
    header = _header(plain, _places(item, HEADER))
    if rows is None or not isinstance(rows.value, list):
        where = item.where if rows is None else rows.where
        raise SuiteError.of([Problem(where, "`rows` is a list", "add the rows")])
    return header, _yaml_rows(rows.value, report)


def _yaml_rows(items: list[Item], report: Report) -> Iterator[Placed]:
    for item in items:
        if not isinstance(item.value, dict):
            report(Problem(item.where, "a row is a mapping", "like `{id: …, prompt: …}`"))
            continue
        row, problems = read_row(item.plain, _places(item, FIELDS))
        for problem in problems:
            report(problem)
        if row is not None:
            yield Placed(row, item.where)


def _places(item: Item, known: Collection[str]) -> Callable[[str | None], str]:
    """Return a function that locates the value of a known field, or the key of another."""

    def place(name: str | None) -> str:
        if name is None:
            return item.where
        found: str = item.value[name].where if name in known else item.keys[name]
        return found

    return place


def read_json_lines(path: Path, report: Report) -> tuple[Header, Iterator[Placed]]:
    """Return the header of a JSON lines file, and its rows, read lazily.

    Raises:
        SuiteError: The header is invalid.
    """
    lines = open_lines(path)
    first = next(lines, "")
    where = f"{path}:1"
    fields = _object(first, where, _raise)
    assert fields is not None
    header = _header(fields, lambda _name: where)
    return header, _json_rows(path, lines, report)


def _json_rows(path: Path, lines: Iterator[str], report: Report) -> Iterator[Placed]:
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        fields = _object(line, where, report)
        if fields is None:
            continue
        row, problems = read_row(fields, lambda _name, where=where: where)  # type: ignore[misc]
        for problem in problems:
            report(problem)
        if row is not None:
            yield Placed(row, where)


def _object(line: str, where: str, report: Report) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        bad = isinstance(error, UnicodeEncodeError)
        what = "not UTF-8 text" if bad else f"not JSON: {str(error).lower()}"
        help_text = "save the whole file as UTF-8" if bad else "write one JSON object per line"
        report(Problem(where, what, help_text))
        return None
    if not isinstance(value, dict):
        report(Problem(where, "the line is not a JSON object", "write one JSON object per line"))
        return None
    return value


def _raise(problem: Problem) -> None:
    raise SuiteError.of([problem])


_FORM = "begin with `schema_version: eval_suite.v1`, `name`, `version` and `rows`"


def _header(fields: Mapping[str, Any], place: Callable[[str | None], str]) -> Header:
    problems = list(_header_problems(fields, place))
    if problems:
        raise SuiteError.of(problems)
    return Header(fields["name"], fields["version"], fields.get("description", ""))


def _header_problems(
    fields: Mapping[str, Any], place: Callable[[str | None], str]
) -> Iterator[Problem]:
    for name in HEADER[:3]:
        if name not in fields:
            yield Problem(place(None), f"the header has no `{name}`", _FORM)
    for name, value in fields.items():
        if name not in HEADER:
            help_text = did_you_mean(name, (*HEADER, "rows")) or f"it has {', '.join(HEADER)}"
            yield Problem(place(name), f"unknown field `{name}` in the header", help_text)
        elif not isinstance(value, str):
            yield Problem(place(name), f"`{name}` must be a string, not `{value}`", "quote it")
        elif name == "schema_version" and value != SCHEMA_VERSION:
            problem = f"unknown schema version `{value}`"
            yield Problem(place(name), problem, f"this release reads {SCHEMA_VERSION}")
        elif name == "name" and not re.fullmatch(NAME, value):
            problem = f"`{value}` is not a valid suite name"
            yield Problem(place(name), problem, "use lower-case letters, digits, `-`, `_` and `.`")
