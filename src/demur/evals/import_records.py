"""Records of a public suite's file (CSV, JSON lines or a JSON list), and how they become rows.

A record that cannot be read is reported with its line, and reading continues.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from demur.errors import InputError, Problem
from demur.evals.suite_file import ReportProblem, open_lines, read_file
from demur.evals.suite_row import SuiteError


class TableRecord(NamedTuple):
    """The fields of one record, its place in the file, and its number from 1."""

    fields: dict[str, Any]
    where: str
    number: int


class RecordTable(NamedTuple):
    """The columns of a table, and its records, read lazily."""

    columns: frozenset[str]
    records: Iterator[TableRecord]


def read_table(path: Path, report: ReportProblem) -> RecordTable:
    """Return the table in the file at `path`.

    Raises:
        SuiteError: The file cannot be read, or holds no table.
    """
    first = next((line for line in open_lines(path) if line.strip()), "").lstrip()
    if not first:
        raise SuiteError.from_problems([Problem(str(path), "the file is empty")])
    if first.startswith("["):
        return _make_table(path, _read_json_list(path, report))
    if first.startswith("{"):
        return _make_table(path, _read_json_lines(path, report))
    return _read_csv(path, report)


def _make_table(path: Path, records: Iterator[TableRecord]) -> RecordTable:
    """Return the table whose columns are those of its first record."""
    first = next(records, None)
    if first is None:
        problem, help_text = (
            "the file holds no record",
            "write a list of objects, or one object per line",
        )
        raise SuiteError.from_problems([Problem(str(path), problem, help_text)])
    return RecordTable(frozenset(first.fields), _prepend_record(first, records))


def _prepend_record(first: TableRecord, others: Iterator[TableRecord]) -> Iterator[TableRecord]:
    yield first
    yield from others


def _read_json_list(path: Path, report: ReportProblem) -> Iterator[TableRecord]:
    raw = read_file(path)
    try:
        parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        problem = f"not JSON: {str(error).lower()}"
        raise SuiteError.from_problems([Problem(str(path), problem)]) from error
    start, line = 0, 1
    for number, part in enumerate(parts, start=1):
        text = bytes(part)
        # Only blanks and a comma separate two items, so the next hit is the item itself.
        found = raw.find(text, start)
        line += raw.count(b"\n", start, found)
        start = found
        yield from _decode_record(text, f"{path}:{line}", number, report)
        line += text.count(b"\n")
        start += len(text)


def _read_json_lines(path: Path, report: ReportProblem) -> Iterator[TableRecord]:
    number = 0
    for line_number, line in enumerate(open_lines(path), start=1):
        if line.strip():
            number += 1
            # Restore escaped bytes, so that the decoder reports them.
            raw = line.encode("utf-8", "surrogateescape")
            yield from _decode_record(raw, f"{path}:{line_number}", number, report)


def _decode_record(
    raw: bytes, where: str, number: int, report: ReportProblem
) -> Iterator[TableRecord]:
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        bad = isinstance(error, UnicodeDecodeError) or "utf-8" in str(error).lower()
        what = "not UTF-8 text" if bad else f"not JSON: {str(error).lower()}"
        report(Problem(where, what, "save the whole file as UTF-8" if bad else None))
        return
    if isinstance(fields, dict):
        yield TableRecord(fields, where, number)
    else:
        report(Problem(where, "the record is not a JSON object"))


def _read_csv(path: Path, report: ReportProblem) -> RecordTable:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(open_lines(path), delimiter=separator)
    header = [name.strip() for name in next(reader)]
    while not any(header):
        header = [name.strip() for name in next(reader)]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        problem = f"the column `{twice[0]}` appears twice"
        raise SuiteError.from_problems([Problem(f"{path}:{reader.line_num}", problem)])
    return RecordTable(frozenset(header), _read_csv_records(path, reader, header, report))


def _read_csv_records(
    path: Path, reader: Any, header: list[str], report: ReportProblem
) -> Iterator[TableRecord]:
    number = 0
    while True:
        where = f"{path}:{reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            report(Problem(where, f"not CSV: {error}", "is a quote left open?"))
            continue
        if not any(cells):
            continue
        number += 1
        if len(cells) == len(header):
            yield TableRecord(dict(zip(header, cells, strict=True)), where, number)
        else:
            problem = f"the row has {len(cells)} columns, the header {len(header)}"
            report(Problem(where, problem, "quote a text that holds a comma"))


Fields: TypeAlias = dict[str, Any]


class SkippedRecord(NamedTuple):
    """A sound record that is neither harmful nor legitimate, and the reason."""

    reason: str


class SuiteLayout(NamedTuple):
    """One form of a suite's files.

    `columns` are sets of columns, one of which a file must have. If several layouts fit, the
    first whose `words` occur in the file's name is used.
    """

    name: str
    title: str
    columns: tuple[frozenset[str], ...]
    read_record: Callable[[TableRecord], Fields | SkippedRecord]
    words: tuple[str, ...] = ()


def read_column(record: TableRecord, column: str) -> str:
    """Return the value of a column as text.

    Raises:
        InputError: The record has no such value.
    """
    value = record.fields.get(column)
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"the row has no `{column}`")


def make_row_id(prefix: str, record: TableRecord, column: str | None = None) -> str:
    """Return a row id: the suite's own id from a column, or the number of the record."""
    own = record.number if column is None else read_column(record, column)
    return f"{prefix}-{'-'.join(str(own).split())}"


def map_category(text: str, known: Mapping[str, str]) -> str:
    """Return demur's name for a suite's category, or the suite's own name in snake case."""
    plain = re.sub(r"[\W_]+", "_", text.strip().casefold()).strip("_")
    return known.get(plain, plain)
