"""Read results of demur, provider responses, texts and calls into one form for assertions.

Nothing is judged anew: check results and records are taken as they are, responses and texts are
read as an `Enforcer` reads those of a model.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from functools import cache, singledispatch
from typing import Any, NamedTuple

from demur.codes.line import REFUSAL_MARK
from demur.codes.vocabulary import Advice, RefusalClass, Surface, Verdict
from demur.enforce.enforcer import Enforcer
from demur.enforce.generated import GuardedAnswer
from demur.enforce.ruling import Refused, CheckResult
from demur.errors import InputTypeError
from demur.gate.pipeline import GuardPipeline
from demur.model.decision import Decision
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.providers.normalize import normalize

__all__ = ["RefusalOutcome", "Observation", "observe_outcome"]

_STRUCTURE_ONLY_NOTE = "read by its structure only: pass its text to have the words judged"


class RefusalOutcome(StrEnum):
    """The outcome of a test object. A failed model and an invalid refusal line are neither."""

    REFUSED = "refused"
    ALLOWED = "allowed"
    NEITHER = "neither"


class Observation(NamedTuple):
    """What was observed. `codes` are all codes in force, `rules` the matched policy rules.

    `judged` is false if a guard or the store failed; `value` is the object that was read: the
    argument itself, or the return value of a call.
    """

    what: str
    outcome: RefusalOutcome
    value: Any = None
    judged: bool = True
    codes: tuple[str, ...] = ()
    refusal_class: RefusalClass | None = None
    advice: Advice | None = None
    surfaces: tuple[Surface, ...] = ()
    detail: str = ""
    decision_id: str | None = None
    rules: tuple[str, ...] = ()
    note: str = ""
    refusal: Refusal | None = None
    record: DecisionRecord | None = None


def observe_outcome(thing: Any) -> Observation:
    """Return the observation of `thing`; a function is called, and a coroutine is run.

    Raises:
        InputTypeError: The type is not supported, or it is a coroutine inside a running loop.
    """
    if inspect.isawaitable(thing):
        return _observe_call(lambda: thing)
    if callable(thing):
        return _observe_call(thing)
    if thing is None or isinstance(thing, bool | int | float | bytes):
        wanted = "a check result, record, refusal, response, text or function"
        raise InputTypeError.wrong_type("the object to check", wanted, thing)
    return _observe_value(thing)


# -- calls -----------------------------------------------------------------------------------


def _observe_call(call: Callable[[], Any]) -> Observation:
    try:
        value = call()
        if inspect.isawaitable(value):
            value = _run_awaitable(value)
    except Exception as error:
        # An error that is not a refusal must not be hidden.
        if not isinstance(error, Refused) and normalize(error) is None:
            raise
        seen = _observe_value(error)
        return seen._replace(what=f"a call that raised {seen.what}")
    if value is None or isinstance(value, bool | int | float | bytes):
        return Observation(
            f"a call that returned `{type(value).__name__}`", RefusalOutcome.ALLOWED, value=value
        )
    seen = _observe_value(value)
    return seen._replace(what=f"a call that returned {seen.what}")


def _run_awaitable(waiting: Awaitable[Any]) -> Any:
    async def awaited() -> Any:
        return await waiting

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaited())
    if inspect.iscoroutine(waiting):
        waiting.close()
    raise InputTypeError(
        "a coroutine cannot be run inside a running loop",
        help="await it, and pass what it returns or raises",
    )


# -- values ----------------------------------------------------------------------------------


@singledispatch
def _observe_value(thing: Any) -> Observation:
    """Read any other object: the response or exception of a provider."""
    seen = _observe_result(_reading_enforcer().read_refusal(thing))._replace(value=thing)
    name = type(thing).__name__
    if not isinstance(thing, BaseException):
        note = seen.note or (_STRUCTURE_ONLY_NOTE if seen.outcome is RefusalOutcome.ALLOWED else "")
        return seen._replace(what=f"a response (`{name}`)", note=note)
    # An exception never counts as allowed.
    outcome = seen.outcome if seen.outcome is RefusalOutcome.REFUSED else RefusalOutcome.NEITHER
    return seen._replace(what=f"an exception (`{name}`)", outcome=outcome)


@_observe_value.register
def _observe_text(text: str) -> Observation:
    """Read one line like `parse_refusal`, and a longer text like an answer of a model."""
    line = text.strip()
    refusal = None if "\n" in line else Refusal.from_line(line)
    if refusal is not None:
        return _observe_refusal(refusal)._replace(what="a line", value=text)
    if line.startswith(REFUSAL_MARK):
        note = "a refusal line that names no registered code"
        return Observation("a line", RefusalOutcome.NEITHER, value=text, detail=line, note=note)
    seen = _observe_result(_reading_enforcer().read_refusal(None, text=text))
    return seen._replace(what="a text", value=text, detail=seen.detail or line)


@_observe_value.register
def _observe_refused(error: Refused) -> Observation:
    return _observe_result(error.result)._replace(what="`Refused`", value=error)


@_observe_value.register
def _observe_result(ruling: CheckResult) -> Observation:
    seen = _observe_parts(ruling.refusal, ruling.record, ruling.findings)
    surfaces = tuple(dict.fromkeys((ruling.surface, *seen.surfaces)))
    what = f"a ruling on {ruling.surface}"
    outcome = _to_outcome(refused=not ruling.allowed)
    return seen._replace(what=what, outcome=outcome, value=ruling, surfaces=surfaces)


@_observe_value.register
def _observe_answer(generated: GuardedAnswer) -> Observation:
    what, error = "a generated answer", generated.error
    if error is not None:
        note = f"the model failed: {error.code}: {error.detail}"
        return Observation(
            what, RefusalOutcome.NEITHER, value=generated, note=note, record=generated.record
        )
    seen = _observe_parts(generated.refusal, generated.record, generated.findings)
    return seen._replace(what=what, outcome=_to_outcome(refused=generated.blocked), value=generated)


@_observe_value.register
def _observe_record(record: DecisionRecord) -> Observation:
    personal = record.personal
    findings = () if personal is None else personal.findings
    binds = record.enforced or record.verdict is Verdict.ALLOW
    return Observation(
        "a decision record",
        _to_outcome(refused=not record.may_execute),
        value=record,
        judged=record.verdict is not Verdict.ABSTAIN,
        codes=record.reason_codes,
        refusal_class=record.refusal_class,
        advice=record.next_step,
        surfaces=_list_surfaces(findings),
        detail=record.explanation.summary,
        decision_id=record.decision_id,
        rules=tuple(f"{one.rule_id} ({one.stage})" for one in record.matched_rules),
        note="" if binds else f"advisory: {record.verdict} is on record and does not bind",
        record=record,
    )


@_observe_value.register
def _observe_decision(decision: Decision) -> Observation:
    return Observation(
        "a decision",
        _to_outcome(refused=decision.verdict is not Verdict.ALLOW),
        value=decision,
        judged=decision.verdict is not Verdict.ABSTAIN,
        codes=decision.reason_codes,
        refusal_class=decision.refusal_class,
        advice=decision.next_step,
        detail=decision.reason or "",
    )


@_observe_value.register
def _observe_refusal(refusal: Refusal) -> Observation:
    return Observation(
        "a refusal",
        # A code that allows an action has no class: nothing was refused.
        _to_outcome(refused=refusal.refusal_class is not None),
        value=refusal,
        judged=refusal.decided,
        codes=(refusal.code,),
        refusal_class=refusal.refusal_class,
        advice=refusal.advice,
        surfaces=() if refusal.surface is None else (refusal.surface,),
        detail=refusal.detail,
        decision_id=refusal.decision_id,
        refusal=refusal,
    )


def _observe_parts(
    refusal: Refusal | None, record: DecisionRecord | None, findings: Iterable[Finding]
) -> Observation:
    """Read a refusal, its record and the findings; any of them may be missing."""
    found = tuple(findings)
    seen = Observation("", RefusalOutcome.ALLOWED) if record is None else _observe_record(record)
    if refusal is not None:
        codes = tuple(dict.fromkeys((refusal.code, *seen.codes)))
        seen = _observe_refusal(refusal)._replace(codes=codes, rules=seen.rules, record=record)
    elif found and not seen.note:
        seen = seen._replace(note=f"only noted: {', '.join(one.code for one in found)}")
    return seen._replace(surfaces=tuple(dict.fromkeys((*seen.surfaces, *_list_surfaces(found)))))


def _list_surfaces(findings: Iterable[Finding]) -> tuple[Surface, ...]:
    return tuple(dict.fromkeys(one.surface for one in findings))


def _to_outcome(*, refused: bool) -> RefusalOutcome:
    return RefusalOutcome.REFUSED if refused else RefusalOutcome.ALLOWED


@cache
def _reading_enforcer() -> Enforcer:
    # It only reads answers of models, so it needs no guards.
    return Enforcer(pipeline=GuardPipeline(()))
