"""Steps that are waited for or awaited give the same, and raise where they were asked for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from demur.integrations.model_client.steps import Steps, adrive, drive


def both(steps: Callable[[], Steps[Any]]) -> list[Any]:
    return [drive(steps()), asyncio.run(adrive(steps()))]


def test_what_a_step_returns_goes_back_to_who_asked() -> None:
    def steps() -> Steps[Any]:
        one = yield lambda: 1
        two = yield lambda: one + 1
        return one + two

    assert both(steps) == [3, 3]


def test_what_a_step_raises_is_raised_where_it_was_asked_for() -> None:
    def fail() -> None:
        raise KeyError("here")

    def steps() -> Steps[str]:
        try:
            yield fail
        except KeyError:
            word = yield lambda: "it"
            return f"caught {word}"
        return "nothing was raised"

    assert both(steps) == ["caught it"] * 2


def test_what_is_not_caught_leaves() -> None:
    def fail() -> None:
        raise KeyError("here")

    def steps() -> Steps[None]:
        yield fail

    with pytest.raises(KeyError):
        drive(steps())
    with pytest.raises(KeyError):
        asyncio.run(adrive(steps()))


def test_what_has_to_be_awaited_is_awaited() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "now"

    def steps() -> Steps[Any]:
        return (yield later)

    assert asyncio.run(adrive(steps())) == "now"
