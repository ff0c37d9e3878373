"""`demur codes explain`: print what one code means and what to do about it."""

import argparse
import json

from demur.cli.terminal import Paint, wrap_text
from demur.codes.default import default_registry
from demur.codes.explain import render_sections, explanation_sections

__all__ = ["configure_codes_explain", "run_codes_explain"]


def configure_codes_explain(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("code", metavar="CODE", help="a registered reason code")
    parser.add_argument("--json", action="store_true", help="the whole entry as JSON")


def run_codes_explain(args: argparse.Namespace) -> int:
    """Print the explanation, or the entry."""
    registry = default_registry()
    entry = registry[args.code]
    if args.json:
        print(json.dumps(entry.as_json(), indent=2))
        return 0
    paint = Paint()
    print(
        render_sections(
            explanation_sections(entry, registry), wrap_text, lambda heading: paint(heading, "bold")
        )
    )
    return 0
