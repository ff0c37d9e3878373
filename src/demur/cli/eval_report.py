"""`demur eval report`, `compare`, `gate` and `history`: score runs and compare them."""

import argparse
import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_pairs, usage_errors, write_file
from demur.cli.terminal import Paint
from demur.errors import one_line
from demur.evals.compare import (
    PairedChange,
    RegressionResult,
    RegressionRules,
    RunComparison,
    SideComparison,
    check_regression,
    compare_runs,
)
from demur.evals.curve import CurvePoint, curve_svg, make_point, threshold_points
from demur.evals.figures import (
    align_columns,
    format_count,
    format_difference,
    format_p_value,
    format_percent,
    make_excerpt,
)
from demur.evals.history import HistoryEntry, RunHistory, read_history
from demur.evals.rates import PARTIALS, EvalThresholds
from demur.evals.report import DIMENSIONS, EvalReport, make_report, save_report
from demur.evals.report_html import report_html
from demur.evals.report_text import VERDICTS, describe_verdict, report_text
from demur.evals.run_folder import EvalRun, RowIndex, open_run
from demur.evals.targets import open_target
from demur.evals.verdicts import iter_reviews, judge_run, merge_labels, read_labels
from demur.store.opening import open_store


def parse_share(word: str) -> float:
    """Parse a share like `0.95` or `95%`.

    Raises:
        argparse.ArgumentTypeError: The word is not a share.
    """
    try:
        value = float(word.strip().removesuffix("%")) / (100 if "%" in word else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"`{word}` is not a share; write `0.95` or `95%`")
    return value


def add_threshold_options(add: Arguments) -> None:
    """Add the options for thresholds."""
    usual = EvalThresholds()
    for name, text in (
        ("safety", "harmful requests that must be refused: more than"),
        ("utility", "legitimate requests that must be complied with: more than"),
        ("false-refusal", "legitimate requests that may be refused: less than"),
        ("unjudged", "rows that may lack a judgement: at most"),
    ):
        value = getattr(usual, name.replace("-", "_"))
        help_text = f"{text} this share ({100 * value:g}%%)"
        add(f"--{name} SHARE", help_text, type=parse_share, default=value)


def read_thresholds(args: Namespace) -> EvalThresholds:
    """Return the thresholds from the arguments."""
    return EvalThresholds(
        safety=args.safety,
        utility=args.utility,
        false_refusal=args.false_refusal,
        unjudged=args.unjudged,
    )


def add_scoring_options(add: Arguments) -> None:
    """Add the options for scoring."""
    add(
        "--partials",
        "how to count a partial refusal (neither)",
        choices=PARTIALS,
        default="neither",
    )
    add("--jobs N", "processes that score a large run (one per core)", default=os.cpu_count() or 1)


def configure_eval_report(add: Arguments) -> None:
    """Add the command's arguments."""
    add("folder RUN", "the folder of a run", type=Path)
    add_threshold_options(add)
    add_scoring_options(add)
    add("--examples N", "example answers of each kind (5)", default=5)
    add("--json", "one JSON object")
    add("--html FILE", "also write a standalone page", type=Path)
    add("--svg FILE", "also plot the curve over the detector's thresholds", type=Path)
    add(
        "--labels FILE",
        "add human labels to the run: JSON lines with `id` and `outcome`",
        type=Path,
    )
    add("--labels-from STORE", "add reviews of decisions, for a run of their recorded answers")
    add("--judge TARGET", "also let this target judge the answers")
    add("--judge-set NAME=VALUE ...", "an option of the judge, like `model=...`; repeatable")
    add("--judge-limit N", "maximum number of answers to judge", type=int)
    add(
        "--decide-by",
        "which verdict counts if the judge gave one (default: as before, or detect)",
        choices=("detect", "judge"),
    )
    add("--rescore", "score again, even if scores exist")


def run_eval_report(args: Namespace) -> int:
    """Print the report and return its status."""
    opened = open_run(args.folder)
    if args.examples < 0:
        raise UsageError(f"--examples must be 0 or more, not `{args.examples}`", where="--examples")
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
    points = threshold_points(opened, partials=args.partials) if args.svg or args.html else ()
    if args.svg:
        title = f"{report.run}: over the detector's thresholds"
        write_file(args.svg, curve_svg(points, thresholds=read_thresholds(args), title=title))
    if args.html:
        write_file(args.html, report_html(report, points))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(report_text(report, Paint()))
    return report.status


def _take_labels(opened: EvalRun, args: Namespace) -> None:
    if args.labels is None and args.labels_from is None:
        return
    with RowIndex(opened) as rows:
        found = {} if args.labels is None else read_labels(args.labels, rows)
        if args.labels_from is not None:
            if opened.manifest.target.settings.get("kind") != "recorded":
                raise UsageError(
                    "reviews apply to recorded answers only, not to new ones",
                    where="--labels-from",
                    help="use it on a run of `recorded:` answers",
                )
            with open_store(args.labels_from) as store:
                found = {**dict(iter_reviews(store, rows)), **found}
    merge_labels(opened, found)
    print(f"human labels added: {len(found)}", file=sys.stderr)


def _ask_judge(opened: EvalRun, args: Namespace) -> None:
    options: dict[str, Any] = parse_pairs(args.judge_set, "--judge-set", "model=x")

    async def ask() -> None:
        with usage_errors("unknown target"):
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


def configure_eval_compare(add: Arguments) -> None:
    """Add the command's arguments."""
    add("before BEFORE", "the folder of a run", type=Path)
    add("after AFTER", "the folder of a later run", type=Path)
    add_scoring_options(add)
    add("--flips N", "flips to show of each kind (20)", default=20)
    text = "also group by this; repeatable (pattern)"
    add("--by ...", text, choices=DIMENSIONS, default=None)
    add("--json", "one JSON object, with every flip")
    add("--svg FILE", "also plot both runs to this file", type=Path)


def run_eval_compare(args: Namespace) -> int:
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
        _COMPARISON_HEAD, [_comparison_row(side.name, side.total) for side in sides], paint
    )
    for kind in dimensions:
        yield from _compare_groups(sides, kind, paint)
    for better in (False, True):
        flips = [flip for flip in found.flips if flip.better is better]
        yield ""
        title = f"{'got better' if better else 'got worse'}: {len(flips)}"
        yield paint(title, "bold", "green" if better else "red")
        for flip in flips[:max_flips]:
            colour = "red" if flip.label == "harmful" else "green"
            facts = paint(f"({flip.before} -> {flip.after})", "dim")
            yield f"  {paint(flip.label, colour)} {one_line(flip.row_id)} {facts}"
            yield f"    {make_excerpt(flip.prompt)}"
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


def _comparison_row(name: str, paired: PairedChange) -> tuple[str, ...]:
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


def _compare_groups(
    sides: tuple[SideComparison, SideComparison], kind: str, paint: Paint
) -> Iterator[str]:
    for side in sides:
        groups = side.groups.get(kind)
        if groups:
            yield ""
            head = (f"{side.name} by {kind}", *_COMPARISON_HEAD[1:])
            yield from align_columns(
                head, [_comparison_row(name, one) for name, one in groups.items()], paint
            )


REGRESSED = 3
_STATUS_WORDS = {0: ("passed", "green"), 3: ("failed", "red"), 6: ("could not judge", "yellow")}
_MAX_FLIPS = 10


def configure_eval_gate(add: Arguments) -> None:
    """Add the command's arguments."""
    usual = RegressionRules()
    add("folder RUN", "the run to check", type=Path)
    add("--baseline RUN", "the run to compare with", type=Path, required=True)
    add(
        "--alpha SHARE",
        f"the significance level: the rate of false alarms ({usual.alpha:g})",
        type=parse_share,
        default=usual.alpha,
    )
    add(
        "--min-effect SHARE",
        f"a smaller loss is no regression ({100 * usual.min_effect:g}%%)",
        type=parse_share,
        default=usual.min_effect,
    )
    add("--hold-aims", "also fail if the run misses a threshold")
    add_threshold_options(add)
    add_scoring_options(add)
    add("--json", "one JSON object")


def run_eval_gate(args: Namespace) -> int:
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
    both = (result.status, 0 if report is None else report.status)
    status = REGRESSED if REGRESSED in both else max(both)
    if args.json:
        whole = {**msgspec.to_builtins(result), "status": status}
        if report is not None:
            whole["aims"] = msgspec.to_builtins(report.aims)
        print(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
    else:
        print("\n".join(_format_gate(result, report, status, Paint())))
    return status


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


def configure_eval_history(add: Arguments) -> None:
    """Add the command's arguments."""
    add("folder FOLDER", "a folder of runs", type=Path)
    add("--suite NAME", "only runs of this suite")
    add("--target NAME", "only runs against this target")
    add_threshold_options(add)
    add_scoring_options(add)
    add("--json", "one JSON object")
    add("--svg FILE", "also plot the curve to this file", type=Path)


def run_eval_history(args: Namespace) -> int:
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
            series=f"{entry.suite} {entry.suite_version}, {entry.target}",
        )
        for entry in found.entries
    ]


def _format_history(found: RunHistory, paint: Paint) -> Iterator[str]:
    rows = [_entry_comparison_row(entry) for entry in found.entries]
    head = ("when", "run", "suite", "target", "rows", "safety", "", "utility", "", "unjudged", "")
    yield from align_columns(head, rows, paint, left=4)
    if any(entry.since for entry in found.entries):
        yield paint(
            "changes in points, from the previous run of the same target, suite and size",
            "dim",
        )


def _entry_comparison_row(entry: HistoryEntry) -> tuple[str, ...]:
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
