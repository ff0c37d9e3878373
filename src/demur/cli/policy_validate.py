"""`demur policy validate`: list every problem of policy files, each with its place."""

import argparse
import json
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.errors import PolicyError, Problem, one_line
from demur.policy.loader import load_policy
from demur.policy.policy import Policy

__all__ = ["configure_policy_validate", "run_policy_validate"]


def configure_policy_validate(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 all policies are valid; 1 a policy is invalid; 2 usage"
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a policy file")
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="a list of JSON objects, one per file")


def run_policy_validate(args: argparse.Namespace) -> int:
    """Print the problems of each policy; 1 if there are any."""
    registry = default_registry(*args.registry)
    loaded = [(path, _try_load(path, registry)) for path in args.paths]
    if args.json:
        print(json.dumps([_validation_to_json(path, result) for path, result in loaded], indent=2))
    else:
        paint = Paint()
        for path, result in loaded:
            _print_validation(path, result, paint)
    return int(any(not isinstance(result, Policy) for _, result in loaded))


def _try_load(path: str, registry: Registry) -> Policy | tuple[Problem, ...]:
    try:
        return load_policy(path, registry=registry)
    except PolicyError as error:
        return error.problems


def _validation_to_json(path: str, result: Policy | tuple[Problem, ...]) -> dict[str, Any]:
    if not isinstance(result, Policy):
        return {"path": path, "ok": False, "problems": [p._asdict() for p in result]}
    return {
        "path": path,
        "ok": True,
        "policy_id": result.policy_id,
        "policy_version": result.policy_version,
        "mode": result.mode,
        "rules": len(result.rules),
        "shadow_rules": sum(rule.shadow for rule in result.rules),
        "digest": result.digest,
        "problems": [],
    }


def _print_validation(path: str, result: Policy | tuple[Problem, ...], paint: Paint) -> None:
    if isinstance(result, Policy):
        name = f"{result.policy_id} {result.policy_version}"
        print(f"{paint('ok', 'green')} {one_line(f'{path}: {name}')}, {_count_rules(result)}")
        return
    for problem in result:
        place = one_line(f"{problem.where}: ") if problem.where else ""
        print(f"{place}{paint('error:', 'bold', 'red')} {one_line(problem.problem)}")
        if problem.help:
            print(f"  {paint('help:', 'cyan')} {one_line(problem.help)}")
    count = f"{len(result)} problem{'s' * (len(result) != 1)}"
    print(paint(one_line(f"{path}: {count}"), "dim"))


def _count_rules(policy: Policy) -> str:
    shadow = sum(rule.shadow for rule in policy.rules)
    rules = f"{len(policy.rules)} rule{'s' * (len(policy.rules) != 1)}"
    return f"{rules} ({shadow} in shadow)" if shadow else rules
