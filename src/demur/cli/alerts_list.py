"""`demur alerts list`: the alert rules in force, in a table."""

import argparse
import json
from pathlib import Path
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint, format_table
from demur.codes.default import default_registry
from demur.observe.alerts.loader import builtin_rules, load_rules
from demur.observe.alerts.periods import format_period
from demur.observe.alerts.rule import AlertRule, AlertRules, AlertKind

__all__ = ["add_rule_options", "load_chosen_rules", "configure_alerts_list", "run_alerts_list"]


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    """Add `--rules FILE` and `--registry FILE`, which `load_chosen_rules` reads."""
    parser.add_argument(
        "--rules", type=Path, metavar="FILE", help="the alert rules; default: the built-in rules"
    )
    add_registry_option(parser)


def load_chosen_rules(args: argparse.Namespace, *registries: str) -> AlertRules:
    """Return the chosen rules; `registries` are added to those of the arguments.

    Raises:
        AlertRuleError: The rules are invalid.
    """
    if args.rules is None:
        return builtin_rules()
    return load_rules(args.rules, registry=default_registry(*args.registry, *registries))


def configure_alerts_list(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_rule_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per rule")


def run_alerts_list(args: argparse.Namespace) -> int:
    """Print the rules."""
    rules = load_chosen_rules(args).rules
    if args.json:
        for rule in rules:
            print(json.dumps(_rule_to_json(rule), ensure_ascii=False))
    else:
        rows = [
            (rule.id, rule.severity, describe_condition(rule), rule.description) for rule in rules
        ]
        print(format_table(rows, ("RULE", "SEVERITY", "FIRES WHEN", "MEANS"), Paint()))
    return 0


def describe_condition(rule: AlertRule) -> str:
    """Return the condition of a rule in one line."""
    window = f"in {format_period(rule.window)}"
    what = "" if rule.selector is None else rule.selector.value
    held = f" for {format_period(rule.hold)}" if rule.hold else ""
    if rule.kind is AlertKind.COUNT:
        return f"{what} > {rule.limit_text} {window}{held}"
    if rule.kind is AlertKind.SHARE:
        return f"{what} > {rule.limit_text} % of {rule.whole} {window}{held}"
    if rule.kind is AlertKind.RATE_CHANGE:
        against = f"against {format_period(rule.before)} before"
        return f"share of {what} x {rule.limit_text} {window} {against}{held}"
    return f"an unknown code {window}, not in {format_period(rule.before)} before{held}"


def _rule_to_json(rule: AlertRule) -> dict[str, Any]:
    plain = rule._asdict()
    for name in ("window", "before", "hold", "cooldown"):
        plain[name] = format_period(plain[name]) if plain[name] else None
    plain["for"] = plain.pop("hold")
    plain["of"] = plain.pop("whole")
    plain["selector"] = None if rule.selector is None else dict([rule.selector])
    del plain["where"]
    return plain
