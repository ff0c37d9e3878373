"""Steps of a call, taken one after another: waited for, or awaited."""

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

__all__ = ["Steps", "adrive", "drive"]

_Result = TypeVar("_Result")
# Each step is a function to call; its value or exception goes back into the generator.
Steps = Generator[Callable[[], Any], Any, _Result]


def drive(steps: Steps[_Result]) -> _Result:
    """Run the steps and return their result."""
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
        except Exception as raised:  # noqa: BLE001 - it is raised inside the generator
            error = raised


async def adrive(steps: Steps[_Result]) -> _Result:
    """Run the steps, awaiting where necessary, and return their result."""
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
        except Exception as raised:  # noqa: BLE001 - it is raised inside the generator
            error = raised
