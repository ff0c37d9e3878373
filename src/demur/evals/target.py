"""The thing under test: anything that answers a prompt."""

from collections.abc import Mapping
from typing import Any, Protocol

from demur.errors import DemurError
from demur.evals.answer import TargetAnswer
from demur.evals.suite_row import EvalRow

__all__ = ["EvalTarget", "TargetError"]


class TargetError(DemurError, ValueError):
    """A target that is unknown, or whose options are invalid."""


class EvalTarget(Protocol):
    """The thing that an eval runs against.

    `answer` is called many times concurrently from one event loop, and reports failures as
    answers with an error. `settings` are recorded: everything that identifies the target, and
    no secrets.
    """

    @property
    def name(self) -> str:
        """The name in reports."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The options that identify the target, as JSON values."""

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the answer to a row's prompt."""

    async def close(self) -> None:
        """Close connections and processes."""
