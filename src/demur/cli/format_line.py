"""`demur format`: write a refusal line, for scripts."""

import argparse
import sys

from demur.codes.default import default_registry
from demur.codes.line import format_refusal

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("code", metavar="CODE", help="a registered reason code")
    parser.add_argument(
        "detail", nargs="?", default="", help="what happened; `-` reads it from standard input"
    )


def run(args: argparse.Namespace) -> int:
    """Print the line."""
    detail = _standard_input() if args.detail == "-" else args.detail
    print(format_refusal(args.code, detail, registry=default_registry()))
    return 0


def _standard_input() -> str:
    # What is not UTF-8 survives as lone surrogates, as it does in an argument.
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").rstrip("\r\n")
