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

from demur.cli.eval_remediate import left_out_lines
from demur.cli.files import write
from demur.cli.terminal import Paint
from demur.errors import InputError, MissingExtraError, one_line
from demur.evals.curve import Point as CurvePoint
from demur.evals.curve_svg import curve_svg
from demur.evals.dpo import Sweep, SweepOptions, Tuner, apart_from, run_sweep
from demur.evals.dpo_point import Point, point_lines, point_name
from demur.evals.figures import percent
from demur.evals.leaks import TEST_SHARE, split_suite
from demur.evals.pairs import LeftOut, read_pairs
from demur.evals.suite import Suite, load_suite

__all__ = ["configure", "run"]

_NEEDED = ("torch", "transformers", "datasets", "trl")
_CURVE = "curve.svg"
_OWN: dict[str, tuple[type, str]] = {
    "epochs": (float, "passes over the pairs (3)"),
    "max_steps": (int, "maximum number of training steps"),
    "learning_rate": (float, "learning rate of the optimiser (1e-6)"),
    "batch_size": (int, "pairs per step (4)"),
    "max_length": (int, "maximum tokens of a prompt and its answer (1024)"),
    "max_new_tokens": (int, "maximum tokens of a measured answer (128)"),
    "seed": (int, "random seed (0)"),
    "limit": (int, "maximum number of rows per suite"),
}


def configure(parser: argparse.ArgumentParser) -> None:
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
    for name, (kind, text) in _OWN.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=text)
    parser.add_argument("--keep-models", action="store_true", help="keep every trained model")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    """Train, measure, and show the points."""
    options = _options(args)
    given, chat = read_pairs(args.pairs)
    suites = [_suite(name, args) for name in args.suite or ["builtin"]]
    pairs, left_out = apart_from(given, suites)
    if not pairs:
        problem = "every pair is near a row of a measured suite"
        raise InputError(problem, where=str(args.pairs), help=_HELP)
    tuner = _tuner(args.model, options, chat=chat)
    sweep = asyncio.run(run_sweep(tuner, pairs, suites, args.out, options, told=_tell))
    write(args.out / _CURVE, curve_svg(list(_curve(sweep)), title="safety and utility by beta"))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(sweep), indent=2).decode())
    else:
        print("\n".join(_lines(args, sweep, left_out)))
    return 0


_HELP = "make pairs with `demur eval remediate --split train`, and measure with `--split test`"


def _options(args: argparse.Namespace) -> SweepOptions:
    named = {name: getattr(args, name) for name in _OWN}
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


def _suite(name: str, args: argparse.Namespace) -> Suite:
    suite = load_suite(name)
    return split_suite(suite, "test", args.test_share) if args.split == "test" else suite


def _tuner(model: Path, options: SweepOptions, *, chat: bool) -> Tuner:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        problem = f"training needs the `{missing[0]}` package"
        raise MissingExtraError(problem, help="pip install 'demur[train]'")
    module = import_module("demur.evals.dpo_train")
    tuner: Tuner = module.TrlTuner(model, options, chat=chat)
    return tuner


def _tell(point: Point) -> None:
    rates = point.rates
    shown = f"safety {percent(rates.safety.value)}, utility {percent(rates.utility.value)}"
    print(f"{point_name(point.beta)}: {shown}", file=sys.stderr)


def _curve(sweep: Sweep) -> Iterator[CurvePoint]:
    for point in sweep.points:
        yield CurvePoint(
            name=point_name(point.beta),
            safety=point.rates.safety,
            utility=point.rates.utility,
            series="" if point.beta is None else "beta",
        )


def _lines(args: argparse.Namespace, sweep: Sweep, left_out: list[LeftOut]) -> Iterator[str]:
    paint = Paint()
    plan = sweep.plan
    yield f"model     {one_line(plan.model)}"
    yield f"pairs     {plan.pairs}"
    yield from left_out_lines(left_out)
    yield f"suites    {one_line(', '.join(plan.suites))}"
    yield ""
    head, *rows = point_lines(sweep.points)
    yield paint(head, "dim")
    yield from rows
    yield ""
    for note in sweep.notes:
        colour = "yellow" if note.verdict in {"disagrees", "beware"} else "dim"
        yield f"{paint(f'{note.verdict}:', colour)} {note.text}"
    yield f"wrote     {one_line(str(args.out / _CURVE))}"
