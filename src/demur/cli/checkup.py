"""Results of health checks: name, state, description and help."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from demur.errors import DemurError

__all__ = [
    "HealthCheck",
    "HealthState",
    "report_ok",
    "report_problem",
    "report_error",
    "report_warning",
]

_MAX_SHOWN = 3


class HealthState(StrEnum):
    """The state of a health check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class HealthCheck(NamedTuple):
    """The result of one health check. `fix` repairs the problem if that is safe to do unasked."""

    name: str
    state: HealthState
    what: str
    help: str | None = None
    fix: Callable[[], None] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the check as plain JSON."""
        return {
            "check": self.name,
            "state": self.state,
            "what": self.what,
            "help": self.help,
            "fixable": self.fix is not None,
        }


def report_ok(name: str, what: str) -> HealthCheck:
    """Return a passed check."""
    return HealthCheck(name, HealthState.OK, what)


def report_warning(name: str, what: str, help_text: str | None = None) -> HealthCheck:
    """Return a check with a warning."""
    return HealthCheck(name, HealthState.WARNING, what, help_text)


def report_problem(
    name: str, what: str, help_text: str | None = None, fix: Callable[[], None] | None = None
) -> HealthCheck:
    """Return a failed check."""
    return HealthCheck(name, HealthState.PROBLEM, what, help_text, fix)


def report_error(name: str, error: DemurError, more_help: str | None = None) -> list[HealthCheck]:
    """Return the first problems of an error; `more_help` says where to find the others."""
    shown = [
        report_problem(
            name, f"{found.where}: {found.problem}" if found.where else found.problem, found.help
        )
        for found in error.problems[:_MAX_SHOWN]
    ]
    left = len(error.problems) - len(shown)
    return [*shown, report_problem(name, f"and {left} more", more_help)] if left else shown
