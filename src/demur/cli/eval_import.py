"""`demur eval import`: convert the file of a public suite to a suite of demur."""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from demur.cli.terminal import Paint
from demur.errors import InputError, Problem, one_line
from demur.evals.importers.importing import LAYOUTS, open_import
from demur.evals.suite import EvalRow, drop_repeated, row_lines
from demur.evals.suite_file import NAME_PATTERN, SuiteHeader
from demur.evals.suite_row import LocatedRow

__all__ = ["configure_eval_import", "run_eval_import"]

_MAX_SHOWN_PROBLEMS = 20


class _ImportResult(NamedTuple):
    """The result of an import."""

    form: str
    labels: Counter[str]
    left_out: Counter[str]
    problems: list[Problem]


def configure_eval_import(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 every record was imported or skipped by rule; 1 some or all could not be read; "
        "2 usage"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the downloaded file")
    parser.add_argument(
        "--format",
        dest="form",
        metavar="NAME",
        help=f"the format, if its columns are ambiguous: {', '.join(one.name for one in LAYOUTS)}",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="SUITE", help="write JSON lines to this file"
    )
    parser.add_argument("--name", help="the suite's name; default: the file's")
    parser.add_argument("--force", action="store_true", help="replace an existing SUITE")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_eval_import(args: argparse.Namespace) -> int:
    """Write the suite; 1 if a record could not be read."""
    if args.out.exists() and not args.force:
        help_text = "choose another file, or replace it with `--force`"
        raise InputError("the file already exists", where=str(args.out), help=help_text)
    done = _import_rows(args, _suite_name(args))
    if args.json:
        print(json.dumps(_import_to_json(done), indent=2))
    else:
        _print_import(done, args.out)
    return int(bool(done.problems))


def _suite_name(args: argparse.Namespace) -> str:
    if args.name is not None:
        if not re.fullmatch(NAME_PATTERN, args.name):
            help_text = "small letters, digits, `-`, `_`, `.`"
            raise InputError(f"`{args.name}` is not a valid suite name", help=help_text)
        return str(args.name)
    plain = re.sub(r"[^a-z0-9._-]+", "-", args.file.stem.casefold()).strip("-._")
    return plain[:100] or "imported"


def _import_rows(args: argparse.Namespace, name: str) -> _ImportResult:
    """Write the rows as they are read, to a `.part` file that is renamed when complete."""
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    labels: Counter[str] = Counter()

    def note_left_out(reason: str) -> None:
        left_out[reason] += 1

    opened = open_import(args.file, problems.append, form=args.form, left_out=note_left_out)
    header = SuiteHeader(name, "1", f"Imported from {opened.layout.title}.")
    rows = _count_labels(drop_repeated(opened.rows, problems.append), labels)
    part = args.out.with_name(f"{args.out.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(row_lines(header, rows))
        if not labels:
            problem = f"none of the {len(problems) + left_out.total()} records became a row"
            first = str(problems[0]).splitlines()[0] if problems else None
            raise InputError(problem, where=str(args.file), help=first)
        part.replace(args.out)
    finally:
        part.unlink(missing_ok=True)
    return _ImportResult(opened.layout.name, labels, left_out, problems)


def _count_labels(rows: Iterator[LocatedRow], labels: Counter[str]) -> Iterator[EvalRow]:
    for placed in rows:
        labels[placed.row.label] += 1
        yield placed.row


def _import_to_json(done: _ImportResult) -> dict[str, object]:
    return {
        "format": done.form,
        "rows": done.labels.total(),
        "labels": dict(done.labels),
        "left_out": dict(done.left_out),
        "problems": [problem._asdict() for problem in done.problems],
    }


def _print_import(done: _ImportResult, out: Path) -> None:
    paint = Paint()
    for problem in done.problems[:_MAX_SHOWN_PROBLEMS]:
        where = one_line(problem.where or "")
        print(f"{where}: {paint('not imported:', 'yellow')} {one_line(problem.problem)}")
    if len(done.problems) > _MAX_SHOWN_PROBLEMS:
        print(paint(f"and {len(done.problems) - _MAX_SHOWN_PROBLEMS} more", "dim"))
    for reason, count in done.left_out.items():
        print(f"{count} left out: {reason}")
    labels = ", ".join(f"{count} {label}" for label, count in sorted(done.labels.items()))
    bad = f"; {len(done.problems)} could not be read" if done.problems else ""
    total = done.labels.total()
    print(f"{done.form}: {total} row{'s' * (total != 1)} ({labels}){bad}")
    print(f"wrote {one_line(str(out))}")
