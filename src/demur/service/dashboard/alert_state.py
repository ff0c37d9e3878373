"""The state of alerts, as the overview shows it."""

from datetime import datetime

import msgspec

from demur.observe.alerts.counts import DecisionCounts, CountSource
from demur.observe.alerts.evaluate import Alert, AlertState, evaluate_rules
from demur.observe.alerts.loader import builtin_rules
from demur.observe.alerts.rule import SelectorField
from demur.observe.alerts.sources import CombinedSource, StoreSource
from demur.service.service import Service

__all__ = ["AlertRow", "list_alerts"]

_MAX_SINGLE_TENANTS = 8
_STATE_ORDER = {AlertState.FIRING: 0, AlertState.UNJUDGED: 1, AlertState.QUIET: 2}


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    """An alert rule and its state. `code` is the reason that it watches."""

    rule_id: str
    state: str
    severity: str
    message: str
    description: str
    runbook: str
    code: str | None


class _CachedSource:
    """A source that caches counts, because several rules need the same ones."""

    def __init__(self, source: CountSource) -> None:
        self._source = source
        self._counts: dict[tuple[datetime, datetime], DecisionCounts] = {}

    def count_between(self, since: datetime, until: datetime) -> DecisionCounts:
        """Return the counts."""
        key = (since, until)
        if key not in self._counts:
            self._counts[key] = self._source.count_between(since, until)
        return self._counts[key]


def list_alerts(service: Service, tenant: str | None, now: datetime) -> list[AlertRow]:
    """Evaluate the built-in alert rules against the store; firing rules come first."""
    store = service.store
    names = [head.tenant for head in store.list_heads()] if tenant is None else [tenant]
    source: CountSource = (
        CombinedSource([StoreSource(store, now, tenant=name) for name in names])
        if len(names) <= _MAX_SINGLE_TENANTS
        else StoreSource(store, now, tenant=tenant)
    )
    found = evaluate_rules(builtin_rules().rules, _CachedSource(source), now, service.gate.registry)
    return [_alert_row(alert) for alert in sorted(found, key=lambda one: _STATE_ORDER[one.state])]


def _alert_row(alert: Alert) -> AlertRow:
    rule = alert.rule
    chosen = rule.selector
    return AlertRow(
        rule_id=rule.id,
        state=alert.state,
        severity=rule.severity,
        message=alert.message,
        description=rule.description,
        runbook=rule.runbook,
        code=chosen.value if chosen is not None and chosen.field is SelectorField.CODE else None,
    )
