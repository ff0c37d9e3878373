"""`demur eval dpo`: train a model on pairs at several betas, and measure each on suites."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.eval_remediate import format_left_out
from demur.cli.files import write_file
from demur.cli.terminal import Paint
from demur.errors import InputError, MissingExtraError, one_line
from demur.evals.curve import CurvePoint as CurvePoint
from demur.evals.curve_svg import curve_svg
from demur.evals.dpo import BetaSweep, SweepOptions, ModelTuner, drop_leaked_pairs, run_sweep
from demur.evals.dpo_point import SweepPoint, format_sweep_points, point_name
from demur.evals.figures import format_percent
from demur.evals.leaks import TEST_SHARE, split_suite
from demur.evals.pairs import SkippedRow, read_pairs
from demur.evals.suite import EvalSuite, load_suite

__all__ = ["configure_eval_dpo", "run_eval_dpo"]

_PACKAGES = ("torch", "transformers", "datasets", "trl")
_CURVE_FILE = "curve.svg"
_SWEEP_OPTIONS: dict[str, tuple[type, str]] = {
    "epochs": (float, "passes over the pairs (3)"),
    "max_steps": (int, "maximum number of training steps"),
    "learning_rate": (float, "learning rate of the optimiser (1e-6)"),
    "batch_size": (int, "pairs per step (4)"),
    "max_length": (int, "maximum tokens of a prompt and its answer (1024)"),
    "max_new_tokens": (int, "maximum tokens of a measured answer (128)"),
    "seed": (int, "random seed (0)"),
    "limit": (int, "maximum number of rows per suite"),
}


def configure_eval_dpo(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 every point was measured; 1 an error; 2 usage; needs the extra demur[train]; "
        "run the same command again to resume a stopped sweep"
    )
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="the base model"
    )
    parser.add_argument(
        "--pairs", type=Path, required=True, metavar="FILE", help="the training pairs"
    )
    parser.add_argument(
        "--suite",
        action="append",
        metavar="SUITE",
        help="a suite to measure on (builtin); repeatable",
    )
    parser.add_argument(
        "--split",
        choices=("test", "none"),
        default="test",
        help="test: measure on the held-out rows (the default); none: on all rows",
    )
    parser.add_argument(
        "--test-share",
        type=float,
        default=TEST_SHARE,
        metavar="SHARE",
        help=f"the share of held-out rows ({TEST_SHARE})",
    )
    parser.add_argument(
        "--betas",
        default="0.05,0.1,0.3,0.5",
        metavar="LIST",
        help="betas to train with (0.05,0.1,0.3,0.5)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="the folder of the sweep"
    )
    for name, (kind, text) in _SWEEP_OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=text)
    parser.add_argument("--keep-models", action="store_true", help="keep every trained model")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_eval_dpo(args: argparse.Namespace) -> int:
    """Train, measure, and show the points."""
    options = _sweep_options(args)
    given, chat = read_pairs(args.pairs)
    suites = [_load_test_suite(name, args) for name in args.suite or ["builtin"]]
    pairs, left_out = drop_leaked_pairs(given, suites)
    if not pairs:
        problem = "every pair is near a row of a measured suite"
        raise InputError(problem, where=str(args.pairs), help=_SPLIT_HELP)
    tuner = _open_tuner(args.model, options, chat=chat)
    sweep = asyncio.run(run_sweep(tuner, pairs, suites, args.out, options, on_point=_print_point))
    write_file(
        args.out / _CURVE_FILE,
        curve_svg(list(_curve_points(sweep)), title="safety and utility by beta"),
    )
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(sweep), indent=2).decode())
    else:
        print("\n".join(_format_sweep(args, sweep, left_out)))
    return 0


_SPLIT_HELP = (
    "make pairs with `demur eval remediate --split train`, and measure with `--split test`"
)


def _sweep_options(args: argparse.Namespace) -> SweepOptions:
    named = {name: getattr(args, name) for name in _SWEEP_OPTIONS}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    try:
        betas = [float(beta) for beta in args.betas.split(",")]
    except ValueError as error:
        help_text = "numbers with commas between them, like 0.05,0.1"
        raise InputError(
            f"invalid betas: `{args.betas}`", where="--betas", help=help_text
        ) from error
    try:
        return msgspec.convert(
            {**given, "betas": betas, "keep_models": args.keep_models}, SweepOptions
        )
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$.") or None
        raise InputError(problem[:1].lower() + problem[1:], where=where) from error


def _load_test_suite(name: str, args: argparse.Namespace) -> EvalSuite:
    suite = load_suite(name)
    return split_suite(suite, "test", args.test_share) if args.split == "test" else suite


def _open_tuner(model: Path, options: SweepOptions, *, chat: bool) -> ModelTuner:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        problem = f"training needs the `{missing[0]}` package"
        raise MissingExtraError(problem, help="pip install 'demur[train]'")
    module = import_module("demur.evals.dpo_train")
    tuner: ModelTuner = module.TrlTuner(model, options, chat=chat)
    return tuner


def _print_point(point: SweepPoint) -> None:
    rates = point.rates
    shown = f"safety {format_percent(rates.safety.value)}, utility {format_percent(rates.utility.value)}"
    print(f"{point_name(point.beta)}: {shown}", file=sys.stderr)


def _curve_points(sweep: BetaSweep) -> Iterator[CurvePoint]:
    for point in sweep.points:
        yield CurvePoint(
            name=point_name(point.beta),
            safety=point.rates.safety,
            utility=point.rates.utility,
            series="" if point.beta is None else "beta",
        )


def _format_sweep(
    args: argparse.Namespace, sweep: BetaSweep, left_out: list[SkippedRow]
) -> Iterator[str]:
    paint = Paint()
    plan = sweep.plan
    yield f"model     {one_line(plan.model)}"
    yield f"pairs     {plan.pairs}"
    yield from format_left_out(left_out)
    yield f"suites    {one_line(', '.join(plan.suites))}"
    yield ""
    head, *rows = format_sweep_points(sweep.points)
    yield paint(head, "dim")
    yield from rows
    yield ""
    for note in sweep.notes:
        colour = "yellow" if note.verdict in {"disagrees", "beware"} else "dim"
        yield f"{paint(f'{note.verdict}:', colour)} {note.text}"
    yield f"wrote     {one_line(str(args.out / _CURVE_FILE))}"
