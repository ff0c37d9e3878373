"""`demur eval history`: show a folder of runs over time."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demur.cli.eval_options import add_threshold_options, add_scoring_options, read_thresholds
from demur.cli.files import write_file
from demur.cli.terminal import Paint
from demur.evals.curve import CurvePoint
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import align_columns, format_count, format_percent, format_difference
from demur.evals.history import HistoryEntry, RunHistory, read_history
from demur.evals.report_text import VERDICTS

__all__ = ["configure_eval_history", "run_eval_history"]


def configure_eval_history(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 shown; 1 an error, or a run that cannot be read; 2 usage"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of runs")
    parser.add_argument("--suite", metavar="NAME", help="only runs of this suite")
    parser.add_argument("--target", metavar="NAME", help="only runs against this target")
    add_threshold_options(parser)
    add_scoring_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also plot the curve to this file")


def run_eval_history(args: argparse.Namespace) -> int:
    """Print the runs, oldest first."""
    found = read_history(
        args.folder,
        suite=args.suite,
        target=args.target,
        thresholds=read_thresholds(args),
        partials=args.partials,
        workers=args.jobs,
    )
    if args.svg:
        title = f"{format_count(len(found.entries), 'run')} in {args.folder.name}"
        write_file(
            args.svg,
            curve_svg(_history_points(found), thresholds=read_thresholds(args), title=title),
        )
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif found.entries:
        print("\n".join(_format_history(found, Paint())))
    for problem in found.problems:
        print(f"cannot read: {problem}", file=sys.stderr)
    return 1 if found.problems else 0


def _history_points(found: RunHistory) -> list[CurvePoint]:
    return [
        CurvePoint(
            name=entry.run,
            utility=entry.rates.utility,
            safety=entry.rates.safety,
            series=f"{entry.suite} {entry.suite_version}",
        )
        for entry in found.entries
    ]


def _format_history(found: RunHistory, paint: Paint) -> Iterator[str]:
    rows = [_entry_row(entry) for entry in found.entries]
    head = ("when", "run", "suite", "target", "rows", "safety", "", "utility", "", "unjudged", "")
    yield from align_columns(head, rows, paint, left=4)
    if any(entry.since for entry in found.entries):
        yield paint(
            "changes in percentage points, from the previous run of the same suite and size", "dim"
        )


def _entry_row(entry: HistoryEntry) -> tuple[str, ...]:
    return (
        entry.started_at[:16].replace("T", " "),
        entry.run,
        entry.suite,
        entry.target,
        str(entry.rows),
        format_percent(entry.rates.safety.value),
        _format_change(entry.safety_change),
        format_percent(entry.rates.utility.value),
        _format_change(entry.utility_change),
        str(entry.rates.unjudged.hits),
        VERDICTS[entry.status] + ("" if entry.complete else ", not finished"),
    )


def _format_change(difference: float | None) -> str:
    return "" if difference is None else format_difference(difference)
