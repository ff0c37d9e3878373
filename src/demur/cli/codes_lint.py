"""`demur codes lint`: find misused codes in Python sources and YAML policies."""

import argparse
import json
from collections.abc import Sequence

from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.codes.usage.lint import Usage, lint_paths
from demur.codes.usage.rules import Level
from demur.codes.usage.sarif import as_sarif
from demur.errors import one_line

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 nothing wrong, or warnings alone; 1 an error; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder to walk")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors do")
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="FILE",
        help="also know the codes of this organisation's registry; may be given often",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of JSON objects")
    form.add_argument("--sarif", action="store_true", help="a SARIF 2.1.0 log")


def run(args: argparse.Namespace) -> int:
    """Print what is wrong; 1 if anything counts."""
    usages = lint_paths(args.paths, default_registry(*args.registry))
    if args.json:
        print(json.dumps([usage._asdict() for usage in usages], indent=2))
    elif args.sarif:
        print(json.dumps(as_sarif(usages), indent=2))
    else:
        _print(usages)
    return int(any(args.strict or usage.severity is Level.ERROR for usage in usages))


def _print(usages: Sequence[Usage]) -> None:
    paint = Paint()
    for usage in usages:
        colour = "red" if usage.severity is Level.ERROR else "yellow"
        label = paint(f"{usage.severity}[{usage.rule}]", "bold", colour)
        print(f"{one_line(usage.path)}:{usage.line}:{usage.column}: {label} {usage.message}")
        print(f"  {paint('help:', 'cyan')} {usage.help}")
    print(paint(_count(usages), "dim"))


def _count(usages: Sequence[Usage]) -> str:
    if not usages:
        return "no misused codes"
    errors = sum(usage.severity is Level.ERROR for usage in usages)
    warned = len(usages) - errors
    return f"{errors} error{'s' * (errors != 1)}, {warned} warning{'s' * (warned != 1)}"
