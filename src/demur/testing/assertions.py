"""Assertions on refusals, for any test runner.

A failure lists in one block what was observed instead.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from demur.codes.default import default_registry
from demur.codes.vocabulary import Advice, RefusalClass, Surface
from demur.errors import InputError
from demur.source.suggest import did_you_mean
from demur.testing.seen import RefusalOutcome, Observation, observe_outcome

__all__ = ["assert_allows", "assert_refuses"]

_Vocabulary = TypeVar("_Vocabulary", bound=StrEnum)
_MAX_DETAIL = 300
_NO_DIFFERENCES: Mapping[str, str] = {}
_OUTCOME_WORDS = {
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
    wanted = _RefusalCriteria(
        None if code is None else str(code),
        _parse_word(RefusalClass, refusal_class, "refusal_class"),
        _parse_word(Advice, advice, "advice"),
        _parse_word(Surface, surface, "surface"),
    )
    seen = observe_outcome(thing)
    if seen.outcome is not RefusalOutcome.REFUSED:
        raise AssertionError(_format_failure(f"expected {wanted}", seen))
    wrong = dict(_find_differences(wanted, seen))
    if wrong:
        raise AssertionError(_format_failure(f"expected {wanted}", seen, wrong))
    if code is None and not seen.judged:
        asked = f"expected {wanted} that was judged; name the code if this is what you expect"
        raise AssertionError(_format_failure(asked, seen))
    return seen


def assert_allows(thing: Any) -> Observation:
    """Assert that `thing` was judged and does not refuse, and return the observation.

    It accepts the same types as `assert_refuses`; `value` is the return value of a function.

    Raises:
        InputTypeError: `thing` has a type that cannot refuse.
    """
    __tracebackhide__ = True
    seen = observe_outcome(thing)
    if seen.outcome is not RefusalOutcome.ALLOWED:
        raise AssertionError(_format_failure("expected no refusal", seen))
    return seen


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


def _find_differences(wanted: _RefusalCriteria, seen: Observation) -> Iterator[tuple[str, str]]:
    """Yield the name and the expected value of each fact that differs."""
    if wanted.code is not None and wanted.code not in seen.codes:
        yield "code", f"{wanted.code}{_unknown_code_hint(wanted.code)}"
    if wanted.refusal_class not in {None, seen.refusal_class}:
        yield "class", str(wanted.refusal_class)
    if wanted.advice not in {None, seen.advice}:
        yield "advice", str(wanted.advice)
    if wanted.surface is not None and wanted.surface not in seen.surfaces:
        yield "surface", str(wanted.surface)


def _unknown_code_hint(code: str) -> str:
    """Return a hint if a code is not registered, because a test with a typo always fails."""
    known = default_registry()
    if code in known:
        return ""
    hint = did_you_mean(code, [entry.code for entry in known])
    return f", which is not registered{f': {hint}' if hint else ''}"


def _format_failure(
    expected: str, seen: Observation, wrong: Mapping[str, str] = _NO_DIFFERENCES
) -> str:
    """Return the failure message: the expectation, and every observed fact."""
    facts = {
        "code": ", ".join(seen.codes),
        "class": str(seen.refusal_class or ""),
        "advice": str(seen.advice or ""),
        "surface": ", ".join(seen.surfaces),
        "detail": _shorten_text(seen.detail),
        "decision": seen.decision_id or "",
        "rules": ", ".join(seen.rules),
        "judged": "" if seen.judged else "no: the guard or the store failed",
        "note": seen.note,
    }
    rows = [
        f"  {name:<9} {value or 'none'}{f'  <- expected {wrong[name]}' if name in wrong else ''}"
        for name, value in facts.items()
        if value or name in wrong
    ]
    return "\n".join([expected, f"but {seen.what} {_OUTCOME_WORDS[seen.outcome]}", *rows])


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
