"""Suite files in the form `eval_suite.v1`: YAML with a header, or JSON lines under a header line.

YAML is for people and is read as a whole. JSON lines are read row by row, for any number of
rows. A line that is not UTF-8 is one problem; a file in another encoding is refused at once.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from demur.errors import Problem, error_reason
from demur.evals.suite_row import FIELDS, FieldPlace, LocatedRow, SuiteError, read_row, suite_error
from demur.source import SourceError, SourceItem, read_source
from demur.source.item import did_you_mean
from demur.source.schema import load_schema

MAX_LINE_BYTES = 4_000_000
MAX_FILE_BYTES = 256 * 2**20

_BOM = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def open_lines(path: Path | str) -> Iterator[str]:
    """Yield the lines of the file at `path` one at a time, with their line ends.

    Raises:
        SuiteError: The file cannot be read, is in another encoding, or a line is too long.
    """
    try:
        with Path(path).open("rb") as file:
            yield from _decode_lines(path, file)
    except (OSError, ValueError) as error:
        if isinstance(error, SuiteError):
            raise
        raise _read_error(path, error) from error


def read_file(path: Path | str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the UTF-8 bytes of a whole file.

    Raises:
        SuiteError: The file cannot be read, is too large, or is not UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error
    if len(raw) > max_bytes:
        problem = f"the file is larger than {max_bytes // 2**20} MiB"
        help_text = "use JSON lines, which are read row by row"
        raise suite_error(path, problem, help_text)
    _check_encoding(path, raw)
    raw = raw.removeprefix(_BOM)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        help_text = "save it as UTF-8, for example `iconv -f LATIN1 -t UTF-8 FILE`"
        raise suite_error(f"{path}:{line}", "not UTF-8 text", help_text) from error
    return raw


def _decode_lines(path: Path | str, file: IO[bytes]) -> Iterator[str]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            _check_encoding(path, raw)
            raw = raw.removeprefix(_BOM)
        if len(raw) > MAX_LINE_BYTES:
            problem = f"the line is longer than {MAX_LINE_BYTES} bytes"
            raise suite_error(f"{path}:{number}", problem, "write one row per line")
        yield raw.decode("utf-8", "surrogateescape")


def _check_encoding(path: Path | str, raw: bytes) -> None:
    found = next((name for mark, name in _OTHER_ENCODINGS.items() if raw.startswith(mark)), None)
    # ASCII text in UTF-16 without a byte order mark has a NUL in every second byte.
    if found is None and raw[:64].count(b"\x00") >= max(1, len(raw[:64]) // 3):
        found = "UTF-16"
    if found is not None:
        help_text = f"convert it to UTF-8: `iconv -f {found} -t UTF-8 FILE`"
        raise suite_error(path, f"the file is {found}, not UTF-8", help_text)


def _read_error(path: Path | str, error: Exception) -> SuiteError:
    return suite_error(path, f"cannot read the suite: {error_reason(error)}")


SCHEMA_VERSION = "eval_suite.v1"
SUITE_SCHEMA = load_schema(__file__, SCHEMA_VERSION)
NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,99}"
HEADER_FIELDS = tuple(name for name in SUITE_SCHEMA["properties"] if name != "rows")

ReportProblem = Callable[[Problem], None]


class SuiteHeader(NamedTuple):
    """Name, version and description of a suite."""

    name: str
    version: str
    description: str


def read_yaml(path: Path, report: ReportProblem) -> tuple[SuiteHeader, Iterator[LocatedRow]]:
    """Return header and rows of a YAML file; problems of rows are reported.

    Raises:
        SuiteError: The file is not YAML, or its header is invalid.
    """
    try:
        item = read_source(str(path), read_file(path).decode("utf-8"))
    except SourceError as error:
        raise SuiteError.from_problems(error.problems) from error
    if not isinstance(item.value, dict):
        raise suite_error(item.where, "a suite is a mapping", _HEADER_HELP)
    fields = dict(item.value)
    rows = fields.pop("rows", None)
    plain = {name: child.plain_value for name, child in fields.items()}
    header = _read_header(plain, _locate_fields(item, HEADER_FIELDS))
    if rows is None or not isinstance(rows.value, list):
        where = item.where if rows is None else rows.where
        raise suite_error(where, "`rows` is a list", "add the rows")
    return header, _yaml_rows(rows.value, report)


def _yaml_rows(items: list[SourceItem], report: ReportProblem) -> Iterator[LocatedRow]:
    for item in items:
        if not isinstance(item.value, dict):
            report(Problem(item.where, "a row is a mapping", "like `{id: …, prompt: …}`"))
            continue
        yield from convert_row(item.plain_value, item.where, report, _locate_fields(item, FIELDS))


def convert_row(
    fields: Mapping[str, Any], where: str, report: ReportProblem, place: FieldPlace | None = None
) -> Iterator[LocatedRow]:
    """Yield the row made of `fields`, or report its problems; `place` locates single fields."""
    row, problems = read_row(fields, place or (lambda _name: where))
    for problem in problems:
        report(problem)
    if row is not None:
        yield LocatedRow(row, where)


def _locate_fields(item: SourceItem, known: Collection[str]) -> FieldPlace:
    """Return a function that locates the value of a known field, or the key of another."""

    def place(name: str | None) -> str:
        if name is None:
            return item.where
        found: str = item.value[name].where if name in known else item.keys[name]
        return found

    return place


def read_json_lines(path: Path, report: ReportProblem) -> tuple[SuiteHeader, Iterator[LocatedRow]]:
    """Return the header of a JSON lines file, and its rows, read lazily.

    Raises:
        SuiteError: The header is invalid.
    """
    lines = open_lines(path)
    where = f"{path}:1"
    fields = _decode_object(next(lines, ""), where, raise_problem)
    assert fields is not None
    return _read_header(fields, lambda _name: where), _json_rows(path, lines, report)


def _json_rows(path: Path, lines: Iterator[str], report: ReportProblem) -> Iterator[LocatedRow]:
    for number, line in enumerate(lines, start=2):
        where = f"{path}:{number}"
        fields = _decode_object(line, where, report) if line.strip() else None
        if fields is not None:
            yield from convert_row(fields, where, report)


def _decode_object(line: str, where: str, report: ReportProblem) -> dict[str, Any] | None:
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


def raise_problem(problem: Problem) -> None:
    """Raise the error of a suite with one problem."""
    raise SuiteError.from_problems([problem])


_HEADER_HELP = "begin with `schema_version: eval_suite.v1`, `name`, `version` and `rows`"


def _read_header(fields: Mapping[str, Any], place: FieldPlace) -> SuiteHeader:
    problems = list(_header_problems(fields, place))
    if problems:
        raise SuiteError.from_problems(problems)
    return SuiteHeader(fields["name"], fields["version"], fields.get("description", ""))


def _header_problems(fields: Mapping[str, Any], place: FieldPlace) -> Iterator[Problem]:
    for name in HEADER_FIELDS[:3]:
        if name not in fields:
            yield Problem(place(None), f"the header has no `{name}`", _HEADER_HELP)
    for name, value in fields.items():
        if name not in HEADER_FIELDS:
            near = did_you_mean(name, (*HEADER_FIELDS, "rows"))
            help_text = near or f"it has {', '.join(HEADER_FIELDS)}"
            yield Problem(place(name), f"unknown field `{name}` in the header", help_text)
        elif not isinstance(value, str):
            yield Problem(place(name), f"`{name}` must be a string, not `{value}`", "quote it")
        elif name == "schema_version" and value != SCHEMA_VERSION:
            problem = f"unknown schema version `{value}`"
            yield Problem(place(name), problem, f"this release reads {SCHEMA_VERSION}")
        elif name == "name" and not re.fullmatch(NAME_PATTERN, value):
            problem = f"`{value}` is not a valid suite name"
            yield Problem(place(name), problem, "use lower-case letters, digits, `-`, `_` and `.`")
