"""`demur eval compare`: list the rows that flipped between two runs, and test for noise."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from demur.cli.eval_options import add_scoring_options
from demur.cli.files import write_file
from demur.cli.terminal import Paint
from demur.errors import one_line
from demur.evals.compare import (
    RunComparison,
    OutcomeFlip,
    PairedChange,
    SideComparison,
    compare_runs,
)
from demur.evals.curve import make_point
from demur.evals.curve_svg import curve_svg
from demur.evals.figures import (
    align_columns,
    format_count,
    make_excerpt,
    format_p_value,
    format_percent,
    format_difference,
)
from demur.evals.report import DIMENSIONS, make_report
from demur.evals.run import open_run

__all__ = ["format_comparison", "configure_eval_compare", "run_eval_compare"]


def configure_eval_compare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 compared; 1 an error; 2 usage"
    parser.add_argument("before", type=Path, metavar="BEFORE", help="the folder of a run")
    parser.add_argument("after", type=Path, metavar="AFTER", help="the folder of a later run")
    add_scoring_options(parser)
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


def run_eval_compare(args: argparse.Namespace) -> int:
    """Print the comparison."""
    runs = open_run(args.before), open_run(args.after)
    found = compare_runs(*runs, partials=args.partials, workers=args.jobs)
    if args.svg:
        reports = [make_report(one, partials=args.partials, examples=0) for one in runs]
        drawn = [make_point(report, series="change") for report in reports]
        write_file(args.svg, curve_svg(drawn, title=f"{found.before} and {found.after}"))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print(
            "\n".join(
                format_comparison(
                    found, Paint(), max_flips=max(args.flips, 0), dimensions=args.by or ("pattern",)
                )
            )
        )
    return 0


def format_comparison(
    found: RunComparison, paint: Paint, *, max_flips: int, dimensions: Sequence[str]
) -> Iterator[str]:
    """Yield a comparison as lines of text."""
    yield paint(one_line(f"{found.before} -> {found.after}"), "bold")
    yield paint(_describe_rows(found), "dim")
    yield ""
    sides = (found.safety, found.utility)
    yield from align_columns(
        _COMPARISON_HEAD, [_paired_row(side.name, side.total) for side in sides], paint
    )
    for kind in dimensions:
        yield from _format_groups(sides, kind, paint)
    for better in (False, True):
        flips = [flip for flip in found.flips if flip.better is better]
        yield ""
        title = f"{'got better' if better else 'got worse'}: {len(flips)}"
        yield paint(title, "bold", "green" if better else "red")
        for flip in flips[:max_flips]:
            yield from _format_flip(flip, paint)
        if len(flips) > max_flips:
            yield paint(f"  and {len(flips) - max_flips} more; --json has them all", "dim")


_COMPARISON_HEAD = ("", "rows", "before", "after", "points", "better", "worse", "McNemar")


def _describe_rows(found: RunComparison) -> str:
    parts = [f"{format_count(found.shared, 'row')} compared"]
    others = (
        (found.not_judged, "not judged in one of them"),
        (found.reworded, "with another prompt or label"),
        (found.only_before, "only before"),
        (found.only_after, "only after"),
    )
    return ", ".join([*parts, *(f"{count} {words}" for count, words in others if count)])


def _paired_row(name: str, paired: PairedChange) -> tuple[str, ...]:
    rows = paired.rows
    return (
        name,
        str(rows),
        format_percent(paired.right_before / rows if rows else None),
        format_percent(paired.right_after / rows if rows else None),
        format_difference(paired.change),
        str(paired.better),
        str(paired.worse),
        format_p_value(paired.p),
    )


def _format_groups(
    sides: tuple[SideComparison, SideComparison], kind: str, paint: Paint
) -> Iterator[str]:
    for side in sides:
        groups = side.groups.get(kind)
        if groups:
            yield ""
            head = (f"{side.name} by {kind}", *_COMPARISON_HEAD[1:])
            yield from align_columns(
                head, [_paired_row(name, one) for name, one in groups.items()], paint
            )


def _format_flip(flip: OutcomeFlip, paint: Paint) -> Iterator[str]:
    colour = "red" if flip.label == "harmful" else "green"
    facts = paint(f"({flip.before} -> {flip.after})", "dim")
    yield f"  {paint(flip.label, colour)} {one_line(flip.row_id)} {facts}"
    yield f"    {make_excerpt(flip.prompt)}"
