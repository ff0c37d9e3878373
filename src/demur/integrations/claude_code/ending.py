"""How a hook ends, from the bytes that came in: an answer, or the no of what cannot be judged."""

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
    """What judges an event of a project."""

    def judge(self, hook: Hook, project: str) -> dict[str, Any]:
        """Return what the hook prints."""


def ending_alone(
    raw: bytes, terms: Terms, project: str = "", tell: Callable[[Hook], object] = _NOBODY
) -> Ending:
    """Return how a hook ends that has opened nothing yet; `tell` hears the event once it is read.

    Never raises: what goes wrong is a no.
    """
    return _ending(raw, lambda hook: _opened(hook, terms, project), tell)


def ending_beside(raw: bytes, judge: Judging, project: str = "") -> Ending:
    """Return how a hook ends, judged by who is there already. Never raises."""
    return _ending(raw, lambda hook: judge.judge(hook, project), _NOBODY)


def line_of(error: BaseException) -> str:
    """Return the refusal line of an error: whose fault it is decides the code."""
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
            # Its words may quote what must not be told.
            return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")
    first = error.problems[0]
    return refusal_line(code, f"{first.where}: {first.problem}" if first.where else first.problem)


def _ending(
    raw: bytes, judged: Callable[[Hook], dict[str, Any]], tell: Callable[[Hook], object]
) -> Ending:
    # INVARIANT: whatever bytes come in, nothing passes that the enforcer did not allow.
    try:
        hook = read_hook(raw)
    except DemurError as error:
        return denial(None, refusal_line("REQUEST_INVALID", error.problem))
    tell(hook)
    try:
        output = judged(hook)
        return Ending(stdout=f"{json.dumps(output)}\n" if output else "")
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is no permission
        return denial(hook.event, line_of(error), hook.members)


def _opened(hook: Hook, terms: Terms, project: str) -> dict[str, Any]:
    if hook.event not in SURFACES:
        return unguarded(*hook, read_pins(terms.pins))
    with Standing(terms, SURFACES[hook.event]) as standing:
        return standing.judge(hook, project)
