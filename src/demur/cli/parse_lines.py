"""`demur parse`: find the refusals in lines of text, for scripts."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from demur.codes.default import default_registry
from demur.codes.find import FoundRefusal, find_refusals
from demur.codes.line import format_refusal
from demur.codes.registry import Registry

__all__ = ["configure_parse", "run_parse"]

REFUSED = 3


def configure_parse(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="the files to read; default, or `-`: standard input",
    )
    parser.add_argument("--text", help="read this text instead")
    parser.add_argument("--json", action="store_true", help="one JSON object per refusal")
    parser.add_argument(
        "--check", action="store_true", help=f"exit with {REFUSED} if there is any refusal"
    )


def run_parse(args: argparse.Namespace) -> int:
    """Print each refusal as its canonical line, or as JSON."""
    registry = default_registry()
    seen = False
    for line in _read_lines(args.files) if args.text is None else [args.text]:
        for refusal in find_refusals(line, registry=registry):
            seen = True
            print(
                _refusal_to_json(refusal, registry)
                if args.json
                else _canonical_line(refusal, registry)
            )
    return REFUSED if args.check and seen else 0


def _read_lines(files: list[str]) -> Iterator[str]:
    for name in files or ["-"]:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as stream:
            # Logs are not always UTF-8; undecodable bytes become lone surrogates.
            for raw in stream:
                yield raw.decode("utf-8", "surrogateescape")


def _canonical_line(refusal: FoundRefusal, registry: Registry) -> str:
    return format_refusal(refusal.code, refusal.detail, registry=registry)


def _refusal_to_json(refusal: FoundRefusal, registry: Registry) -> str:
    entry = registry[refusal.code]
    return json.dumps(
        {
            "code": entry.code,
            "detail": refusal.detail,
            "refusal_class": entry.refusal_class,
            "advice": entry.advice,
            "decided": entry.decided,
            "legacy": refusal.legacy,
        }
    )
