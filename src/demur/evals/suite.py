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
from demur.evals.importers import open_import
from demur.evals.line_files import replace_file
from demur.evals.suite_file import (
    SCHEMA_VERSION,
    ReportProblem,
    SuiteHeader,
    open_lines,
    raise_problem,
    read_json_lines,
    read_yaml,
)
from demur.evals.suite_row import EvalRow, LocatedRow, SuiteError
from demur.learned import INSTALL_HELP, models_package
from demur.source.item import did_you_mean

_BUILTIN_SUITES = ("builtin", "contrast_check", "contrast_train", "multilingual", "smoke")
# The models learn from these rows, so they come with the models.
_SUITES_OF_MODELS = ("contrast_train",)
_YAML_SUFFIXES = (".yaml", ".yml")
# Show only the first problems; a last line says how many more there are.
_MAX_PROBLEMS = 50


class EvalSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A named, versioned set of rows; `digest` changes with any of them."""

    name: str
    version: str
    description: str
    rows: tuple[EvalRow, ...]
    digest: str


def builtin_suites() -> tuple[str, ...]:
    """Return the names of the suites that are installed: demur's own, and those of its models."""
    if models_package() is not None:
        return _BUILTIN_SUITES
    return tuple(name for name in _BUILTIN_SUITES if name not in _SUITES_OF_MODELS)


def make_suite(
    name: str, rows: Iterable[EvalRow], *, version: str = "1", description: str = ""
) -> EvalSuite:
    """Return the suite of these rows, with their digest."""
    held = tuple(rows)
    about = {"name": name, "version": version, "description": description}
    return EvalSuite(**about, rows=held, digest=digest_of_rows(held))


def digest_of_rows(rows: Iterable[EvalRow]) -> str:
    """Return `sha256:` and the digest of the rows in canonical form, one a line."""
    total = hashlib.sha256()
    for row in rows:
        total.update(fast_encode(row) + b"\n")
    return f"sha256:{total.hexdigest()}"


def load_suite(name_or_path: str | Path) -> EvalSuite:
    """Return a built-in suite by its name, or the one in a file.

    A file is in the form `eval_suite.v1`, as YAML or JSON lines, or a public suite's own.

    Raises:
        SuiteError: The suite is unknown or invalid; carries every problem.
    """
    if isinstance(name_or_path, str) and name_or_path in _BUILTIN_SUITES:
        return _load_builtin(name_or_path)
    return _load_file(_find_file(name_or_path))


@cache
def _load_builtin(name: str) -> EvalSuite:
    package = models_package() if name in _SUITES_OF_MODELS else "demur.evals"
    if package is None:
        problem = "this suite comes with the learned models"
        raise SuiteError.from_problems([Problem(name, problem, INSTALL_HELP)])
    folder = files(package) / "suites"
    suffix = ".jsonl" if name.startswith("contrast_") else ".yaml"
    with as_file(folder / f"{name}{suffix}") as path:
        return _load_file(path)


def _load_file(path: Path) -> EvalSuite:
    problems: list[Problem] = []
    header, rows = _open_file(path, problems.append)
    held = list(drop_repeated(rows, problems.append))
    if not problems:
        problems += _twin_problems(held)
    if not problems and not held:
        problems.append(Problem(str(path), "the suite has no rows"))
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        if more > 0:
            problems[_MAX_PROBLEMS:] = [Problem(str(path), f"and {more} more problems")]
        raise SuiteError.from_problems(problems)
    found = (placed.row for placed in held)
    name, version, description = header
    return make_suite(name, found, version=version, description=description)


def iter_rows(name_or_path: str | Path, report: ReportProblem | None = None) -> Iterator[EvalRow]:
    """Yield the rows of a suite one by one; only ids and places stay in memory.

    Invalid rows are reported and skipped; without `report`, the first one raises. Twins are not
    checked. YAML files and JSON lists are read as a whole.

    Raises:
        SuiteError: The suite is unknown or invalid.
    """
    if isinstance(name_or_path, str) and name_or_path in _BUILTIN_SUITES:
        yield from _load_builtin(name_or_path).rows
        return
    path = _find_file(name_or_path)
    report_problem = raise_problem if report is None else report
    _, rows = _open_file(path, report_problem)
    for placed in drop_repeated(rows, report_problem):
        yield placed.row


def _find_file(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.exists() or len(path.parts) > 1 or path.suffix:
        return path
    name = str(name_or_path)
    help_text = f"built in: {', '.join(_BUILTIN_SUITES)}; or name a file"
    near = did_you_mean(name, _BUILTIN_SUITES)
    raise SuiteError.from_problems([Problem(None, f"unknown suite `{name}`", near or help_text)])


def _open_file(path: Path, report: ReportProblem) -> tuple[SuiteHeader, Iterator[LocatedRow]]:
    """Return header and rows of a file in any known format."""
    if path.suffix.lower() in _YAML_SUFFIXES:
        return read_yaml(path, report)
    first = next((line for line in open_lines(path) if line.strip()), "").strip()
    if first.startswith("{") and '"schema_version"' in first and first.endswith("}"):
        return read_json_lines(path, report)
    if first.startswith("schema_version:") or (first == "{" and path.suffix.lower() == ".json"):
        return read_yaml(path, report)
    opened = open_import(path, report)
    return SuiteHeader(opened.layout.name, "1", opened.layout.title), opened.rows


def drop_repeated(rows: Iterable[LocatedRow], report: ReportProblem) -> Iterator[LocatedRow]:
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


def _twin_problems(rows: list[LocatedRow]) -> Iterator[Problem]:
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


def save_suite(suite: EvalSuite, path: Path | str) -> None:
    """Write a suite to a file: YAML by the file's suffix, JSON lines otherwise.

    Raises:
        InputError: demur cannot write the file.
    """
    target = Path(path)
    header = SuiteHeader(suite.name, suite.version, suite.description)
    with replace_file(target, "the suite", InputError) as file:
        if target.suffix.lower() in _YAML_SUFFIXES:
            head = {"schema_version": SCHEMA_VERSION, **header._asdict()}
            document = {**head, "rows": [_row_fields(row) for row in suite.rows]}
            text = yaml.dump(
                document, Dumper=_SuiteDumper, allow_unicode=True, sort_keys=False, width=96
            )
            file.write(str(text).encode())
        else:
            file.writelines(line.encode() for line in row_lines(header, suite.rows))


def row_lines(header: SuiteHeader, rows: Iterable[EvalRow]) -> Iterator[str]:
    """Yield a suite as JSON lines, the header first."""
    head = {"schema_version": SCHEMA_VERSION, **header._asdict()}
    yield msgspec.json.encode(head).decode() + "\n"
    for row in rows:
        yield msgspec.json.encode(_row_fields(row)).decode() + "\n"


class _SuiteDumper(yaml.SafeDumper):
    """Quotes text that is not printable, because plain scalars lose some line ends."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_SuiteDumper.add_representer(str, _write_text)


def _row_fields(row: EvalRow) -> dict[str, str]:
    """Return the fields of a row that differ from their defaults."""
    fields: dict[str, str | None] = msgspec.structs.asdict(row)
    usual = ("language", "en")
    return {name: text for name, text in fields.items() if text and (name, text) != usual}
