"""Run a hook on its input: an answer, or a denial if it cannot be judged."""

import json
from collections.abc import Callable
from typing import Any, Protocol

from demur.errors import DemurError
from demur.integrations.claude_code.emergency import Ending, denial, refusal_line
from demur.integrations.claude_code.hook import EventError, Hook, read_hook
from demur.integrations.claude_code.judging import SURFACES
from demur.integrations.claude_code.pins import PinsError, read_pins
from demur.integrations.claude_code.standing import Standing
from demur.integrations.claude_code.terms import Terms
from demur.integrations.claude_code.unguarded import unguarded
from demur.store.backend import StorageError

__all__ = ["Judging", "ending_alone", "ending_beside", "line_of"]

_NOBODY: Callable[[object], object] = id


class Judging(Protocol):
    """Judges an event of a project."""

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return the output of the hook."""


def ending_alone(
    raw: bytes, terms: Terms, project: str = "", tell: Callable[[Hook], object] = _NOBODY
) -> Ending:
    """Judge a hook's input in this process; `on_hook` is called with the parsed event.

    Never raises: every failure is a denial.
    """
    return _ending(raw, lambda hook: _opened(hook, terms, project), tell)


def ending_beside(raw: bytes, judge: Judging, project: str = "") -> Ending:
    """Judge a hook's input with an open runtime. Never raises."""
    return _ending(raw, lambda hook: judge.judge(hook, project), _NOBODY)


def line_of(error: BaseException) -> str:
    """Return the refusal line of an error; its type decides the code."""
    match error:
        case StorageError():
            code = "STORAGE_UNAVAILABLE"
        case EventError():
            code = "REQUEST_INVALID"
        case PinsError():
            code = "GUARDRAIL_UNAVAILABLE"
        case DemurError():
            code = "POLICY_INVALID"
        case _:
            # Name only the type: an error's text may quote secrets.
            return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")
    first = error.problems[0]
    return refusal_line(code, f"{first.where}: {first.problem}" if first.where else first.problem)


def _ending(
    raw: bytes, judged: Callable[[Hook], dict[str, Any]], tell: Callable[[Hook], object]
) -> Ending:
    # INVARIANT: whatever the input is, no action passes that the enforcer did not allow.
    try:
        hook = read_hook(raw)
    except DemurError as error:
        return denial(None, refusal_line("REQUEST_INVALID", error.problem))
    tell(hook)
    try:
        output = judged(hook)
        return Ending(stdout=f"{json.dumps(output)}\n" if output else "")
    except BaseException as error:  # noqa: BLE001 - a failure is no permission
        return denial(hook.event, line_of(error), hook.members)


def _opened(hook: Hook, terms: Terms, project: str) -> dict[str, Any]:
    if hook.event not in SURFACES:
        return unguarded(*hook, read_pins(terms.pins))
    with Standing(terms, SURFACES[hook.event]) as standing:
        return standing.judge(hook, project)
