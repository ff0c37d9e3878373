"""`demur alerts list`: the alert rules in force, in a table."""

import argparse
import json
from pathlib import Path
from typing import Any

from demur.cli.options import add_registry
from demur.cli.terminal import Paint, table
from demur.codes.default import default_registry
from demur.observe.alerts.loader import builtin_rules, load_rules
from demur.observe.alerts.periods import written
from demur.observe.alerts.rule import AlertRule, AlertRules, Kind

__all__ = ["add_rules", "chosen_rules", "configure", "run"]


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add `--rules FILE` and `--registry FILE`, which `load_chosen_rules` reads."""
    parser.add_argument(
        "--rules", type=Path, metavar="FILE", help="the alert rules; default: the built-in rules"
    )
    add_registry(parser)


def chosen_rules(args: argparse.Namespace, *registries: str) -> AlertRules:
    """Return the chosen rules; `registries` are added to those of the arguments.

    Raises:
        AlertRuleError: The rules are invalid.
    """
    if args.rules is None:
        return builtin_rules()
    return load_rules(args.rules, registry=default_registry(*args.registry, *registries))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_rules(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per rule")


def run(args: argparse.Namespace) -> int:
    """Print the rules."""
    rules = chosen_rules(args).rules
    if args.json:
        for rule in rules:
            print(json.dumps(_as_json(rule), ensure_ascii=False))
    else:
        rows = [(rule.id, rule.severity, condition(rule), rule.description) for rule in rules]
        print(table(rows, ("RULE", "SEVERITY", "FIRES WHEN", "MEANS"), Paint()))
    return 0


def condition(rule: AlertRule) -> str:
    """Return the condition of a rule in one line."""
    window = f"in {written(rule.window)}"
    what = "" if rule.selector is None else rule.selector.value
    held = f" for {written(rule.hold)}" if rule.hold else ""
    if rule.kind is Kind.COUNT:
        return f"{what} > {rule.limit} {window}{held}"
    if rule.kind is Kind.SHARE:
        return f"{what} > {rule.limit} % of {rule.whole} {window}{held}"
    if rule.kind is Kind.RATE_CHANGE:
        against = f"against {written(rule.before)} before"
        return f"share of {what} x {rule.limit} {window} {against}{held}"
    return f"an unknown code {window}, not in {written(rule.before)} before{held}"


def _as_json(rule: AlertRule) -> dict[str, Any]:
    plain = rule._asdict()
    for name in ("window", "before", "hold", "cooldown"):
        plain[name] = written(plain[name]) if plain[name] else None
    plain["for"] = plain.pop("hold")
    plain["of"] = plain.pop("whole")
    plain["selector"] = None if rule.selector is None else dict([rule.selector])
    del plain["where"]
    return plain
