"""Read a public suite's own file: recognise it by its columns, and turn records into rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.errors import InputError, Problem
from demur.evals.importers.advbench import ADVBENCH as ADVBENCH
from demur.evals.importers.coconot import COCONOT as COCONOT
from demur.evals.importers.cyberseceval_frr import CYBERSECEVAL_FRR as CYBERSECEVAL_FRR
from demur.evals.importers.do_not_answer import DO_NOT_ANSWER as DO_NOT_ANSWER
from demur.evals.importers.harmbench import HARMBENCH as HARMBENCH
from demur.evals.importers.jailbreakbench import JAILBREAKBENCH as JAILBREAKBENCH
from demur.evals.importers.layout import SuiteLayout, SkippedRecord
from demur.evals.importers.or_bench import OR_BENCH as OR_BENCH
from demur.evals.importers.phtest import PHTEST as PHTEST
from demur.evals.importers.records import TableRecord, RecordTable, read_table
from demur.evals.importers.strongreject import STRONGREJECT as STRONGREJECT
from demur.evals.importers.xstest import XSTEST as XSTEST
from demur.evals.suite_file import ReportProblem
from demur.evals.suite_row import LocatedRow, SuiteError, read_row
from demur.source.suggest import did_you_mean

__all__ = ["LAYOUTS", "SuiteImport", "open_import"]

LAYOUTS: tuple[SuiteLayout, ...] = (
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
    found = next((layout for layout in LAYOUTS if layout.name == form), None)
    if found is None:
        names = [layout.name for layout in LAYOUTS]
        help_text = did_you_mean(form, names) or f"one of {', '.join(names)}"
        raise InputError(f"unknown format `{form}`", help=help_text)
    if not any(columns <= table.columns for columns in found.columns):
        lacking = min((columns - table.columns for columns in found.columns), key=len)
        lacks = ", ".join(f"`{name}`" for name in sorted(lacking))
        help_text = f"it has {_list_columns(table)}"
        raise SuiteError.from_problems(
            [Problem(str(path), f"as {form}, the file lacks {lacks}", help_text)]
        )
    return found


def _recognise_layout(path: Path, table: RecordTable) -> SuiteLayout:
    sizes = {layout: _match_size(layout, table) for layout in LAYOUTS}
    best = max(sizes.values())
    if best == 0:
        problem = f"no known suite has the columns {_list_columns(table)}"
        help_text = "`eval_suite.v1` has `id`, `prompt` and `label` under a header"
        raise SuiteError.from_problems([Problem(str(path), problem, help_text)])
    able = [layout for layout, size in sizes.items() if size == best]
    name = path.name.casefold()
    told = [layout for layout in able if any(word in name for word in layout.words)]
    if len(able) == 1 or told:
        return (told or able)[0]
    names = " or ".join(f"`--format {layout.name}`" for layout in able)
    problem = "the file's name does not say which part of the suite it is"
    raise SuiteError.from_problems([Problem(str(path), problem, f"say {names}")])


def _match_size(layout: SuiteLayout, table: RecordTable) -> int:
    return max((len(one) for one in layout.columns if one <= table.columns), default=0)


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
            read = layout.read_record(record)
        except InputError as error:
            report(Problem(record.where, error.problem, error.help))
            continue
        if isinstance(read, SkippedRecord):
            left_out(read.reason)
            continue
        fields = {**read, "source": layout.name}
        row, problems = read_row(fields, lambda _name, at=record.where: at)  # type: ignore[misc]
        for problem in problems:
            report(problem)
        if row is not None:
            yield LocatedRow(row, record.where)
