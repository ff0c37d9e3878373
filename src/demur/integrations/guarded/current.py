"""The check result of the guarded code that is running, by thread or task."""

from contextvars import ContextVar

from demur.enforce.ruling import CheckResult

__all__ = ["_current_result", "current_check_result"]

_current_result: ContextVar[CheckResult | None] = ContextVar("demur_ruling", default=None)


def current_check_result() -> CheckResult | None:
    """Return the check result that allowed the running guarded function or block."""
    return _current_result.get()
