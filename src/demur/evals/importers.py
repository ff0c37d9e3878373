"""Import public suites: recognise a file by its columns, and convert its records to rows.

A file is CSV, JSON lines or a JSON list. `import_layouts.yaml` describes the layout of each suite,
where its columns are known from, and the rule by which a record is labelled. A record that cannot
be read is reported with its line, and reading continues.
"""

import csv
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from demur.errors import InputError, Problem
from demur.evals.suite_file import ReportProblem, convert_row, open_lines, read_file
from demur.evals.suite_row import LocatedRow, suite_error
from demur.source.item import did_you_mean


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
        raise suite_error(path, "the file is empty")
    if first.startswith("["):
        return _make_table(path, _read_json_list(path, report))
    if first.startswith("{"):
        return _make_table(path, _read_json_lines(path, report))
    return _read_csv(path, report)


def _make_table(path: Path, records: Iterator[TableRecord]) -> RecordTable:
    """Return the table whose columns are those of its first record."""
    first = next(records, None)
    if first is None:
        help_text = "write a list of objects, or one object per line"
        raise suite_error(path, "the file holds no record", help_text)
    return RecordTable(frozenset(first.fields), chain([first], records))


def _read_json_list(path: Path, report: ReportProblem) -> Iterator[TableRecord]:
    raw = read_file(path)
    try:
        parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise suite_error(path, f"not JSON: {str(error).lower()}") from error
    start, line = 0, 1
    for number, part in enumerate(parts, start=1):
        text = bytes(part)
        # Only blanks and a comma separate two items, so the next hit is the item itself.
        found = raw.find(text, start)
        line += raw.count(b"\n", start, found)
        start = found
        yield from _decode(text, f"{path}:{line}", number, report)
        line += text.count(b"\n")
        start += len(text)


def _read_json_lines(path: Path, report: ReportProblem) -> Iterator[TableRecord]:
    number = 0
    for line_number, line in enumerate(open_lines(path), start=1):
        if line.strip():
            number += 1
            # Restore escaped bytes, so that the decoder reports them.
            raw = line.encode("utf-8", "surrogateescape")
            yield from _decode(raw, f"{path}:{line_number}", number, report)


def _decode(raw: bytes, where: str, number: int, report: ReportProblem) -> Iterator[TableRecord]:
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
        raise suite_error(f"{path}:{reader.line_num}", f"the column `{twice[0]}` appears twice")
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


class ColumnWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A field of a row that is read from a column and translated by `words`.

    With `contains`, the first word that occurs in the column's text counts. A record without
    the column has the `default`.
    """

    column: str
    words: dict[str, str | None] = {}
    contains: bool = False
    default: str = ""
    drop_prefix: str = ""

    def translate(self, record: TableRecord) -> str | None:
        """Return the word for a record, or None if it has none.

        Raises:
            InputError: The text of the column is missing or unknown.
        """
        text = self.default
        if not text or record.fields.get(self.column) not in {None, ""}:
            text = read_column(record, self.column)
        text = text.strip().casefold()
        if self.contains:
            return next((to for word, to in self.words.items() if word in text), None)
        if text not in self.words:
            *others, last = (f"`{word}`" for word in self.words)
            raise InputError(f"`{self.column}` must be {', '.join(others)} or {last}, not `{text}`")
        return self.words[text]

    def categorise(self, record: TableRecord) -> str:
        """Return demur's name for a category, or the suite's own name in snake case."""
        text = read_column(record, self.column).strip().casefold()
        name = re.sub(r"[\W_]+", "_", text).strip("_").removeprefix(self.drop_prefix)
        return self.words.get(name) or name


class SuiteLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One form of a suite's files; `import_layouts.yaml` says what the fields mean."""

    name: str
    title: str
    columns: tuple[frozenset[str], ...]
    prompt: tuple[str, ...]
    label: str | ColumnWords
    words: tuple[str, ...] = ()
    prefix: str = ""
    id: str = ""
    context: str = ""
    category: str | ColumnWords = ""
    domain: str = ""
    language: str | ColumnWords = "en"
    patterns: dict[str, str] = {}
    skip: str = ""

    def read_record(self, record: TableRecord) -> dict[str, Any] | None:
        """Return the fields of a row, or None if the record is to be skipped.

        Raises:
            InputError: A column is missing, or its value is unknown.
        """
        label = _translate(self.label, record)
        if label is None:
            return None
        column = next((name for name in self.prompt if name in record.fields), self.prompt[0])
        prompt = read_column(record, column)
        context = str(record.fields.get(self.context) or "").strip()
        category = self.category
        if isinstance(category, ColumnWords):
            category = category.categorise(record)
        own: object = record.number
        if self.id in record.fields or any(self.id in columns for columns in self.columns):
            own = read_column(record, self.id)
        return {
            "id": f"{self.prefix or self.name}-{'-'.join(str(own).split())}",
            "prompt": f"{context}\n\n{prompt}" if context and prompt.strip() else prompt,
            "label": label,
            "category": category,
            "pattern": self.patterns.get(category),
            "domain": self.domain,
            "language": _translate(self.language, record),
            "source": self.name,
        }


def _translate(field: str | ColumnWords, record: TableRecord) -> str | None:
    return field if isinstance(field, str) else field.translate(record)


def read_column(record: TableRecord, column: str) -> str:
    """Return the value of a column as text.

    Raises:
        InputError: The record has no such value.
    """
    value = record.fields.get(column)
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"the row has no `{column}`")


@cache
def suite_layouts() -> tuple[SuiteLayout, ...]:
    """Return the known layouts, in the order in which they are tried."""
    raw = (files("demur.evals") / "import_layouts.yaml").read_bytes()
    return msgspec.yaml.decode(raw, type=tuple[SuiteLayout, ...])


class SuiteImport(NamedTuple):
    """The layout of a file, and its rows, read lazily."""

    layout: SuiteLayout
    rows: Iterator[LocatedRow]


def open_import(
    path: Path,
    report: ReportProblem,
    *,
    form: str | None = None,
    left_out: Callable[[str], None] = lambda _reason: None,
) -> SuiteImport:
    """Return the rows of a public suite's file, in the given `form` or recognised by its columns.

    `report` receives the problems of records, and `left_out` the reason for each sound record
    that is skipped. All other records become rows.

    Raises:
        SuiteError: The file cannot be read or recognised.
        InputError: The form is unknown.
    """
    table = read_table(path, report)
    layout = _recognise_layout(path, table) if form is None else _find_layout(form, path, table)
    return SuiteImport(layout, _convert_records(layout, table.records, report, left_out))


def _find_layout(form: str, path: Path, table: RecordTable) -> SuiteLayout:
    found = next((layout for layout in suite_layouts() if layout.name == form), None)
    if found is None:
        names = [layout.name for layout in suite_layouts()]
        help_text = did_you_mean(form, names) or f"one of {', '.join(names)}"
        raise InputError(f"unknown format `{form}`", help=help_text)
    if not any(columns <= table.columns for columns in found.columns):
        lacking = min((columns - table.columns for columns in found.columns), key=len)
        lacks = ", ".join(f"`{name}`" for name in sorted(lacking))
        help_text = f"it has {_list_columns(table)}"
        raise suite_error(path, f"as {form}, the file lacks {lacks}", help_text)
    return found


def _recognise_layout(path: Path, table: RecordTable) -> SuiteLayout:
    fits = [
        (max((len(one) for one in layout.columns if one <= table.columns), default=0), layout)
        for layout in suite_layouts()
    ]
    best = max(size for size, _ in fits)
    if best == 0:
        problem = f"no known suite has the columns {_list_columns(table)}"
        help_text = "`eval_suite.v1` has `id`, `prompt` and `label` under a header"
        raise suite_error(path, problem, help_text)
    fitting = [layout for size, layout in fits if size == best]
    name = path.name.casefold()
    named = [layout for layout in fitting if any(word in name for word in layout.words)]
    if len(fitting) == 1 or named:
        return (named or fitting)[0]
    names = " or ".join(f"`--format {layout.name}`" for layout in fitting)
    problem = "the file's name does not say which part of the suite it is"
    raise suite_error(path, problem, f"say {names}")


def _list_columns(table: RecordTable) -> str:
    names = sorted(table.columns)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(f"`{name[:40]}`" for name in names[:8]) + more


def _convert_records(
    layout: SuiteLayout,
    records: Iterator[TableRecord],
    report: ReportProblem,
    left_out: Callable[[str], None],
) -> Iterator[LocatedRow]:
    for record in records:
        try:
            fields = layout.read_record(record)
        except InputError as error:
            report(Problem(record.where, error.problem, error.help))
            continue
        if fields is None:
            left_out(layout.skip)
            continue
        yield from convert_row(fields, record.where, report)
