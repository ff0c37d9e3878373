"""`demur policy lint`: find probable mistakes in policies."""

import argparse
import json

from demur.cli.options import add_registry_option
from demur.cli.remarks import LintDiagnostic, print_diagnostics
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.usage.rules import LintLevel
from demur.errors import PolicyError
from demur.policy.lint import PolicyDiagnostic, diagnose_problem, lint_policy
from demur.policy.loader import load_policy

__all__ = ["configure_policy_lint", "run_policy_lint"]


def configure_policy_lint(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 no errors; 1 an error; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a policy file")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")


def run_policy_lint(args: argparse.Namespace) -> int:
    """Print the diagnostics; 1 if any of them is an error."""
    registry = default_registry(*args.registry)
    remarks = [remark for path in args.paths for remark in _lint_file(path, registry)]
    if args.json:
        print(json.dumps([remark._asdict() for remark in remarks], indent=2))
    else:
        print_diagnostics(map(_policy_diagnostic, remarks), "no diagnostics")
    return int(any(args.strict or remark.level is LintLevel.ERROR for remark in remarks))


def _lint_file(path: str, registry: Registry) -> list[PolicyDiagnostic]:
    try:
        return lint_policy(load_policy(path, registry=registry), registry)
    except PolicyError as error:
        return [diagnose_problem(problem) for problem in error.problems]


def _policy_diagnostic(remark: PolicyDiagnostic) -> LintDiagnostic:
    return LintDiagnostic(remark.where, remark.level, remark.rule, remark.message, remark.help)
