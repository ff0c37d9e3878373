"""`demur policy lint`: find probable mistakes in policies."""

import argparse
import json

from demur.cli.options import add_registry
from demur.cli.remarks import Remark, print_remarks
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.usage.rules import Level
from demur.errors import PolicyError
from demur.policy.lint import PolicyRemark, invalid_policy, lint_policy
from demur.policy.loader import load_policy

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 no errors; 1 an error; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a policy file")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_registry(parser)
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")


def run(args: argparse.Namespace) -> int:
    """Print the diagnostics; 1 if any of them is an error."""
    registry = default_registry(*args.registry)
    remarks = [remark for path in args.paths for remark in _remarks(path, registry)]
    if args.json:
        print(json.dumps([remark._asdict() for remark in remarks], indent=2))
    else:
        print_remarks(map(_remark, remarks), "no diagnostics")
    return int(any(args.strict or remark.level is Level.ERROR for remark in remarks))


def _remarks(path: str, registry: Registry) -> list[PolicyRemark]:
    try:
        return lint_policy(load_policy(path, registry=registry), registry)
    except PolicyError as error:
        return [invalid_policy(problem) for problem in error.problems]


def _remark(remark: PolicyRemark) -> Remark:
    return Remark(remark.where, remark.level, remark.rule, remark.message, remark.help)
