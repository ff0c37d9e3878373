"""Rows, suites and small targets for the tests of evals."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from demur.evals.suite import EvalSuite, make_suite
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer

__all__ = ["Scripted", "a_row", "a_suite", "wait"]


def a_row(number: int = 0, **fields: Any) -> EvalRow:
    """Return a row; half of them are harmful."""
    given = {
        "id": f"r{number}",
        "prompt": f"Please say the number {number}.",
        "label": "harmful" if number % 2 else "legitimate",
        **fields,
    }
    return EvalRow(**given)


def a_suite(count: int = 10, name: str = "small") -> EvalSuite:
    """Return a suite of so many rows."""
    return make_suite(name, [a_row(number) for number in range(count)])


class Scripted:
    """A target that answers by a function, and counts."""

    def __init__(
        self,
        answer: Callable[[EvalRow], TargetAnswer | Awaitable[TargetAnswer]] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = "scripted"
        self.settings: Mapping[str, Any] = {"kind": "scripted"} if settings is None else settings
        self.asked: list[str] = []
        self.under_way = 0
        self.most = 0
        self.closed = False
        self._answer = answer

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return what the function says, or a plain answer."""
        self.asked.append(row.id)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            if self._answer is None:
                return TargetAnswer(row_id=row.id, text=f"Sure: {row.prompt}")
            said = self._answer(row)
            return said if isinstance(said, TargetAnswer) else await said
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        """Take note of it."""
        self.closed = True


def wait(coroutine: Awaitable[Any]) -> Any:
    """Return what a coroutine returns."""

    async def whole() -> Any:
        return await coroutine

    return asyncio.run(whole())
