"""Assertions on refusals, for any test runner.

They accept check results, records, decisions, refusals, provider responses, texts, and functions to
call. Nothing is judged anew. A failure lists in one block what was observed instead.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, singledispatch
from typing import Any, NamedTuple, TypeVar

from demur.codes.loading import default_registry
from demur.codes.refusal_line import REFUSAL_MARK
from demur.codes.vocabulary import Advice, RefusalClass, Surface, Verdict
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, GuardedAnswer, Refused
from demur.errors import InputError, InputTypeError
from demur.gate.pipeline import GuardPipeline
from demur.model.decision import Decision
from demur.model.finding import Finding
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.providers.normalization import normalize
from demur.source.item import did_you_mean

_STRUCTURE_ONLY_NOTE = "read by its structure only: pass its text to have the words judged"


class RefusalOutcome(StrEnum):
    """The outcome of a test object. A failed model and an invalid refusal line are neither."""

    REFUSED = "refused"
    ALLOWED = "allowed"
    NEITHER = "neither"


class Observation(NamedTuple):
    """The observed result. `codes` are all codes in force, `rules` the matched policy rules.

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
        supported = "a check result, record, refusal, response, text or function"
        raise InputTypeError.wrong_type("the object to check", supported, thing)
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
        observation = _observe_value(error)
        return observation._replace(what=f"a call that raised {observation.what}")
    if value is None or isinstance(value, bool | int | float | bytes):
        return Observation(
            f"a call that returned `{type(value).__name__}`", RefusalOutcome.ALLOWED, value=value
        )
    observation = _observe_value(value)
    return observation._replace(what=f"a call that returned {observation.what}")


def _run_awaitable(waiting: Awaitable[Any]) -> Any:
    async def await_value() -> Any:
        return await waiting

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(await_value())
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
    observation = _observe_result(_reading_enforcer().read_refusal(thing))._replace(value=thing)
    name = type(thing).__name__
    if not isinstance(thing, BaseException):
        note = observation.note or (
            _STRUCTURE_ONLY_NOTE if observation.outcome is RefusalOutcome.ALLOWED else ""
        )
        return observation._replace(what=f"a response (`{name}`)", note=note)
    # An exception never counts as allowed.
    outcome = (
        observation.outcome
        if observation.outcome is RefusalOutcome.REFUSED
        else RefusalOutcome.NEITHER
    )
    return observation._replace(what=f"an exception (`{name}`)", outcome=outcome)


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
    observation = _observe_result(_reading_enforcer().read_refusal(None, text=text))
    return observation._replace(what="a text", value=text, detail=observation.detail or line)


@_observe_value.register
def _observe_refused(error: Refused) -> Observation:
    return _observe_result(error.result)._replace(what="`Refused`", value=error)


@_observe_value.register
def _observe_result(result: CheckResult) -> Observation:
    observation = _observe_parts(result.refusal, result.record, result.findings)
    surfaces = tuple(dict.fromkeys((result.surface, *observation.surfaces)))
    what = f"a check result on {result.surface}"
    outcome = _to_outcome(refused=not result.allowed)
    return observation._replace(what=what, outcome=outcome, value=result, surfaces=surfaces)


@_observe_value.register
def _observe_answer(generated: GuardedAnswer) -> Observation:
    what, error = "a generated answer", generated.error
    if error is not None:
        note = f"the model failed: {error.code}: {error.detail}"
        return Observation(
            what, RefusalOutcome.NEITHER, value=generated, note=note, record=generated.record
        )
    observation = _observe_parts(generated.refusal, generated.record, generated.findings)
    return observation._replace(
        what=what, outcome=_to_outcome(refused=generated.blocked), value=generated
    )


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
    observation = (
        Observation("", RefusalOutcome.ALLOWED) if record is None else _observe_record(record)
    )
    if refusal is not None:
        codes = tuple(dict.fromkeys((refusal.code, *observation.codes)))
        observation = _observe_refusal(refusal)._replace(
            codes=codes, rules=observation.rules, record=record
        )
    elif found and not observation.note:
        observation = observation._replace(
            note=f"only noted: {', '.join(one.code for one in found)}"
        )
    return observation._replace(
        surfaces=tuple(dict.fromkeys((*observation.surfaces, *_list_surfaces(found))))
    )


def _list_surfaces(findings: Iterable[Finding]) -> tuple[Surface, ...]:
    return tuple(dict.fromkeys(one.surface for one in findings))


def _to_outcome(*, refused: bool) -> RefusalOutcome:
    return RefusalOutcome.REFUSED if refused else RefusalOutcome.ALLOWED


@cache
def _reading_enforcer() -> Enforcer:
    # It only reads answers of models, so it needs no guards.
    return Enforcer(pipeline=GuardPipeline(()))


_Vocabulary = TypeVar("_Vocabulary", bound=StrEnum)
_MAX_DETAIL = 300
_NO_DIFFERENCES: Mapping[str, str] = {}
_WORDS = {
    RefusalOutcome.REFUSED: "refuses",
    RefusalOutcome.ALLOWED: "does not refuse",
    RefusalOutcome.NEITHER: "neither refuses nor allows",
}


def assert_refuses(
    thing: Any,
    code: str | None = None,
    *,
    refusal_class: RefusalClass | str | None = None,
    advice: Advice | str | None = None,
    surface: Surface | str | None = None,
) -> Observation:
    """Assert that `thing` refuses, with the given facts, and return the observation.

    `thing` is a `CheckResult`, `DecisionRecord`, `Decision`, `Refusal`, `GuardedAnswer`, a text,
    the response or exception of a provider, or a function to call, which may raise `Refused`.
    A response is read by its structure; pass its text to have the words judged.

    Without a `code`, any judged refusal passes. The refusal of a failed guard passes only if
    `code` names it. If several codes are in force, `code` may be any of them.

    Raises:
        InputError: The class, advice or surface does not exist.
        InputTypeError: `thing` has a type that cannot refuse.
    """
    __tracebackhide__ = True
    criteria = _RefusalCriteria(
        None if code is None else str(code),
        _parse_word(RefusalClass, refusal_class, "refusal_class"),
        _parse_word(Advice, advice, "advice"),
        _parse_word(Surface, surface, "surface"),
    )
    observation = observe_outcome(thing)
    if observation.outcome is not RefusalOutcome.REFUSED:
        raise AssertionError(_format_failure(f"expected {criteria}", observation))
    wrong = dict(_differences(criteria, observation))
    if wrong:
        raise AssertionError(_format_failure(f"expected {criteria}", observation, wrong))
    if code is None and not observation.judged:
        message = f"expected {criteria} that was judged; name the code if this is what you expect"
        raise AssertionError(_format_failure(message, observation))
    return observation


def assert_allows(thing: Any) -> Observation:
    """Assert that `thing` was judged and does not refuse, and return the observation.

    It accepts the same types as `assert_refuses`; `value` is the return value of a function.

    Raises:
        InputTypeError: `thing` has a type that cannot refuse.
    """
    __tracebackhide__ = True
    observation = observe_outcome(thing)
    if observation.outcome is not RefusalOutcome.ALLOWED:
        raise AssertionError(_format_failure("expected no refusal", observation))
    return observation


class _RefusalCriteria(NamedTuple):
    code: str | None
    refusal_class: RefusalClass | None
    advice: Advice | None
    surface: Surface | None

    def __str__(self) -> str:
        named = [
            f"{name} {value}"
            for name, value in zip(("code", "class", "advice", "surface"), self, strict=True)
            if value is not None
        ]
        return f"a refusal with {', '.join(named)}" if named else "a refusal"


def _differences(criteria: _RefusalCriteria, observation: Observation) -> Iterator[tuple[str, str]]:
    """Yield the name and the expected value of each fact that differs."""
    if criteria.code is not None and criteria.code not in observation.codes:
        yield "code", f"{criteria.code}{_unknown_code_hint(criteria.code)}"
    if criteria.refusal_class not in {None, observation.refusal_class}:
        yield "class", str(criteria.refusal_class)
    if criteria.advice not in {None, observation.advice}:
        yield "advice", str(criteria.advice)
    if criteria.surface is not None and criteria.surface not in observation.surfaces:
        yield "surface", str(criteria.surface)


def _unknown_code_hint(code: str) -> str:
    """Return a hint if a code is not registered, because a test with a typo always fails."""
    known = default_registry()
    if code in known:
        return ""
    hint = did_you_mean(code, [entry.code for entry in known])
    return f", which is not registered{f': {hint}' if hint else ''}"


def _format_failure(
    expected: str, observation: Observation, wrong: Mapping[str, str] = _NO_DIFFERENCES
) -> str:
    """Return the failure message: the expectation, and every observed fact."""
    facts = {
        "code": ", ".join(observation.codes),
        "class": str(observation.refusal_class or ""),
        "advice": str(observation.advice or ""),
        "surface": ", ".join(observation.surfaces),
        "detail": _shorten_text(observation.detail),
        "decision": observation.decision_id or "",
        "rules": ", ".join(observation.rules),
        "judged": "" if observation.judged else "no: the guard or the store failed",
        "note": observation.note,
    }
    rows = [
        f"  {name:<9} {value or 'none'}{f'  <- expected {wrong[name]}' if name in wrong else ''}"
        for name, value in facts.items()
        if value or name in wrong
    ]
    return "\n".join([expected, f"but {observation.what} {_WORDS[observation.outcome]}", *rows])


def _shorten_text(text: str) -> str:
    line = ascii(text)[1:-1] if not text.isprintable() else text
    return line if len(line) <= _MAX_DETAIL else f"{line[:_MAX_DETAIL]}…"


def _parse_word(words: type[_Vocabulary], given: str | None, name: str) -> _Vocabulary | None:
    if given is None:
        return None
    try:
        return words(given)
    except ValueError:
        known = ", ".join(words)
        raise InputError(f"unknown `{given}`", where=name, help=f"one of {known}") from None
