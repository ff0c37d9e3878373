"""Run one guard and hold it to its contract: the result is always a list of findings.

A guard that raises, hangs or returns something forbidden gave no verdict. Its findings until then
count; the failure is reported separately, so that the pipeline can fail closed or open.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from inspect import iscoroutine
from types import GeneratorType
from typing import Any, Literal, NamedTuple

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import DemurError, one_line
from demur.gate.limiter import LimiterUnavailableError
from demur.guards.contract import finding_problem, text_of
from demur.guards.guard import Guard
from demur.model.finding import Action, Finding

__all__ = ["MOST_FINDINGS", "NOTHING", "Cause", "Failure", "Looked", "look", "unavailable"]

# More findings of one kind say nothing new, and cost memory.
MOST_FINDINGS = 1000
_LONGEST_NOTE = 120
# Errors of demur quote values in backticks.
_QUOTED = re.compile(r"`([^`]*)`")
_WITHHELD = "`…`"

Cause = Literal["failure", "timeout", "unreachable"]


class Failure(NamedTuple):
    """Why a guard gave no verdict: the cause, a short note, and help."""

    cause: Cause
    note: str
    help: str = ""


class Looked(NamedTuple):
    """The findings of a guard, and why it failed, if it did."""

    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None


NOTHING = Looked()


def look(guard: Guard, event: Any, config: Any, *, registry: Registry) -> Looked:
    """Return what the guard finds in the event. Nothing that the guard raises leaves here.

    Not even `SystemExit` does: only a `KeyboardInterrupt` and the cancellation of the running
    task, which come from outside, are raised.
    """
    found: list[Finding] = []
    try:
        failure = _gather(guard, event, config, registry, found)
    except LimiterUnavailableError as error:
        failure = Failure("unreachable", _short(error.problem), _short(error.help or ""))
    except DemurError as error:
        failure = _refused(error, text_of(event))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        # The message of an error may quote what must not be stored.
        failure = Failure("failure", f"it raised {type(error).__name__}")
    return Looked(tuple(found), failure) if found or failure else NOTHING


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _refused(error: DemurError, text: str | None) -> Failure:
    """Return the failure for an error of demur, most often a wrong setting."""
    name = type(error).__name__
    place = f"{error.where}: " if error.where else ""
    note = _without(f"it raised {name}: {place}{error.problem}", text)
    return Failure("failure", _short(note), _short(_without(error.help or "", text)))


def _without(words: str, text: str | None) -> str:
    """Return words without quotations of the text; without a text, no quotation is kept."""

    def shown(quoted: re.Match[str]) -> str:
        secret = text is None or not quoted[1] or quoted[1] in text
        return _WITHHELD if secret else quoted[0]

    return _QUOTED.sub(shown, words)


def _lists(said: Any) -> bool:
    return isinstance(said, Iterable) and not isinstance(said, str | bytes | Mapping)


def _gather(
    guard: Guard, event: Any, config: Any, registry: Registry, found: list[Finding]
) -> Failure | None:
    said = guard.check(event, config)
    if said.__class__ is not GeneratorType and not _lists(said):
        if iscoroutine(said):
            said.close()
        return Failure("failure", _short(f"it returned a `{type(said).__name__}`"))
    text = text_of(event)
    surface, codes = guard.SURFACE, guard.CODES
    counts = dict.fromkeys(Action, 0)
    for one in said:
        problem = finding_problem(one, surface=surface, codes=codes, text=text, registry=registry)
        if problem is not None:
            return Failure("failure", _short(problem))
        counts[one.action] += 1
        if counts[one.action] <= MOST_FINDINGS:
            found.append(one)
    return None


def unavailable(name: str, surface: str, failure: Failure, timeout_s: float | None) -> Finding:
    """Return the finding that refuses because a guard gave no verdict."""
    evidence: dict[str, Any] = {"guard": name, "cause": failure.cause, "on": surface}
    if failure.cause == "timeout":
        evidence["timeout"] = timeout_s
    if failure.help:
        evidence["help"] = failure.help
    return Finding(
        code=ReasonCode.GUARDRAIL_UNAVAILABLE,
        surface=Surface.RUNTIME,
        detail=_short(f"the guard `{name}` gave no verdict: {failure.note}"),
        evidence=evidence,
    )


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST_NOTE else f"{line[: _LONGEST_NOTE - 1]}…"
