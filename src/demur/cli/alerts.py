"""`demur alerts`: evaluate alert rules against a store or logs, list them, and export them.

Decisions of the sample tenant are made up, so they count only if `--tenant` names it. A log holds
refusals only: it does not show allowed decisions, and undated lines make its counts lower bounds.
"""

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from demur.cli.main import Arguments, UsageError
from demur.cli.options import add_registry_option, make_folder, parse_time, write_file
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    configured_registries,
    load_settings,
    open_existing_store,
)
from demur.codes.loading import default_registry
from demur.errors import InputError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config, open_configured_spool
from demur.observe.alerts.counts import (
    CombinedSource,
    CountSource,
    DecisionCounts,
    RecordSource,
    StoreSource,
    UnreadableSource,
)
from demur.observe.alerts.evaluate import Alert, AlertState, alert_json, evaluate_rules
from demur.observe.alerts.exporters import (
    datadog_check,
    datadog_monitors,
    grafana_dashboard,
    prometheus_rules,
)
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    AlertRules,
    SelectorField,
    ShareWhole,
    builtin_rules,
    format_period,
    load_rules,
)
from demur.observe.alerts.webhook import WEBHOOK_FORMATS, AlertWebhook, mask_url, read_deliveries
from demur.service.sample import SAMPLE_TENANT
from demur.store.backend import StorageError
from demur.store.spool import Spool
from demur.store.store import Store
from demur.triage.counts import CANONICAL, LEGACY, UNKNOWN, TriageOptions
from demur.triage.counts import RefusalCounts as LogCounts
from demur.triage.inputs import STDIN, TriagePlan, plan_work
from demur.triage.run import triage_logs

_COUNTED_KINDS = {CANONICAL, LEGACY, UNKNOWN}


class _LogSource:
    """Reads the logs once for each period of time, and caches the counts."""

    def __init__(self, logs: TriagePlan, registries: tuple[str, ...], now: datetime) -> None:
        self._logs = logs
        self._registries = registries
        self._registry = default_registry(*registries)
        self._now = now
        self._cache: dict[tuple[datetime, datetime], DecisionCounts] = {}

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        about = (since, until)
        if about not in self._cache:
            options = TriageOptions(
                registries=self._registries, since=since, until=until, now=self._now
            )
            self._cache[about] = self._count_refusals(triage_logs(self._logs, options))
        return self._cache[about]

    def _count_refusals(self, found: LogCounts) -> DecisionCounts:
        codes: Counter[str] = Counter()
        classes: Counter[str] = Counter()
        for key, number in found.rows.items():
            if key.kind in _COUNTED_KINDS:
                codes[key.code] += number
                entry = self._registry.get(key.code)
                if entry is not None and entry.refusal_class is not None:
                    classes[str(entry.refusal_class)] += number
        return DecisionCounts(None, codes, classes, None, None, "; ".join(_describe_gaps(found)))


def open_log_source(
    names: Sequence[str], registries: tuple[str, ...], now: datetime
) -> CountSource:
    """Return the refusals in logs (files, folders, globs) as a source of counts.

    Raises:
        InputError: A log cannot be read, or is standard input.
        RegistryError: A registry cannot be read.
    """
    if STDIN in names:
        help_text = "write it to a file; several rules read it"
        raise UsageError("demur can read standard input only once", where="--log", help=help_text)
    logs = plan_work(names)
    for unread in logs.unread:
        raise InputError(f"cannot read the log: {unread.reason}", where=unread.file)
    return _LogSource(logs, registries, now)


def _describe_gaps(found: LogCounts) -> Iterator[str]:
    """Yield the reasons why the counts may be too low."""
    if found.undated:
        one = found.undated == 1
        yield f"{found.undated} refusal{' in the log has' if one else 's in the log have'} no time"
    for unread in found.unread:
        yield f"{unread.file} could not be read to its end: {unread.reason}"


class OpenedSource:
    """An open source of counts, as a context manager, with the registries of its codes.

    `note` describes the records that the source omits.
    """

    def __init__(
        self,
        source: CountSource,
        registries: tuple[str, ...],
        store: Store | None = None,
        note: str = "",
    ) -> None:
        self.source = source
        self.registries = registries
        self.note = note
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


def open_source(args: Namespace, now: datetime, clock: datetime) -> OpenedSource:
    """Return the source of counts as of `now`, which may differ from `clock`.

    Raises:
        InputError: The log, the store or the settings do not exist.
    """
    if args.log:
        registries = configured_registries()
        return OpenedSource(
            open_log_source(args.log, (*args.registry, *registries), now), registries
        )
    if args.store is None:
        config = load_settings(args)
    else:
        config = Config(store=args.store, registries=configured_registries())
    store: Store | None = None
    stored: CountSource
    note = ""
    try:
        store = open_existing_store(config)
        stored, note = _store_source(store, clock, args.tenant)
    except StorageError as error:
        stored = UnreadableSource(f"the store cannot be opened: {error.problem}")
    spool = open_configured_spool(config)
    sources = [stored] if spool is None else [stored, _read_spool_source(spool, args.tenant)]
    return OpenedSource(CombinedSource(sources), config.registries, store, note)


def _store_source(store: Store, clock: datetime, tenant: str | None) -> tuple[CountSource, str]:
    """Return the decisions in a store, and a note if it omits sample decisions."""
    tenants = [] if tenant is not None else [head.tenant for head in store.list_heads()]
    if SAMPLE_TENANT not in tenants:
        return StoreSource(store, clock, tenant=tenant), ""
    real = [name for name in tenants if name != SAMPLE_TENANT]
    note = f"made-up decisions are left out (--tenant {SAMPLE_TENANT} counts them)"
    return CombinedSource([StoreSource(store, clock, tenant=name) for name in real]), note


def _read_spool_source(spool: Spool, tenant: str | None) -> CountSource:
    """Return the decisions that could not be stored and were spooled instead."""
    try:
        spooled = spool.read()
    except StorageError as error:
        return UnreadableSource(error.problem)
    if spooled.unreadable:
        number = len(spooled.unreadable)
        lines = (
            "1 line cannot be read and is"
            if number == 1
            else f"{number} lines cannot be read and are"
        )
        note = f"{lines} not counted"
        print(f"warning: {one_line(str(spool.path))}: {note}", file=sys.stderr)
    real = [one for one in spooled.records if tenant is not None or one.tenant != SAMPLE_TENANT]
    return RecordSource(real, tenant=tenant)


def add_rule_options(add: Arguments) -> None:
    """Add `--rules FILE` and `--registry FILE`, which `load_chosen_rules` reads."""
    add("--rules FILE", "the alert rules; default: the built-in rules", type=Path)
    add_registry_option(add)


def load_chosen_rules(args: Namespace, *registries: str) -> AlertRules:
    """Return the chosen rules; `registries` are added to those of the arguments.

    Raises:
        AlertRuleError: The rules are invalid.
    """
    if args.rules is None:
        return builtin_rules()
    return load_rules(args.rules, registry=default_registry(*args.registry, *registries))


def configure_alerts_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add_rule_options(add)
    add("--json", "one JSON object per rule")


def run_alerts_list(args: Namespace) -> int:
    """Print the rules."""
    rules = load_chosen_rules(args).rules
    if args.json:
        for one in rules:
            plain = one._asdict()
            for name in ("window", "before", "hold", "cooldown"):
                plain[name] = format_period(plain[name]) if plain[name] else None
            plain["for"] = plain.pop("hold")
            plain["of"] = plain.pop("whole")
            plain["selector"] = one.selector and {one.selector.field: one.selector.value}
            del plain["where"]
            print(json.dumps(plain, ensure_ascii=False))
    else:
        rows = [(one.id, one.severity, describe_condition(one), one.description) for one in rules]
        print(format_table(rows, ("RULE", "SEVERITY", "FIRES WHEN", "MEANS"), Paint()))
    return 0


def describe_condition(rule: AlertRule) -> str:
    """Return the condition of a rule in one line."""
    window = f"in {format_period(rule.window)}"
    what = "" if rule.selector is None else rule.selector.label
    hold = f" for {format_period(rule.hold)}" if rule.hold else ""
    if rule.kind is AlertKind.COUNT:
        return f"{what} > {rule.limit_text} {window}{hold}"
    if rule.kind is AlertKind.SHARE:
        return f"{what} > {rule.limit_text} % of {rule.whole} {window}{hold}"
    if rule.kind is AlertKind.RATE_CHANGE:
        against = f"against {format_period(rule.before)} before"
        return f"share of {what} x {rule.limit_text} {window} {against}{hold}"
    return f"an unknown code {window}, not in {format_period(rule.before)} before{hold}"


FIRING, UNJUDGED = 3, 6
_COLOURS = {AlertState.FIRING: "red", AlertState.UNJUDGED: "yellow", AlertState.QUIET: "green"}


def configure_alerts_check(add: Arguments) -> None:
    """Add the command's arguments."""
    add_rule_options(add)
    add_config_option(add)
    add("--store URL", "count the decisions in this store")
    add("--log FILE ...", "count the refusals in this log instead; repeatable")
    add_tenant_option(add)
    add("--at WHEN", "check as of this time; default: now")
    add("--json", "the result of each rule, as JSON")
    webhook = add.group("webhook")
    webhook("--webhook URL", "notify this URL, or the URL in a file: @FILE")
    webhook("--format", "the format of the message", choices=WEBHOOK_FORMATS, default="json")
    webhook("--routing-key KEY", "the PagerDuty routing key, or @FILE")
    webhook("--origin NAME", "the name of this system in the message", default="")
    webhook("--state FILE", "the file that records deliveries, for cooldowns", type=Path)
    webhook("--timeout S", "seconds per attempt", type=float, default=10)
    webhook("--retries N", "retries after a failure", default=3)


def run_alerts_check(args: Namespace) -> int:
    """Print the result of each rule, and notify the webhook."""
    if args.log and (args.store is not None or args.config is not None):
        raise UsageError("--log and a store are different sources", help="check them one by one")
    if args.store is not None and args.config is not None:
        raise UsageError("--store and --config both name a store", help="leave one of them out")
    if args.log and args.tenant is not None:
        raise UsageError("a log does not name tenants", where="--tenant")
    clock = system_clock()
    now = clock if args.at is None else parse_time(args.at, clock)
    webhook = _read_webhook(args)
    with open_source(args, now, clock) as opened:
        registry = default_registry(*args.registry, *opened.registries)
        rules, skipped = _select_rules(load_chosen_rules(args, *opened.registries).rules, args)
        alerts = evaluate_rules(rules, opened.source, now, registry)
    note = opened.note
    if skipped:
        note = f"a log cannot answer {', '.join(rule.id for rule in skipped)}"
    _print_alerts(args, alerts, skipped, now, note)
    sys.stdout.flush()
    if webhook is not None:
        webhook.notify(alerts, now, args.state)
    states = {alert.state for alert in alerts}
    if AlertState.FIRING in states:
        return FIRING
    return UNJUDGED if AlertState.UNJUDGED in states else 0


def _select_rules(
    rules: Sequence[AlertRule], args: Namespace
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
    args: Namespace, alerts: Sequence[Alert], skipped: Sequence[AlertRule], now: datetime, note: str
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
        state = paint(f"{alert.state}[{alert.rule.id}]", "bold", _COLOURS[alert.state])
        print(f"{state} {alert.rule.severity}: {one_line(alert.message)}")
        if alert.state is AlertState.FIRING and alert.rule.runbook:
            print(f"  {paint('help:', 'cyan')} {one_line(alert.rule.runbook)}")
    counts = Counter(alert.state for alert in alerts)
    summary = ", ".join(f"{counts[state]} {state}" for state in AlertState if counts[state])
    print(
        paint(
            "; ".join(filter(None, (f"{summary or 'no rules'} at {format_timestamp(now)}", note))),
            "dim",
        )
    )


class ExportFile(NamedTuple):
    """An exported file: its name, and the function that builds its content."""

    name: str
    make: Callable[[Sequence[AlertRule]], str]


def _encode_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# Without `--out`, the first file of a format is printed.
EXPORT_FORMATS: dict[str, tuple[ExportFile, ...]] = {
    "prometheus": (ExportFile("demur.rules.yml", prometheus_rules),),
    "grafana": (
        ExportFile("demur-dashboard.json", lambda rules: _encode_json(grafana_dashboard(rules))),
    ),
    "datadog": (
        ExportFile("demur-monitors.json", lambda rules: _encode_json(datadog_monitors(rules))),
        ExportFile("openmetrics.yaml", lambda _: datadog_check()),
    ),
}


def configure_alerts_export(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--to", "the target system", required=True, choices=sorted(EXPORT_FORMATS))
    add("--out DIR", "write the files to this folder; default: standard output", type=Path)
    add_rule_options(add)
    add("--json", "print the files, or their names, as JSON")


def run_alerts_export(args: Namespace) -> int:
    """Write the rules in the chosen format."""
    rules = load_chosen_rules(args).rules
    forms = EXPORT_FORMATS[args.to]
    if args.out is None:
        contents = {form.name: form.make(rules) for form in forms}
        sys.stdout.write(_encode_json(contents) if args.json else contents[forms[0].name])
        return 0
    make_folder(args.out)
    paths = [args.out / form.name for form in forms]
    for path, form in zip(paths, forms, strict=True):
        write_file(path, form.make(rules))
    if args.json:
        print(json.dumps({"written": [str(path) for path in paths]}))
    else:
        print("\n".join(f"wrote {path}" for path in paths))
    return 0


_MAX_RETRIES = 10
_MAX_TIMEOUT_S = 120


def _read_webhook(args: Namespace) -> AlertWebhook | None:
    """Return the webhook of the options, checked before any rule is evaluated."""
    if args.webhook is None and (args.state is not None or args.routing_key is not None):
        raise UsageError("--state and --routing-key need --webhook")
    if (args.format == "pagerduty") != (args.routing_key is not None) and args.webhook:
        raise UsageError("--format pagerduty needs --routing-key, and no other format takes it")
    if not 0 < args.timeout <= _MAX_TIMEOUT_S:
        raise UsageError(f"--timeout must be above 0 and at most {_MAX_TIMEOUT_S} seconds")
    if not 0 <= args.retries <= _MAX_RETRIES:
        raise UsageError(f"--retries must be from 0 to {_MAX_RETRIES}")
    if args.webhook is None:
        return None
    url, key = read_secret(args.webhook), read_secret(args.routing_key or "")
    try:
        mask_url(url)
    except InputError as error:
        raise UsageError(error.problem, where="--webhook", help=error.help) from error
    if args.state is not None:
        read_deliveries(args.state)
    return AlertWebhook(url, args.format, key, args.origin, args.timeout, args.retries)


def read_secret(text: str) -> str:
    """Return a secret from the command line: the text itself, or the content of `@FILE`.

    Raises:
        InputError: demur cannot read the file.
    """
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise InputError(f"cannot read the secret: {reason}", where=text[1:]) from error
