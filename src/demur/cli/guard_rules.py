"""`demur guard rules`: list the text rules of a surface, and test each on its own rows."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint, format_table
from demur.codes.default import default_registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError, Problem, one_line
from demur.guards.text_rules.rows import check_rows
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.rules import builtin_rules, load_rules

__all__ = ["configure_guard_rules", "run_guard_rules"]


def configure_guard_rules(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 the rules pass; 1 they are invalid, or fail their own rows; 2 usage"
    parser.add_argument("surface", choices=[str(surface) for surface in Surface], metavar="SURFACE")
    parser.add_argument("--rules", metavar="FILE", help="a rule file; default: the built-in rules")
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_guard_rules(args: argparse.Namespace) -> int:
    """Print the rules and their problems; 1 if there are any."""
    if args.rules is None:
        rules = builtin_rules(args.surface)
    else:
        rules = load_rules(args.rules, registry=default_registry(*args.registry))
    if rules.surface != args.surface:
        problem = f"these are rules for `{rules.surface}`, not for `{args.surface}`"
        raise InputError(problem, where=args.rules)
    problems = check_rows(rules)
    if args.json:
        print(json.dumps(_rules_to_json(rules, problems), indent=2))
    else:
        _print_rules(rules, problems, Paint())
    return int(bool(problems))


def _rules_to_json(rules: RuleSet, problems: Sequence[Problem]) -> dict[str, Any]:
    listed = [
        {
            "id": rule.id,
            "code": rule.code,
            "action": rule.action,
            "description": rule.description,
            "width": rule.width,
            "refuse": list(rule.refuse),
            "allow": list(rule.allow),
        }
        for rule in rules.rules
    ]
    return {
        "surface": rules.surface,
        "digest": rules.digest,
        "rules": listed,
        "problems": [problem._asdict() for problem in problems],
    }


def _print_rules(rules: RuleSet, problems: Sequence[Problem], paint: Paint) -> None:
    rows = [(rule.id, rule.code, rule.action, rule.description) for rule in rules.rules]
    print(format_table(rows, ("RULE", "CODE", "ACTION", "DESCRIPTION"), paint))
    for problem in problems:
        print(
            f"{one_line(problem.where or '')}: {paint('error:', 'bold', 'red')} "
            f"{one_line(problem.problem)}"
        )
        if problem.help:
            print(f"  {paint('help:', 'cyan')} {one_line(problem.help)}")
    refuse = sum(len(rule.refuse) for rule in rules.rules)
    allow = sum(len(rule.allow) for rule in rules.rules)
    held = f"{len(rules.rules)} rules, tested on {refuse} refuse and {allow} allow rows"
    print(paint(f"{held}: {len(problems)} failed" if problems else held, "dim"))
