"""The state of alerts, as the overview shows it."""

from datetime import datetime

import msgspec

from demur.observe.alerts.counts import Counts, Source
from demur.observe.alerts.evaluate import Alert, State, evaluate
from demur.observe.alerts.loader import builtin_rules
from demur.observe.alerts.rule import Field
from demur.observe.alerts.sources import SourceSum, StoreSource
from demur.service.service import Service

__all__ = ["AlertRow", "alerts_of"]

_FEW = 8
_ORDER = {State.FIRING: 0, State.UNJUDGED: 1, State.QUIET: 2}


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    """An alert rule and its state. `code` is the reason that it watches."""

    rule_id: str
    state: str
    severity: str
    message: str
    description: str
    runbook: str
    code: str | None


class _Asked:
    """A source that caches counts, because several rules need the same ones."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[tuple[datetime, datetime], Counts] = {}

    def between(self, since: datetime, until: datetime) -> Counts:
        """Return the counts."""
        key = (since, until)
        if key not in self._known:
            self._known[key] = self._source.between(since, until)
        return self._known[key]


def alerts_of(service: Service, tenant: str | None, now: datetime) -> list[AlertRow]:
    """Evaluate the built-in alert rules against the store; firing rules come first."""
    store = service.store
    names = [head.tenant for head in store.heads()] if tenant is None else [tenant]
    source: Source = (
        SourceSum([StoreSource(store, now, tenant=name) for name in names])
        if len(names) <= _FEW
        else StoreSource(store, now, tenant=tenant)
    )
    found = evaluate(builtin_rules().rules, _Asked(source), now, service.gate.registry)
    return [_row(alert) for alert in sorted(found, key=lambda one: _ORDER[one.state])]


def _row(alert: Alert) -> AlertRow:
    rule = alert.rule
    chosen = rule.selector
    return AlertRow(
        rule_id=rule.id,
        state=alert.state,
        severity=rule.severity,
        message=alert.message,
        description=rule.description,
        runbook=rule.runbook,
        code=chosen.value if chosen is not None and chosen.field is Field.CODE else None,
    )
