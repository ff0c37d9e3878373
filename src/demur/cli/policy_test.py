"""`demur policy test`: test a policy on tables of cases."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.errors import one_line
from demur.policy.compiler import CompiledPolicy
from demur.policy.loader import load_policy
from demur.policy.table import CaseResult, load_cases, run_cases, unmatched_rules

__all__ = ["configure_policy_test", "run_policy_test"]


def configure_policy_test(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 all cases pass; 1 a case fails, or a file is invalid; 2 usage"
    parser.add_argument("policy", metavar="POLICY", help="a policy file")
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="a YAML list of cases")
    parser.add_argument(
        "--require-coverage", action="store_true", help="fail if a rule matches in no case"
    )
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_policy_test(args: argparse.Namespace) -> int:
    """Print the failed cases; 1 if there are any."""
    registry = default_registry(*args.registry)
    policy = load_policy(args.policy, registry=registry)
    cases = [case for table in args.tables for case in load_cases(table, policy, registry)]
    results = run_cases(CompiledPolicy(policy, registry=registry), cases)
    unmatched = unmatched_rules(policy, results)
    failed = [result for result in results if result.differences]
    if args.json:
        print(json.dumps(_results_to_json(results, unmatched), indent=2))
    else:
        _print_results(results, unmatched)
    return int(bool(failed) or (args.require_coverage and bool(unmatched)))


def _results_to_json(results: Sequence[CaseResult], unmatched: Sequence[str]) -> dict[str, Any]:
    failed = sum(bool(result.differences) for result in results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "unmatched_rules": list(unmatched),
        "cases": [
            {
                "note": result.case.note,
                "where": result.case.where,
                "passed": not result.differences,
                "differences": [difference._asdict() for difference in result.differences],
            }
            for result in results
        ],
    }


def _print_results(results: Sequence[CaseResult], unmatched: Sequence[str]) -> None:
    paint = Paint()
    failed = [result for result in results if result.differences]
    for result in failed:
        label = paint("failed:", "bold", "red")
        print(f"{one_line(result.case.where)}: {label} {one_line(result.case.note)}")
        for field, want, got in result.differences:
            print(f"  {field}")
            print(f"    want {_format_value(want)}")
            print(f"    got  {_format_value(got)}")
    if unmatched:
        print(f"{paint('note:', 'cyan')} no case matches {one_line(', '.join(unmatched))}")
    colour = "red" if failed else "green"
    print(paint(f"{len(results) - len(failed)} passed, {len(failed)} failed", colour))


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return one_line(", ".join(value)) or "none"
    return str(value)
