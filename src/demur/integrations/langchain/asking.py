"""Questions to the enforcer, asked in an order that is written once for both kinds of hooks.

The framework has every hook twice, waited for and awaited. What is asked in it, and what
becomes of the answers, is a generator here; who takes its steps knows how to wait.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from demur.enforce.approval import GrantFor, acollect_grants, collect_grants
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult

__all__ = [
    "EnforcerCheck",
    "GrantLookup",
    "HookSteps",
    "ContextForRuntime",
    "adrive_hook",
    "drive_hook",
    "build_context",
    "find_run_id",
]

_FRAMEWORK = "langchain"
_Result = TypeVar("_Result")

# Maps the runtime of a hook to a call context; demur fills in framework, run and call.
ContextForRuntime = Callable[[Any], CallContext]


class EnforcerCheck(NamedTuple):
    """A check to run: the enforcer's method and its arguments."""

    check_name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = {}


class GrantLookup(NamedTuple):
    """A lookup of the host's grants for a call that a person approved."""

    grant_for: GrantFor | None
    result: CheckResult
    answer: Any


# A check gets back a check result, a grant lookup a tuple of grants.
HookSteps = Generator[EnforcerCheck | GrantLookup, Any, _Result]


def drive_hook(steps: HookSteps[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook and return their result."""
    try:
        asked = next(steps)
        while True:
            answer: Any
            if isinstance(asked, EnforcerCheck):
                answer = getattr(enforcer, asked.check_name)(*asked.arguments, **asked.keywords)
            else:
                answer = collect_grants(*asked)
            asked = steps.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


async def adrive_hook(steps: HookSteps[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook without blocking the event loop."""
    try:
        asked = next(steps)
        while True:
            answer: Any
            if isinstance(asked, EnforcerCheck):
                answer = await getattr(enforcer, f"a{asked.check_name}")(
                    *asked.arguments, **asked.keywords
                )
            else:
                answer = await acollect_grants(*asked)
            asked = steps.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


def build_context(runtime: Any, run: str | None, given: ContextForRuntime | None) -> CallContext:
    """Return the call context of a hook; its run is the thread, the run, or else `run`."""
    named = find_run_id(runtime) or run
    if given is None:
        return CallContext(_FRAMEWORK, named)
    asks = given(runtime)
    return asks._replace(framework=_FRAMEWORK, run=asks.run or named)


def find_run_id(runtime: Any) -> str | None:
    """Return the id of the runtime's thread or run, or None."""
    info = getattr(runtime, "execution_info", None)
    return getattr(info, "thread_id", None) or getattr(info, "run_id", None)
