"""`demur codes export`: the registry for other languages, tools and readers."""

import argparse
import sys
from pathlib import Path

from demur.cli.options import add_registry_option
from demur.codes.default import default_registry
from demur.codes.export import EXPORT_FORMATS
from demur.errors import InputError

__all__ = ["configure_codes_export", "run_codes_export"]


def configure_codes_export(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    forms = sorted(EXPORT_FORMATS)
    parser.add_argument(
        "--to", required=True, choices=forms, metavar="FORM", help=f"one of {', '.join(forms)}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write to this file; default: standard output"
    )
    add_registry_option(parser)


def run_codes_export(args: argparse.Namespace) -> int:
    """Write the registry in the chosen format."""
    content = EXPORT_FORMATS[args.to](default_registry(*args.registry))
    if args.out is None:
        sys.stdout.write(content)
    else:
        _write_text(args.out, content)
    return 0


def _write_text(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", newline="\n")
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error
