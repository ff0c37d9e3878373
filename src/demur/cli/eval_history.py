"""`demur eval history`: show a folder of runs over time."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demur.cli.eval_options import add_aims, add_scoring, aims_of
from demur.cli.files import write
from demur.cli.terminal import Paint
from demur.evals.curve import Point
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import columns, counted, percent, points
from demur.evals.history import Entry, History, read_history
from demur.evals.report_text import VERDICTS

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 shown; 1 an error, or a run that cannot be read; 2 usage"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of runs")
    parser.add_argument("--suite", metavar="NAME", help="only runs of this suite")
    parser.add_argument("--target", metavar="NAME", help="only runs against this target")
    add_aims(parser)
    add_scoring(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also plot the curve to this file")


def run(args: argparse.Namespace) -> int:
    """Print the runs, oldest first."""
    found = read_history(
        args.folder,
        suite=args.suite,
        target=args.target,
        aims=aims_of(args),
        partials=args.partials,
        workers=args.jobs,
    )
    if args.svg:
        title = f"{counted(len(found.entries), 'run')} in {args.folder.name}"
        write(args.svg, curve_svg(_points(found), aims=aims_of(args), title=title))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif found.entries:
        print("\n".join(_lines(found, Paint())))
    for problem in found.problems:
        print(f"cannot read: {problem}", file=sys.stderr)
    return 1 if found.problems else 0


def _points(found: History) -> list[Point]:
    return [
        Point(
            name=entry.run,
            utility=entry.rates.utility,
            safety=entry.rates.safety,
            series=f"{entry.suite} {entry.suite_version}",
        )
        for entry in found.entries
    ]


def _lines(found: History, paint: Paint) -> Iterator[str]:
    rows = [_row(entry) for entry in found.entries]
    head = ("when", "run", "suite", "target", "rows", "safety", "", "utility", "", "unjudged", "")
    yield from columns(head, rows, paint, left=4)
    if any(entry.since for entry in found.entries):
        yield paint(
            "changes in percentage points, from the previous run of the same suite and size", "dim"
        )


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.started_at[:16].replace("T", " "),
        entry.run,
        entry.suite,
        entry.target,
        str(entry.rows),
        percent(entry.rates.safety.value),
        _change(entry.safety_change),
        percent(entry.rates.utility.value),
        _change(entry.utility_change),
        str(entry.rates.unjudged.hits),
        VERDICTS[entry.status] + ("" if entry.complete else ", not finished"),
    )


def _change(difference: float | None) -> str:
    return "" if difference is None else points(difference)
