"""Observability: metrics, traces, log lines, alert rules and health checks.

Names are loaded on first use, because some need an optional library.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.observe.alerts.counts import StoreSource
    from demur.observe.alerts.evaluate import evaluate_rules
    from demur.observe.alerts.rules import AlertRule, builtin_rules, load_rules
    from demur.observe.alerts.webhook import AlertWebhook, WebhookError
    from demur.observe.health import HealthCheck, HealthState, check_health
    from demur.observe.logs import RefusalHandler, log_refusal, log_refusals, refusal_event
    from demur.observe.metrics import Metrics
    from demur.observe.otel import Tracing

__all__ = [
    "AlertRule",
    "AlertWebhook",
    "HealthCheck",
    "HealthState",
    "Metrics",
    "RefusalHandler",
    "StoreSource",
    "Tracing",
    "WebhookError",
    "builtin_rules",
    "check_health",
    "evaluate_rules",
    "load_rules",
    "log_refusal",
    "log_refusals",
    "refusal_event",
]

_HOMES = {
    "demur.observe.alerts.counts": ("StoreSource",),
    "demur.observe.alerts.evaluate": ("evaluate_rules",),
    "demur.observe.alerts.rules": ("AlertRule", "builtin_rules", "load_rules"),
    "demur.observe.alerts.webhook": ("AlertWebhook", "WebhookError"),
    "demur.observe.health": ("HealthCheck", "HealthState", "check_health"),
    "demur.observe.logs": ("RefusalHandler", "log_refusal", "log_refusals", "refusal_event"),
    "demur.observe.metrics": ("Metrics",),
    "demur.observe.otel": ("Tracing",),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
