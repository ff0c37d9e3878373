"""Read a public suite's own file: recognise it by its columns, and turn records into rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.errors import InputError, Problem
from demur.evals.importers.advbench import LAYOUTS as ADVBENCH
from demur.evals.importers.coconot import LAYOUTS as COCONOT
from demur.evals.importers.cyberseceval_frr import LAYOUTS as CYBERSECEVAL_FRR
from demur.evals.importers.do_not_answer import LAYOUTS as DO_NOT_ANSWER
from demur.evals.importers.harmbench import LAYOUTS as HARMBENCH
from demur.evals.importers.jailbreakbench import LAYOUTS as JAILBREAKBENCH
from demur.evals.importers.layout import Layout, LeftOut
from demur.evals.importers.or_bench import LAYOUTS as OR_BENCH
from demur.evals.importers.phtest import LAYOUTS as PHTEST
from demur.evals.importers.records import Record, Table, read_table
from demur.evals.importers.strongreject import LAYOUTS as STRONGREJECT
from demur.evals.importers.xstest import LAYOUTS as XSTEST
from demur.evals.suite_file import Report
from demur.evals.suite_row import Placed, SuiteError, read_row
from demur.source.suggest import did_you_mean

__all__ = ["LAYOUTS", "Import", "open_import"]

LAYOUTS: tuple[Layout, ...] = (
    *XSTEST,
    *OR_BENCH,
    *PHTEST,
    *COCONOT,
    *HARMBENCH,
    *JAILBREAKBENCH,
    *ADVBENCH,
    *STRONGREJECT,
    *DO_NOT_ANSWER,
    *CYBERSECEVAL_FRR,
)


class Import(NamedTuple):
    """The layout of a file, and its rows, read lazily."""

    layout: Layout
    rows: Iterator[Placed]


def open_import(
    path: Path,
    report: Report,
    *,
    form: str | None = None,
    left_out: Callable[[str], None] = lambda _reason: None,
) -> Import:
    """Return the rows of a public suite's file, in the given `form` or recognised by its columns.

    `report` receives the problems of records, and `left_out` the reason for each sound record
    that is skipped. All other records become rows.

    Raises:
        SuiteError: The file cannot be read or recognised.
        InputError: The form is unknown.
    """
    table = read_table(path, report)
    layout = _recognise(path, table) if form is None else _named(form, path, table)
    return Import(layout, _rows(layout, table.records, report, left_out))


def _named(form: str, path: Path, table: Table) -> Layout:
    found = next((layout for layout in LAYOUTS if layout.name == form), None)
    if found is None:
        names = [layout.name for layout in LAYOUTS]
        help_text = did_you_mean(form, names) or f"one of {', '.join(names)}"
        raise InputError(f"unknown format `{form}`", help=help_text)
    if not any(columns <= table.columns for columns in found.columns):
        lacking = min((columns - table.columns for columns in found.columns), key=len)
        lacks = ", ".join(f"`{name}`" for name in sorted(lacking))
        help_text = f"it has {_listing(table)}"
        raise SuiteError.of([Problem(str(path), f"as {form}, the file lacks {lacks}", help_text)])
    return found


def _recognise(path: Path, table: Table) -> Layout:
    sizes = {layout: _fit(layout, table) for layout in LAYOUTS}
    best = max(sizes.values())
    if best == 0:
        problem = f"no known suite has the columns {_listing(table)}"
        help_text = "`eval_suite.v1` has `id`, `prompt` and `label` under a header"
        raise SuiteError.of([Problem(str(path), problem, help_text)])
    able = [layout for layout, size in sizes.items() if size == best]
    name = path.name.casefold()
    told = [layout for layout in able if any(word in name for word in layout.words)]
    if len(able) == 1 or told:
        return (told or able)[0]
    names = " or ".join(f"`--format {layout.name}`" for layout in able)
    problem = "the file's name does not say which part of the suite it is"
    raise SuiteError.of([Problem(str(path), problem, f"say {names}")])


def _fit(layout: Layout, table: Table) -> int:
    return max((len(one) for one in layout.columns if one <= table.columns), default=0)


def _listing(table: Table) -> str:
    names = sorted(table.columns)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(f"`{name[:40]}`" for name in names[:8]) + more


def _rows(
    layout: Layout, records: Iterator[Record], report: Report, left_out: Callable[[str], None]
) -> Iterator[Placed]:
    for record in records:
        try:
            read = layout.read(record)
        except InputError as error:
            report(Problem(record.where, error.problem, error.help))
            continue
        if isinstance(read, LeftOut):
            left_out(read.reason)
            continue
        fields = {**read, "source": layout.name}
        row, problems = read_row(fields, lambda _name, at=record.where: at)  # type: ignore[misc]
        for problem in problems:
            report(problem)
        if row is not None:
            yield Placed(row, record.where)
