"""`demur alerts check`: evaluate alert rules on a store or a log, and notify a webhook."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from demur.cli.alerts_list import add_rule_options, load_chosen_rules
from demur.cli.alerts_sources import open_source
from demur.cli.alerts_telling import add_webhook_options, make_notifier
from demur.cli.moments import parse_time
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config_option, add_tenant_option
from demur.codes.default import default_registry
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, format_timestamp
from demur.observe.alerts.evaluate import Alert, AlertState, evaluate_rules
from demur.observe.alerts.messages import alert_json
from demur.observe.alerts.rule import AlertRule, SelectorField, AlertKind, ShareWhole

__all__ = ["configure_alerts_check", "run_alerts_check"]

FIRING, UNJUDGED = 3, 6
_STATE_COLOURS = {
    AlertState.FIRING: "red",
    AlertState.UNJUDGED: "yellow",
    AlertState.QUIET: "green",
}


def configure_alerts_check(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 quiet; 1 error, or delivery failed; 2 usage; 3 firing; 6 unjudged"
    add_rule_options(parser)
    add_config_option(parser)
    parser.add_argument("--store", metavar="URL", help="count the decisions in this store")
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="FILE",
        help="count the refusals in this log instead; repeatable",
    )
    add_tenant_option(parser)
    parser.add_argument("--at", metavar="WHEN", help="check as of this time; default: now")
    parser.add_argument("--json", action="store_true", help="the result of each rule, as JSON")
    add_webhook_options(parser)


def run_alerts_check(args: argparse.Namespace) -> int:
    """Print the result of each rule, and notify the webhook."""
    _check_sources(args)
    clock = system_clock()
    now = clock if args.at is None else parse_time(args.at, clock)
    tell = make_notifier(args, now)
    with open_source(args, now, clock) as opened:
        registry = default_registry(*args.registry, *opened.registries)
        rules, skipped = _select_rules(load_chosen_rules(args, *opened.registries).rules, args)
        alerts = evaluate_rules(rules, opened.source, now, registry)
    note = opened.note
    if skipped:
        note = f"a log cannot answer {', '.join(rule.id for rule in skipped)}"
    _print_alerts(args, alerts, skipped, now, note)
    sys.stdout.flush()
    if tell is not None:
        tell(alerts)
    states = {alert.state for alert in alerts}
    if AlertState.FIRING in states:
        return FIRING
    return UNJUDGED if AlertState.UNJUDGED in states else 0


def _check_sources(args: argparse.Namespace) -> None:
    if args.log and (args.store is not None or args.config is not None):
        raise InputError("--log and a store are different sources", help="check them one by one")
    if args.store is not None and args.config is not None:
        raise InputError("--store and --config both name a store", help="leave one of them out")
    if args.log and args.tenant is not None:
        raise InputError("a log does not name tenants", where="--tenant")


def _select_rules(
    rules: Sequence[AlertRule], args: argparse.Namespace
) -> tuple[list[AlertRule], list[AlertRule]]:
    """Return the rules to evaluate, and the built-in rules that a log cannot answer."""
    if not args.log or args.rules is not None:
        return list(rules), []
    skipped = [rule for rule in rules if _needs_decisions(rule)]
    return [rule for rule in rules if rule not in skipped], skipped


def _needs_decisions(rule: AlertRule) -> bool:
    by_verdict = rule.selector is not None and rule.selector.field in {
        SelectorField.VERDICT,
        SelectorField.OUTPUT,
    }
    share = rule.kind is AlertKind.SHARE and rule.whole is ShareWhole.DECISIONS
    return by_verdict or share or rule.kind is AlertKind.RATE_CHANGE


def _print_alerts(
    args: argparse.Namespace,
    alerts: Sequence[Alert],
    skipped: Sequence[AlertRule],
    now: datetime,
    note: str,
) -> None:
    if args.json:
        document = {
            "schema_version": "alerts.v1",
            "at": format_timestamp(now),
            "alerts": [alert_json(alert, args.origin) for alert in alerts],
            "skipped": [rule.id for rule in skipped],
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    paint = Paint()
    for alert in sorted(alerts, key=lambda alert: list(AlertState).index(alert.state)):
        state = paint(f"{alert.state}[{alert.rule.id}]", "bold", _STATE_COLOURS[alert.state])
        print(f"{state} {alert.rule.severity}: {one_line(alert.message)}")
        if alert.state is AlertState.FIRING and alert.rule.runbook:
            print(f"  {paint('help:', 'cyan')} {one_line(alert.rule.runbook)}")
    counts = Counter(alert.state for alert in alerts)
    said = ", ".join(f"{counts[state]} {state}" for state in AlertState if counts[state])
    print(
        paint(
            "; ".join(filter(None, (f"{said or 'no rules'} at {format_timestamp(now)}", note))),
            "dim",
        )
    )
