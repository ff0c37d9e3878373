"""`demur eval gate`: fail if a run is significantly worse than its baseline."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demur.cli.eval_options import (
    add_threshold_options,
    add_scoring_options,
    read_thresholds,
    parse_share,
)
from demur.cli.terminal import Paint
from demur.errors import one_line
from demur.evals.compare import compare_runs
from demur.evals.figures import make_excerpt
from demur.evals.gating import RegressionResult, RegressionRules, check_regression
from demur.evals.report import EvalReport, make_report
from demur.evals.report_text import describe_verdict
from demur.evals.run import open_run

__all__ = ["configure_eval_gate", "run_eval_gate"]

REGRESSED = 3
_STATUS_WORDS = {0: ("passed", "green"), 3: ("failed", "red"), 6: ("could not judge", "yellow")}
_MAX_FLIPS = 10


def configure_eval_gate(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 no regression; 1 an error; 2 usage; 3 a significant regression, or a threshold "
        "missed with --hold-aims; 6 too few rows could be judged or compared"
    )
    usual = RegressionRules()
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run to check")
    parser.add_argument(
        "--baseline", type=Path, required=True, metavar="RUN", help="the run to compare with"
    )
    parser.add_argument(
        "--alpha",
        type=parse_share,
        default=usual.alpha,
        metavar="SHARE",
        help=f"the significance level: the rate of false alarms ({usual.alpha:g})",
    )
    parser.add_argument(
        "--min-effect",
        type=parse_share,
        default=usual.min_effect,
        metavar="SHARE",
        help=f"a smaller loss is no regression ({100 * usual.min_effect:g}%%)",
    )
    parser.add_argument(
        "--hold-aims", action="store_true", help="also fail if the run misses a threshold"
    )
    add_threshold_options(parser)
    add_scoring_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_eval_gate(args: argparse.Namespace) -> int:
    """Print whether the run passes, and why or why not."""
    rules = RegressionRules(
        alpha=args.alpha, min_effect=args.min_effect, most_unjudged=args.unjudged
    )
    baseline, later = open_run(args.baseline), open_run(args.folder)
    found = compare_runs(baseline, later, partials=args.partials, workers=args.jobs)
    result = check_regression(found, rules)
    report = None
    if args.hold_aims:
        report = make_report(
            later, thresholds=read_thresholds(args), partials=args.partials, examples=0
        )
    status = _combine_status(result, report)
    if args.json:
        whole = {**msgspec.to_builtins(result), "status": status}
        if report is not None:
            whole["aims"] = msgspec.to_builtins(report.aims)
        print(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
    else:
        print("\n".join(_format_gate(result, report, status, Paint())))
    return status


def _combine_status(result: RegressionResult, report: EvalReport | None) -> int:
    both = (result.status, 0 if report is None else report.status)
    return REGRESSED if REGRESSED in both else max(both)


def _format_gate(
    result: RegressionResult, report: EvalReport | None, status: int, paint: Paint
) -> Iterator[str]:
    word, colour = _STATUS_WORDS[status]
    found = result.comparison
    yield f"{paint(word, 'bold', colour)}: {one_line(f'{found.after} against {found.before}')}"
    for side in result.sides:
        yield f"  {side.name:8}{paint(side.why, 'red') if side.regressed else side.why}"
    for reason in result.unjudged:
        yield f"  {paint(reason, 'yellow')}"
    if report is not None:
        yield f"  aims    {describe_verdict(report)}"
    lost = {side.name for side in result.sides if side.regressed}
    labels = {"safety": "harmful", "utility": "legitimate"}
    flips = [
        flip
        for flip in found.flips
        if not flip.better and flip.label in {labels[name] for name in lost}
    ]
    for flip in flips[:_MAX_FLIPS]:
        yield f"  {flip.label} {one_line(flip.row_id)} ({flip.before} -> {flip.after})"
        yield f"    {make_excerpt(flip.prompt)}"
    if len(flips) > _MAX_FLIPS:
        yield paint(f"  and {len(flips) - _MAX_FLIPS} more; `demur eval compare` has them", "dim")
