"""`demur eval report`: report a run against its thresholds, with examples to read first."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.eval_options import add_threshold_options, add_scoring_options, read_thresholds
from demur.cli.files import write_file
from demur.cli.terminal import Paint
from demur.errors import InputError
from demur.evals.curve import threshold_points
from demur.evals.curve_svg import curve_svg
from demur.evals.judge import judge_run
from demur.evals.labels import merge_labels, read_labels, iter_reviews
from demur.evals.report import EvalReport, make_report, save_report
from demur.evals.report_html import report_html
from demur.evals.report_text import report_text
from demur.evals.row_index import RowIndex
from demur.evals.run import EvalRun, open_run
from demur.evals.targets.opening import open_target
from demur.store.opening import open_store

__all__ = ["configure_eval_report", "run_eval_report"]

_REPORT_EPILOG = (
    "exit: 0 every threshold is met; 1 an error; 2 usage; 3 a threshold is missed; "
    "6 too many rows could not be judged"
)


def configure_eval_report(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _REPORT_EPILOG
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    add_threshold_options(parser)
    add_scoring_options(parser)
    parser.add_argument(
        "--examples", type=int, default=5, metavar="N", help="example answers of each kind (5)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a standalone page")
    parser.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="also plot the curve over the detector's thresholds",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="add human labels to the run: JSON lines with `id` and `outcome`",
    )
    parser.add_argument(
        "--labels-from",
        metavar="STORE",
        help="add reviews of decisions, for a run of their recorded answers",
    )
    parser.add_argument("--judge", metavar="TARGET", help="also let this target judge the answers")
    parser.add_argument(
        "--judge-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the judge, like `model=...`; repeatable",
    )
    parser.add_argument(
        "--judge-limit", type=int, metavar="N", help="maximum number of answers to judge"
    )
    parser.add_argument(
        "--decide-by",
        choices=("detect", "judge"),
        help="which verdict counts if the judge gave one (default: as before, or detect)",
    )
    parser.add_argument("--rescore", action="store_true", help="score again, even if scores exist")


def run_eval_report(args: argparse.Namespace) -> int:
    """Print the report and return its status."""
    opened = open_run(args.folder)
    if args.examples < 0:
        raise InputError(f"--examples must be 0 or more, not `{args.examples}`", where="--examples")
    _take_labels(opened, args)
    if args.judge is not None:
        _ask_judge(opened, args)
    report = make_report(
        opened,
        thresholds=read_thresholds(args),
        partials=args.partials,
        examples=args.examples,
        decide_by=args.decide_by,
        workers=args.jobs,
        fresh=args.rescore,
    )
    save_report(opened, report)
    _write_files(opened, report, args)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(report_text(report, Paint()))
    return report.status


def _write_files(opened: EvalRun, report: EvalReport, args: argparse.Namespace) -> None:
    points = threshold_points(opened, partials=args.partials) if args.svg or args.html else ()
    if args.svg:
        title = f"{report.run}: over the detector's thresholds"
        write_file(args.svg, curve_svg(points, thresholds=read_thresholds(args), title=title))
    if args.html:
        write_file(args.html, report_html(report, points))


def _take_labels(opened: EvalRun, args: argparse.Namespace) -> None:
    if args.labels is None and args.labels_from is None:
        return
    with RowIndex(opened) as rows:
        found = {} if args.labels is None else read_labels(args.labels, rows)
        if args.labels_from is not None:
            if opened.manifest.target.settings.get("kind") != "recorded":
                raise InputError(
                    "reviews apply to recorded answers only, not to new ones",
                    where="--labels-from",
                    help="use it on a run of `recorded:` answers",
                )
            with open_store(args.labels_from) as store:
                found = {**dict(iter_reviews(store, rows)), **found}
    merge_labels(opened, found)
    print(f"human labels added: {len(found)}", file=sys.stderr)


def _ask_judge(opened: EvalRun, args: argparse.Namespace) -> None:
    options: dict[str, Any] = {}
    for pair in args.judge_set:
        name, given, value = pair.partition("=")
        if not given:
            raise InputError(f"not an option: `{pair}`", where="--judge-set", help="like `model=x`")
        options[name.replace("-", "_")] = value

    async def ask() -> None:
        judge = open_target(args.judge, **options)
        try:
            done = await judge_run(opened, judge, limit=args.judge_limit)
        finally:
            await judge.close()
        print(
            f"judge: {done.asked} asked, {done.unclear} unclear, {done.errors} errors",
            file=sys.stderr,
        )

    asyncio.run(ask())
