"""`demur policy lint`: find what is probably not meant in policies."""

import argparse
import json
from collections.abc import Sequence

from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.usage.rules import Level
from demur.errors import PolicyError, one_line
from demur.policy.lint import PolicyRemark, invalid_policy, lint_policy
from demur.policy.loader import load_policy

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 nothing wrong, or warnings alone; 1 an error; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a policy file")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors do")
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="FILE",
        help="also know the codes of this organisation's registry; may be given often",
    )
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")


def run(args: argparse.Namespace) -> int:
    """Print the remarks; 1 if any of them counts."""
    registry = default_registry(*args.registry)
    remarks = [remark for path in args.paths for remark in _remarks(path, registry)]
    if args.json:
        print(json.dumps([remark._asdict() for remark in remarks], indent=2))
    else:
        _print(remarks)
    return int(any(args.strict or remark.level is Level.ERROR for remark in remarks))


def _remarks(path: str, registry: Registry) -> list[PolicyRemark]:
    try:
        return lint_policy(load_policy(path, registry=registry), registry)
    except PolicyError as error:
        return [invalid_policy(problem) for problem in error.problems]


def _print(remarks: Sequence[PolicyRemark]) -> None:
    paint = Paint()
    for remark in remarks:
        colour = "red" if remark.level is Level.ERROR else "yellow"
        label = paint(f"{remark.level}[{remark.rule}]", "bold", colour)
        print(f"{one_line(remark.where)}: {label} {one_line(remark.message)}")
        if remark.help:
            print(f"  {paint('help:', 'cyan')} {one_line(remark.help)}")
    print(paint(_count(remarks), "dim"))


def _count(remarks: Sequence[PolicyRemark]) -> str:
    if not remarks:
        return "nothing to remark"
    errors = sum(remark.level is Level.ERROR for remark in remarks)
    warned = len(remarks) - errors
    return f"{errors} error{'s' * (errors != 1)}, {warned} warning{'s' * (warned != 1)}"
