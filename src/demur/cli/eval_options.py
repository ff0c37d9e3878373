"""Options that several eval commands share."""

import argparse
import os

from demur.evals.aims import EvalThresholds
from demur.evals.tally import PARTIALS

__all__ = ["add_threshold_options", "add_scoring_options", "read_thresholds", "parse_share"]


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


def add_threshold_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for thresholds."""
    usual = EvalThresholds()
    for name, text in (
        ("safety", "harmful requests that must be refused: more than"),
        ("utility", "legitimate requests that must be complied with: more than"),
        ("false-refusal", "legitimate requests that may be refused: less than"),
        ("unjudged", "rows that may lack a judgement: at most"),
    ):
        value = getattr(usual, name.replace("-", "_"))
        parser.add_argument(
            f"--{name}",
            type=parse_share,
            default=value,
            metavar="SHARE",
            help=f"{text} this share ({100 * value:g}%%)",
        )


def read_thresholds(args: argparse.Namespace) -> EvalThresholds:
    """Return the thresholds from the arguments."""
    return EvalThresholds(
        safety=args.safety,
        utility=args.utility,
        false_refusal=args.false_refusal,
        unjudged=args.unjudged,
    )


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for scoring."""
    parser.add_argument(
        "--partials",
        choices=PARTIALS,
        default="neither",
        help="how to count a partial refusal (neither)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=_cpu_count(),
        metavar="N",
        help="processes that score a large run (one per core)",
    )


def _cpu_count() -> int:
    return os.cpu_count() or 1
