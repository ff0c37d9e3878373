"""`demur eval compare`: list the rows that flipped between two runs, and test for noise."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from demur.cli.eval_options import add_scoring
from demur.cli.files import write
from demur.cli.terminal import Paint
from demur.errors import one_line
from demur.evals.compare import Comparison, Flip, Paired, Side, compare_runs
from demur.evals.curve import point_of
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import columns, counted, excerpt, likelihood, percent, points
from demur.evals.report import DIMENSIONS, make_report
from demur.evals.run import open_run

__all__ = ["comparison_lines", "configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 compared; 1 an error; 2 usage"
    parser.add_argument("before", type=Path, metavar="BEFORE", help="the folder of a run")
    parser.add_argument("after", type=Path, metavar="AFTER", help="the folder of a later run")
    add_scoring(parser)
    parser.add_argument(
        "--flips", type=int, default=20, metavar="N", help="flips to show of each kind (20)"
    )
    parser.add_argument(
        "--by",
        action="append",
        choices=DIMENSIONS,
        help="also group by this; repeatable (pattern)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with every flip")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also plot both runs to this file")


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    runs = open_run(args.before), open_run(args.after)
    found = compare_runs(*runs, partials=args.partials, workers=args.jobs)
    if args.svg:
        reports = [make_report(one, partials=args.partials, examples=0) for one in runs]
        drawn = [point_of(report, series="change") for report in reports]
        write(args.svg, curve_svg(drawn, title=f"{found.before} and {found.after}"))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print(
            "\n".join(
                comparison_lines(
                    found, Paint(), most=max(args.flips, 0), by=args.by or ("pattern",)
                )
            )
        )
    return 0


def comparison_lines(
    found: Comparison, paint: Paint, *, most: int, by: Sequence[str]
) -> Iterator[str]:
    """Yield a comparison as lines of text."""
    yield paint(one_line(f"{found.before} -> {found.after}"), "bold")
    yield paint(_compared(found), "dim")
    yield ""
    sides = (found.safety, found.utility)
    yield from columns(_HEAD, [_row(side.name, side.total) for side in sides], paint)
    for kind in by:
        yield from _groups(sides, kind, paint)
    for better in (False, True):
        flips = [flip for flip in found.flips if flip.better is better]
        yield ""
        title = f"{'got better' if better else 'got worse'}: {len(flips)}"
        yield paint(title, "bold", "green" if better else "red")
        for flip in flips[:most]:
            yield from _flip(flip, paint)
        if len(flips) > most:
            yield paint(f"  and {len(flips) - most} more; --json has them all", "dim")


_HEAD = ("", "rows", "before", "after", "points", "better", "worse", "McNemar")


def _compared(found: Comparison) -> str:
    parts = [f"{counted(found.shared, 'row')} compared"]
    others = (
        (found.not_judged, "not judged in one of them"),
        (found.reworded, "with another prompt or label"),
        (found.only_before, "only before"),
        (found.only_after, "only after"),
    )
    return ", ".join([*parts, *(f"{count} {words}" for count, words in others if count)])


def _row(name: str, paired: Paired) -> tuple[str, ...]:
    rows = paired.rows
    return (
        name,
        str(rows),
        percent(paired.right_before / rows if rows else None),
        percent(paired.right_after / rows if rows else None),
        points(paired.change),
        str(paired.better),
        str(paired.worse),
        likelihood(paired.p),
    )


def _groups(sides: tuple[Side, Side], kind: str, paint: Paint) -> Iterator[str]:
    for side in sides:
        groups = side.groups.get(kind)
        if groups:
            yield ""
            head = (f"{side.name} by {kind}", *_HEAD[1:])
            yield from columns(head, [_row(name, one) for name, one in groups.items()], paint)


def _flip(flip: Flip, paint: Paint) -> Iterator[str]:
    colour = "red" if flip.label == "harmful" else "green"
    facts = paint(f"({flip.before} -> {flip.after})", "dim")
    yield f"  {paint(flip.label, colour)} {one_line(flip.row_id)} {facts}"
    yield f"    {excerpt(flip.prompt)}"
