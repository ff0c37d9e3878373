"""`demur format`: print a refusal line, for scripts."""

import argparse
import sys

import msgspec

from demur.codes.default import default_registry
from demur.codes.line import format_refusal
from demur.model.refusal import Refusal

__all__ = ["configure_format", "run_format"]


def configure_format(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("code", metavar="CODE", help="a registered reason code")
    parser.add_argument(
        "detail", nargs="?", default="", help="the detail; `-` reads it from standard input"
    )
    parser.add_argument("--json", action="store_true", help="the whole refusal as JSON")


def run_format(args: argparse.Namespace) -> int:
    """Print the line."""
    detail = _read_standard_input() if args.detail == "-" else args.detail
    registry = default_registry()
    if args.json:
        refusal = Refusal.from_code(args.code, detail, registry=registry)
        print(msgspec.json.encode(refusal).decode())
    else:
        print(format_refusal(args.code, detail, registry=registry))
    return 0


def _read_standard_input() -> str:
    # Bytes that are not UTF-8 become lone surrogates, as they do in arguments.
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").rstrip("\r\n")
