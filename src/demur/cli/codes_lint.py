"""`demur codes lint`: find misused codes in Python sources and YAML policies."""

import argparse
import json

from demur.cli.options import add_registry_option
from demur.cli.remarks import LintDiagnostic, print_diagnostics
from demur.codes.default import default_registry
from demur.codes.usage.lint import CodeMisuse, lint_paths
from demur.codes.usage.rules import LintLevel
from demur.codes.usage.sarif import lint_to_sarif

__all__ = ["configure_codes_lint", "run_codes_lint"]


def configure_codes_lint(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 no errors; 1 an error; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder to walk")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_registry_option(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of JSON objects")
    form.add_argument("--sarif", action="store_true", help="a SARIF 2.1.0 log")


def run_codes_lint(args: argparse.Namespace) -> int:
    """Print the diagnostics; 1 if any of them is an error."""
    usages = lint_paths(args.paths, default_registry(*args.registry))
    if args.json:
        print(json.dumps([usage._asdict() for usage in usages], indent=2))
    elif args.sarif:
        print(json.dumps(lint_to_sarif(usages), indent=2))
    else:
        print_diagnostics(map(_usage_diagnostic, usages), "no misused codes")
    return int(any(args.strict or usage.severity is LintLevel.ERROR for usage in usages))


def _usage_diagnostic(usage: CodeMisuse) -> LintDiagnostic:
    where = f"{usage.path}:{usage.line}:{usage.column}"
    return LintDiagnostic(where, usage.severity, usage.rule, usage.message, usage.help)
