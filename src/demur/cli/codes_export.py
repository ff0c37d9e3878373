"""`demur codes export`: the registry for other languages, tools and readers."""

import argparse
import sys
from pathlib import Path

from demur.cli.options import add_registry
from demur.codes.default import default_registry
from demur.codes.export import FORMS
from demur.errors import InputError

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    forms = sorted(FORMS)
    parser.add_argument(
        "--to", required=True, choices=forms, metavar="FORM", help=f"one of {', '.join(forms)}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write to this file; default: standard output"
    )
    add_registry(parser)


def run(args: argparse.Namespace) -> int:
    """Write the registry in the chosen format."""
    content = FORMS[args.to](default_registry(*args.registry))
    if args.out is None:
        sys.stdout.write(content)
    else:
        _write(args.out, content)
    return 0


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", newline="\n")
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error
