"""Results of health checks: name, state, description and help."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from demur.errors import DemurError

__all__ = ["Check", "State", "ok", "problem", "problems_of", "warning"]

_MOST_SHOWN = 3


class State(StrEnum):
    """The state of a health check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(NamedTuple):
    """The result of one health check. `fix` repairs the problem if that is safe to do unasked."""

    name: str
    state: State
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


def ok(name: str, what: str) -> Check:
    """Return a passed check."""
    return Check(name, State.OK, what)


def warning(name: str, what: str, help_text: str | None = None) -> Check:
    """Return a check with a warning."""
    return Check(name, State.WARNING, what, help_text)


def problem(
    name: str, what: str, help_text: str | None = None, fix: Callable[[], None] | None = None
) -> Check:
    """Return a failed check."""
    return Check(name, State.PROBLEM, what, help_text, fix)


def problems_of(name: str, error: DemurError, more: str | None = None) -> list[Check]:
    """Return the first problems of an error; `more_help` says where to find the others."""
    shown = [
        problem(
            name, f"{found.where}: {found.problem}" if found.where else found.problem, found.help
        )
        for found in error.problems[:_MOST_SHOWN]
    ]
    left = len(error.problems) - len(shown)
    return [*shown, problem(name, f"and {left} more", more)] if left else shown
