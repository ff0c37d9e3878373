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
from demur.guards.contract import finding_problem, event_text
from demur.guards.guard import Guard
from demur.model.finding import Action, Finding

__all__ = [
    "MAX_FINDINGS",
    "NO_FINDINGS",
    "FailureCause",
    "GuardFailure",
    "GuardResult",
    "run_guard",
    "unavailable_finding",
]

# More findings of one kind say nothing new, and cost memory.
MAX_FINDINGS = 1000
_MAX_NOTE_LENGTH = 120
# Errors of demur quote values in backticks.
_QUOTED = re.compile(r"`([^`]*)`")
_WITHHELD = "`…`"

FailureCause = Literal["failure", "timeout", "unreachable"]


class GuardFailure(NamedTuple):
    """Why a guard gave no verdict: the cause, a short note, and help."""

    cause: FailureCause
    note: str
    help: str = ""


class GuardResult(NamedTuple):
    """The findings of a guard, and why it failed, if it did."""

    findings: tuple[Finding, ...] = ()
    failure: GuardFailure | None = None


NO_FINDINGS = GuardResult()


def run_guard(guard: Guard, event: Any, config: Any, *, registry: Registry) -> GuardResult:
    """Return what the guard finds in the event. Nothing that the guard raises leaves here.

    Not even `SystemExit` does: only a `KeyboardInterrupt` and the cancellation of the running
    task, which come from outside, are raised.
    """
    found: list[Finding] = []
    try:
        failure = _collect_findings(guard, event, config, registry, found)
    except LimiterUnavailableError as error:
        failure = GuardFailure(
            "unreachable", _shorten_note(error.problem), _shorten_note(error.help or "")
        )
    except DemurError as error:
        failure = _demur_failure(error, event_text(event))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        # The message of an error may quote what must not be stored.
        failure = GuardFailure("failure", f"it raised {type(error).__name__}")
    return GuardResult(tuple(found), failure) if found or failure else NO_FINDINGS


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _demur_failure(error: DemurError, text: str | None) -> GuardFailure:
    """Return the failure for an error of demur, most often a wrong setting."""
    name = type(error).__name__
    place = f"{error.where}: " if error.where else ""
    note = _withhold_quotes(f"it raised {name}: {place}{error.problem}", text)
    return GuardFailure(
        "failure", _shorten_note(note), _shorten_note(_withhold_quotes(error.help or "", text))
    )


def _withhold_quotes(words: str, text: str | None) -> str:
    """Return words without quotations of the text; without a text, no quotation is kept."""

    def shown(quoted: re.Match[str]) -> str:
        secret = text is None or not quoted[1] or quoted[1] in text
        return _WITHHELD if secret else quoted[0]

    return _QUOTED.sub(shown, words)


def _is_listing(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _collect_findings(
    guard: Guard, event: Any, config: Any, registry: Registry, found: list[Finding]
) -> GuardFailure | None:
    said = guard.check(event, config)
    if said.__class__ is not GeneratorType and not _is_listing(said):
        if iscoroutine(said):
            said.close()
        return GuardFailure("failure", _shorten_note(f"it returned a `{type(said).__name__}`"))
    text = event_text(event)
    surface, codes = guard.SURFACE, guard.CODES
    counts = dict.fromkeys(Action, 0)
    for one in said:
        problem = finding_problem(one, surface=surface, codes=codes, text=text, registry=registry)
        if problem is not None:
            return GuardFailure("failure", _shorten_note(problem))
        counts[one.action] += 1
        if counts[one.action] <= MAX_FINDINGS:
            found.append(one)
    return None


def unavailable_finding(
    name: str, surface: str, failure: GuardFailure, timeout_s: float | None
) -> Finding:
    """Return the finding that refuses because a guard gave no verdict."""
    evidence: dict[str, Any] = {"guard": name, "cause": failure.cause, "on": surface}
    if failure.cause == "timeout":
        evidence["timeout"] = timeout_s
    if failure.help:
        evidence["help"] = failure.help
    return Finding(
        code=ReasonCode.GUARDRAIL_UNAVAILABLE,
        surface=Surface.RUNTIME,
        detail=_shorten_note(f"the guard `{name}` gave no verdict: {failure.note}"),
        evidence=evidence,
    )


def _shorten_note(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _MAX_NOTE_LENGTH else f"{line[: _MAX_NOTE_LENGTH - 1]}…"
