"""Steps of a call, taken one after another: waited for, or awaited."""

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

__all__ = ["Steps", "atake", "take"]

_Result = TypeVar("_Result")
# Each step is a function to be called; what it returns or raises goes back to who asked for it.
Steps = Generator[Callable[[], Any], Any, _Result]


def take(steps: Steps[_Result]) -> _Result:
    """Return what the steps come to."""
    result: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            return done.value
        result = error = None
        try:
            result = step()
        except Exception as raised:  # noqa: BLE001 - it is raised where the step was asked for
            error = raised


async def atake(steps: Steps[_Result]) -> _Result:
    """Return what the steps come to; what has to be awaited is awaited."""
    result: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            return done.value
        result = error = None
        try:
            result = step()
            if inspect.isawaitable(result):
                result = await result
        except Exception as raised:  # noqa: BLE001 - it is raised where the step was asked for
            error = raised
