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
from demur.evals.suite import Row, once, row_lines
from demur.evals.suite_file import NAME, Header
from demur.evals.suite_row import Placed

__all__ = ["configure", "run"]

_MOST_SHOWN = 20


class _Done(NamedTuple):
    """The result of an import."""

    form: str
    labels: Counter[str]
    left_out: Counter[str]
    problems: list[Problem]


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    """Write the suite; 1 if a record could not be read."""
    if args.out.exists() and not args.force:
        help_text = "choose another file, or replace it with `--force`"
        raise InputError("the file already exists", where=str(args.out), help=help_text)
    done = _import(args, _name(args))
    if args.json:
        print(json.dumps(_as_json(done), indent=2))
    else:
        _print(done, args.out)
    return int(bool(done.problems))


def _name(args: argparse.Namespace) -> str:
    if args.name is not None:
        if not re.fullmatch(NAME, args.name):
            help_text = "small letters, digits, `-`, `_`, `.`"
            raise InputError(f"`{args.name}` is not a valid suite name", help=help_text)
        return str(args.name)
    plain = re.sub(r"[^a-z0-9._-]+", "-", args.file.stem.casefold()).strip("-._")
    return plain[:100] or "imported"


def _import(args: argparse.Namespace, name: str) -> _Done:
    """Write the rows as they are read, to a `.part` file that is renamed when complete."""
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    labels: Counter[str] = Counter()

    def note_left_out(reason: str) -> None:
        left_out[reason] += 1

    opened = open_import(args.file, problems.append, form=args.form, left_out=note_left_out)
    header = Header(name, "1", f"Imported from {opened.layout.title}.")
    rows = _counted(once(opened.rows, problems.append), labels)
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
    return _Done(opened.layout.name, labels, left_out, problems)


def _counted(rows: Iterator[Placed], labels: Counter[str]) -> Iterator[Row]:
    for placed in rows:
        labels[placed.row.label] += 1
        yield placed.row


def _as_json(done: _Done) -> dict[str, object]:
    return {
        "format": done.form,
        "rows": done.labels.total(),
        "labels": dict(done.labels),
        "left_out": dict(done.left_out),
        "problems": [problem._asdict() for problem in done.problems],
    }


def _print(done: _Done, out: Path) -> None:
    paint = Paint()
    for problem in done.problems[:_MOST_SHOWN]:
        where = one_line(problem.where or "")
        print(f"{where}: {paint('not imported:', 'yellow')} {one_line(problem.problem)}")
    if len(done.problems) > _MOST_SHOWN:
        print(paint(f"and {len(done.problems) - _MOST_SHOWN} more", "dim"))
    for reason, count in done.left_out.items():
        print(f"{count} left out: {reason}")
    labels = ", ".join(f"{count} {label}" for label, count in sorted(done.labels.items()))
    bad = f"; {len(done.problems)} could not be read" if done.problems else ""
    total = done.labels.total()
    print(f"{done.form}: {total} row{'s' * (total != 1)} ({labels}){bad}")
    print(f"wrote {one_line(str(out))}")
