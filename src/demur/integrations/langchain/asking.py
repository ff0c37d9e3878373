"""Questions to the enforcer, asked in an order that is written once for both kinds of hooks.

The framework has every hook twice, waited for and awaited. What is asked in it, and what
becomes of the answers, is a generator here; who takes its steps knows how to wait.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from demur.enforce.approval import GrantFor, agranted, granted
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling

__all__ = [
    "Ask",
    "AskGrants",
    "Asking",
    "OccasionFor",
    "ask_awaited",
    "ask_now",
    "occasion_of",
    "run_of",
]

_FRAMEWORK = "langchain"
_Result = TypeVar("_Result")

# Maps the runtime of a hook to a call context; demur fills in framework, run and call.
OccasionFor = Callable[[Any], Occasion]


class Ask(NamedTuple):
    """A check to run: the enforcer's method and its arguments."""

    point: str
    about: tuple[Any, ...]
    beside: Mapping[str, Any] = {}


class AskGrants(NamedTuple):
    """A lookup of the host's grants for a call that a person approved."""

    grant_for: GrantFor | None
    ruling: Ruling
    answer: Any


# A check gets back a check result, a grant lookup a tuple of grants.
Asking = Generator[Ask | AskGrants, Any, _Result]


def ask_now(asking: Asking[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook and return their result."""
    try:
        asked = next(asking)
        while True:
            answer: Any
            if isinstance(asked, Ask):
                answer = getattr(enforcer, asked.point)(*asked.about, **asked.beside)
            else:
                answer = granted(*asked)
            asked = asking.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


async def ask_awaited(asking: Asking[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook without blocking the event loop."""
    try:
        asked = next(asking)
        while True:
            answer: Any
            if isinstance(asked, Ask):
                answer = await getattr(enforcer, f"a{asked.point}")(*asked.about, **asked.beside)
            else:
                answer = await agranted(*asked)
            asked = asking.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


def occasion_of(runtime: Any, run: str | None, given: OccasionFor | None) -> Occasion:
    """Return the call context of a hook; its run is the thread, the run, or else `run`."""
    named = run_of(runtime) or run
    if given is None:
        return Occasion(_FRAMEWORK, named)
    asks = given(runtime)
    return asks._replace(framework=_FRAMEWORK, run=asks.run or named)


def run_of(runtime: Any) -> str | None:
    """Return the id of the runtime's thread or run, or None."""
    info = getattr(runtime, "execution_info", None)
    return getattr(info, "thread_id", None) or getattr(info, "run_id", None)
