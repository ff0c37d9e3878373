"""Code that the adapters share. Private: import from `demur.integrations.<framework>`."""

from demur.integrations._kit.options import (
    AdapterOptions,
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
    is_changed_fully,
    missing_extra,
    resolve_context,
)

__all__ = [
    "AdapterOptions",
    "Approver",
    "ContextSource",
    "adapt_enforcer",
    "check_context",
    "choose_grant_for",
    "is_changed_fully",
    "missing_extra",
    "resolve_context",
]
