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

# From the runtime of a hook to who asks; framework, run and call are filled in.
OccasionFor = Callable[[Any], Occasion]


class Ask(NamedTuple):
    """A question: the enforcer's point, and what it is asked about."""

    point: str
    about: tuple[Any, ...]
    beside: Mapping[str, Any] = {}


class AskGrants(NamedTuple):
    """A question to the host: which grants speak for a call that somebody approved."""

    grant_for: GrantFor | None
    ruling: Ruling
    answer: Any


# A ruling answers what the enforcer is asked, a tuple of grants what the host is.
Asking = Generator[Ask | AskGrants, Any, _Result]


def ask_now(asking: Asking[_Result], enforcer: Enforcer) -> _Result:
    """Return what becomes of the answers."""
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
    """Return what becomes of the answers; the event loop runs on meanwhile."""
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
    """Return the occasion of a hook: of its thread or run, or else of the `run` given."""
    named = run_of(runtime) or run
    if given is None:
        return Occasion(_FRAMEWORK, named)
    asks = given(runtime)
    return asks._replace(framework=_FRAMEWORK, run=asks.run or named)


def run_of(runtime: Any) -> str | None:
    """Return by which name the framework knows a run: its thread's or its own; often by none."""
    info = getattr(runtime, "execution_info", None)
    return getattr(info, "thread_id", None) or getattr(info, "run_id", None)
