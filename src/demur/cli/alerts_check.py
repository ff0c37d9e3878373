"""`demur alerts check`: evaluate alert rules on a store or a log, and notify a webhook."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from demur.cli.alerts_list import add_rules, chosen_rules
from demur.cli.alerts_sources import open_source
from demur.cli.alerts_telling import add_telling, teller
from demur.cli.moments import moment
from demur.cli.terminal import Paint
from demur.cli.workspace import add_config, add_tenant
from demur.codes.default import default_registry
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, timestamp
from demur.observe.alerts.evaluate import Alert, State, evaluate
from demur.observe.alerts.messages import alert_json
from demur.observe.alerts.rule import AlertRule, Field, Kind, Whole

__all__ = ["configure", "run"]

FIRING, UNJUDGED = 3, 6
_COLOURS = {State.FIRING: "red", State.UNJUDGED: "yellow", State.QUIET: "green"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 quiet; 1 error, or delivery failed; 2 usage; 3 firing; 6 unjudged"
    add_rules(parser)
    add_config(parser)
    parser.add_argument("--store", metavar="URL", help="count the decisions in this store")
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="FILE",
        help="count the refusals in this log instead; repeatable",
    )
    add_tenant(parser)
    parser.add_argument("--at", metavar="WHEN", help="check as of this time; default: now")
    parser.add_argument("--json", action="store_true", help="the result of each rule, as JSON")
    add_telling(parser)


def run(args: argparse.Namespace) -> int:
    """Print the result of each rule, and notify the webhook."""
    _check(args)
    clock = system_clock()
    now = clock if args.at is None else moment(args.at, clock)
    tell = teller(args, now)
    with open_source(args, now, clock) as opened:
        registry = default_registry(*args.registry, *opened.registries)
        rules, skipped = _usable(chosen_rules(args, *opened.registries).rules, args)
        alerts = evaluate(rules, opened.source, now, registry)
    note = opened.note
    if skipped:
        note = f"a log cannot answer {', '.join(rule.id for rule in skipped)}"
    _print(args, alerts, skipped, now, note)
    sys.stdout.flush()
    if tell is not None:
        tell(alerts)
    states = {alert.state for alert in alerts}
    if State.FIRING in states:
        return FIRING
    return UNJUDGED if State.UNJUDGED in states else 0


def _check(args: argparse.Namespace) -> None:
    if args.log and (args.store is not None or args.config is not None):
        raise InputError("--log and a store are different sources", help="check them one by one")
    if args.store is not None and args.config is not None:
        raise InputError("--store and --config both name a store", help="leave one of them out")
    if args.log and args.tenant is not None:
        raise InputError("a log does not name tenants", where="--tenant")


def _usable(
    rules: Sequence[AlertRule], args: argparse.Namespace
) -> tuple[list[AlertRule], list[AlertRule]]:
    """Return the rules to evaluate, and the built-in rules that a log cannot answer."""
    if not args.log or args.rules is not None:
        return list(rules), []
    skipped = [rule for rule in rules if _needs_decisions(rule)]
    return [rule for rule in rules if rule not in skipped], skipped


def _needs_decisions(rule: AlertRule) -> bool:
    by_verdict = rule.selector is not None and rule.selector.field in {Field.VERDICT, Field.OUTPUT}
    share = rule.kind is Kind.SHARE and rule.whole is Whole.DECISIONS
    return by_verdict or share or rule.kind is Kind.RATE_CHANGE


def _print(
    args: argparse.Namespace,
    alerts: Sequence[Alert],
    skipped: Sequence[AlertRule],
    now: datetime,
    note: str,
) -> None:
    if args.json:
        document = {
            "schema_version": "alerts.v1",
            "at": timestamp(now),
            "alerts": [alert_json(alert, args.origin) for alert in alerts],
            "skipped": [rule.id for rule in skipped],
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    paint = Paint()
    for alert in sorted(alerts, key=lambda alert: list(State).index(alert.state)):
        state = paint(f"{alert.state}[{alert.rule.id}]", "bold", _COLOURS[alert.state])
        print(f"{state} {alert.rule.severity}: {one_line(alert.message)}")
        if alert.state is State.FIRING and alert.rule.runbook:
            print(f"  {paint('help:', 'cyan')} {one_line(alert.rule.runbook)}")
    counts = Counter(alert.state for alert in alerts)
    said = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    print(
        paint("; ".join(filter(None, (f"{said or 'no rules'} at {timestamp(now)}", note))), "dim")
    )
