"""The thing under test: whatever can be put a prompt and gives an answer."""

from collections.abc import Mapping
from typing import Any, Protocol

from demur.errors import DemurError
from demur.evals.answer import Answer
from demur.evals.suite_row import Row

__all__ = ["Target", "TargetError"]


class TargetError(DemurError, ValueError):
    """A target that there is not, or that cannot be used as it was set."""


class Target(Protocol):
    """What an eval is run against.

    `answer` is called from one event loop, many times at once, and reports failures as
    answers with an error. `settings` go on record: everything that makes another target of
    it, and nothing that is secret.
    """

    @property
    def name(self) -> str:
        """How reports call it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was set to, as JSON values."""

    async def answer(self, row: Row) -> Answer:
        """Return what it says to a row's prompt."""

    async def close(self) -> None:
        """Let go of connections and processes."""
