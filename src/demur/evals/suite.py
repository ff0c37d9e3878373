"""Suites of labelled requests: built in, your own, or in a public suite's own file.

A suite is data: rows, a name, a version, and a digest of the rows. A run keeps the digest, so
that only runs of the same rows are compared.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import msgspec
import yaml

from demur.canonical import fast_encode
from demur.errors import InputError, Problem
from demur.evals.importers.importing import open_import
from demur.evals.suite_file import SCHEMA_VERSION, Header, Report, read_json_lines, read_yaml
from demur.evals.suite_lines import open_lines
from demur.evals.suite_row import Label, Pattern, Placed, Row, SuiteError
from demur.source.suggest import did_you_mean

__all__ = [
    "Label",
    "Pattern",
    "Row",
    "Suite",
    "SuiteError",
    "builtin_suites",
    "digest_of_rows",
    "iter_rows",
    "load_suite",
    "make_suite",
    "once",
    "row_lines",
    "save_suite",
]

_BUILTIN = ("builtin", "multilingual", "smoke")
_YAML = (".yaml", ".yml")
# Show only the first problems; a last line says how many more there are.
_MOST_SHOWN = 50


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """A named, versioned set of rows; `digest` changes with any of them."""

    name: str
    version: str
    description: str
    rows: tuple[Row, ...]
    digest: str


def builtin_suites() -> tuple[str, ...]:
    """Return the names of the suites that demur ships."""
    return _BUILTIN


def make_suite(
    name: str, rows: Iterable[Row], *, version: str = "1", description: str = ""
) -> Suite:
    """Return the suite of these rows, with their digest."""
    held = tuple(rows)
    return Suite(
        name=name,
        version=version,
        description=description,
        rows=held,
        digest=digest_of_rows(held),
    )


def digest_of_rows(rows: Iterable[Row]) -> str:
    """Return `sha256:` and the digest of the rows in canonical form, one a line."""
    total = hashlib.sha256()
    for row in rows:
        total.update(fast_encode(row) + b"\n")
    return f"sha256:{total.hexdigest()}"


def load_suite(name_or_path: str | Path) -> Suite:
    """Return a built-in suite by its name, or the one in a file.

    A file is in the form `eval_suite.v1`, as YAML or JSON lines, or a public suite's own.

    Raises:
        SuiteError: The suite is unknown or invalid; carries every problem.
    """
    if isinstance(name_or_path, str) and name_or_path in _BUILTIN:
        return _builtin(name_or_path)
    return _load(_found(name_or_path))


@cache
def _builtin(name: str) -> Suite:
    with as_file(files("demur.evals") / "suites" / f"{name}.yaml") as path:
        return _load(path)


def _load(path: Path) -> Suite:
    problems: list[Problem] = []
    header, rows = _open(path, problems.append)
    held = list(once(rows, problems.append))
    if not problems:
        problems += _twin_problems(held)
    if not problems and not held:
        problems.append(Problem(str(path), "the suite has no rows"))
    if problems:
        more = len(problems) - _MOST_SHOWN
        if more > 0:
            problems[_MOST_SHOWN:] = [Problem(str(path), f"and {more} more problems")]
        raise SuiteError.of(problems)
    return make_suite(
        header.name,
        (placed.row for placed in held),
        version=header.version,
        description=header.description,
    )


def iter_rows(name_or_path: str | Path, report: Report | None = None) -> Iterator[Row]:
    """Yield the rows of a suite one by one; only ids and places stay in memory.

    Invalid rows are reported and skipped; without `report`, the first one raises. Twins are not
    checked. YAML files and JSON lists are read as a whole.

    Raises:
        SuiteError: The suite is unknown or invalid.
    """
    if isinstance(name_or_path, str) and name_or_path in _BUILTIN:
        yield from _builtin(name_or_path).rows
        return
    path = _found(name_or_path)
    told = _raise if report is None else report
    _, rows = _open(path, told)
    for placed in once(rows, told):
        yield placed.row


def _raise(problem: Problem) -> None:
    raise SuiteError.of([problem])


def _found(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.exists() or len(path.parts) > 1 or path.suffix:
        return path
    name = str(name_or_path)
    help_text = f"built in: {', '.join(_BUILTIN)}; or name a file"
    near = did_you_mean(name, _BUILTIN)
    raise SuiteError.of([Problem(None, f"unknown suite `{name}`", near or help_text)])


def _open(path: Path, report: Report) -> tuple[Header, Iterator[Placed]]:
    """Return header and rows of a file in any known format."""
    if path.suffix.lower() in _YAML:
        return read_yaml(path, report)
    first = next((line for line in open_lines(path) if line.strip()), "").strip()
    if first.startswith("{") and '"schema_version"' in first and first.endswith("}"):
        return read_json_lines(path, report)
    if first.startswith("schema_version:") or (first == "{" and path.suffix.lower() == ".json"):
        return read_yaml(path, report)
    opened = open_import(path, report)
    return Header(opened.layout.name, "1", opened.layout.title), opened.rows


def once(rows: Iterable[Placed], report: Report) -> Iterator[Placed]:
    """Yield rows with new ids, and report repeated ids."""
    seen: dict[str, str] = {}
    for placed in rows:
        name = placed.row.id
        if name in seen:
            problem = f"the id `{name}` appears twice"
            report(Problem(placed.where, problem, f"first at {seen[name]}"))
            continue
        seen[name] = placed.where
        yield placed


def _twin_problems(rows: list[Placed]) -> Iterator[Problem]:
    by_id = {placed.row.id: placed.row for placed in rows}
    for row, where in rows:
        if row.twin is None:
            continue
        other = by_id.get(row.twin)
        if other is None:
            hint = did_you_mean(row.twin, by_id) or "name a row of this suite"
            yield Problem(where, f"`{row.id}` has an unknown twin `{row.twin}`", hint)
        elif other.twin != row.id:
            hint = f"give `{other.id}` the twin `{row.id}`"
            yield Problem(where, f"`{row.id}` is not the twin of its twin `{other.id}`", hint)
        elif other.label == row.label:
            hint = "of two twins, one is harmful and one legitimate"
            yield Problem(where, f"`{row.id}` and `{other.id}` are both {row.label}", hint)


def save_suite(suite: Suite, path: Path | str) -> None:
    """Write a suite to a file: YAML by the file's suffix, JSON lines otherwise.

    Raises:
        InputError: The file cannot be written.
    """
    target = Path(path)
    header = Header(suite.name, suite.version, suite.description)
    try:
        with target.open("w", encoding="utf-8", newline="\n") as file:
            if target.suffix.lower() in _YAML:
                file.write(_as_yaml(header, suite.rows))
            else:
                file.writelines(row_lines(header, suite.rows))
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write the suite: {reason}", where=str(path)) from error


def row_lines(header: Header, rows: Iterable[Row]) -> Iterator[str]:
    """Yield a suite as JSON lines, the header first."""
    head = {"schema_version": SCHEMA_VERSION, **header._asdict()}
    yield msgspec.json.encode(head).decode() + "\n"
    for row in rows:
        yield msgspec.json.encode(_said(row)).decode() + "\n"


def _as_yaml(header: Header, rows: Iterable[Row]) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        **header._asdict(),
        "rows": [_said(row) for row in rows],
    }
    text: str = yaml.dump(document, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=96)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes text that is not printable, because plain scalars lose some line ends."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _write_text)


def _said(row: Row) -> dict[str, str]:
    """Return the fields of a row that differ from their defaults."""
    every: dict[str, str | None] = msgspec.structs.asdict(row)
    silent = {"pattern": None, "twin": None, "language": "en"}
    return {
        name: value
        for name, value in every.items()
        if value and (name not in silent or value != silent[name])
    }
