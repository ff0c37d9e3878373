"""The next step after a refusal: retry or not, with what change, and whom to ask.

A table gives the meaning of each advice. Class, `decided` and the reader's own registry can only
restrict it, so an unknown code, or advice that does not fit its class, ends in a stop and not in
a loop. Two ways are added: if a model declined by its own choice, another model may be asked; a
result that was withheld is done without, because no context has to be dropped for it.
"""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from demur.codes.loading import registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, GrantKind, RefusalClass, RetryScope, Surface
from demur.model.refusal import (
    AFTER_HARD,
    Refusal,
    list_named,
    offered_advice,
    tighten_to_registry,
)


class RequiredChange(StrEnum):
    """The change that is needed before the request is sent again."""

    NOTHING = "nothing"
    REQUEST = "request"
    CONTEXT = "context"
    CONSTRAINTS = "constraints"
    APPROVAL = "approval"
    MODEL = "model"
    START = "start"


class HelpSource(StrEnum):
    """The people who can help where the agent cannot go on alone."""

    USER = "user"
    APPROVER = "approver"
    OPERATOR = "operator"


class ResetScope(StrEnum):
    """The state to drop, because it carries the problem."""

    CONTEXT = "context"
    SESSION = "session"


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next step after one refusal. Build one with `next_step`.

    `advice` is the refusal's own, or a stricter one where that does not fit. `retry` says
    whether sending it again can help, once `change` is made. `wait` is in seconds, None if
    unknown. `needs` names the parts of the change, as far as the refusal does. `other_model` says
    that another model may serve the request unchanged. `reach` is how far the refusal goes.
    """

    retry: bool
    change: RequiredChange
    sentence: str
    advice: Advice | None = None
    wait: float | None = None
    needs: tuple[str, ...] = ()
    other_model: bool = False
    ask: HelpSource | None = None
    reset: ResetScope | None = None
    reach: RetryScope | None = None


class _AdviceMeaning(NamedTuple):
    """The meaning of one advice, and its words; `{}` is replaced by what is needed.

    `otherwise` are the words if the refusal names nothing that is needed.
    """

    retry: bool
    change: RequiredChange
    ask: HelpSource | None
    words: str
    needs: str = ""
    otherwise: str = ""


_ADVICE_MEANINGS: Mapping[Advice, _AdviceMeaning] = {
    Advice.DO_NOT_RETRY: _AdviceMeaning(
        False, RequiredChange.NOTHING, None, "Do not send it again"
    ),
    Advice.CHANGE_REQUEST: _AdviceMeaning(
        True,
        RequiredChange.REQUEST,
        None,
        "Ask for something else, not for the same in other words",
    ),
    Advice.PROVIDE_CONTEXT: _AdviceMeaning(
        True,
        RequiredChange.CONTEXT,
        HelpSource.USER,
        "Supply {} and send it again",
        needs="missing",
        otherwise="Ask the user for the details that it lacks, and send it again with them",
    ),
    Advice.ACCEPT_CONSTRAINTS: _AdviceMeaning(
        True,
        RequiredChange.CONSTRAINTS,
        HelpSource.USER,
        "Accept {} and send it again",
        needs="constraints",
        otherwise="Accept the limits that its evidence lists as constraints and send it again",
    ),
    Advice.REQUEST_APPROVAL: _AdviceMeaning(
        True,
        RequiredChange.APPROVAL,
        HelpSource.APPROVER,
        "Have it approved by {} and send it again",
        needs="approver",
        otherwise="Have it approved by someone who may decide it and send it again",
    ),
    Advice.RETRY_LATER: _AdviceMeaning(
        True, RequiredChange.NOTHING, None, "Wait {} and send it again unchanged"
    ),
    Advice.RESET_CONTEXT: _AdviceMeaning(
        True,
        RequiredChange.START,
        None,
        "Drop the context that carries the problem and start clean",
    ),
    Advice.USE_OTHER_MODEL: _AdviceMeaning(
        True, RequiredChange.MODEL, None, "Send it to another model"
    ),
    Advice.ESCALATE_OPERATOR: _AdviceMeaning(
        False,
        RequiredChange.NOTHING,
        HelpSource.OPERATOR,
        "Do not send it again, and tell the user that whoever runs the system must settle it",
    ),
}
assert set(_ADVICE_MEANINGS) == set(Advice)
# The model declined by its own choice, not because of a rule or a filter.
_OWN_WORDS = "Ask for something else, or ask another model"
_QUESTIONS: Mapping[str, str] = {
    ReasonCode.OBJECTIVE_UNCLEAR: (
        "Ask the user what it is meant to achieve, and send it again with the answer"
    ),
    ReasonCode.SCOPE_MISSING: (
        "Ask the user what it should apply to and where it should stop, and send it again with "
        "the answer"
    ),
}
_OWN_CHOICE = _AdviceMeaning(True, RequiredChange.REQUEST, None, _OWN_WORDS)
# A withheld result or passage never reached the context, so there is nothing to drop.
_WITHHELD_SURFACES = frozenset({Surface.TOOL_RESULT, Surface.RETRIEVAL})
_WITHHELD_WORDS = "Go on without it: it was withheld, and nothing of it is in the context"
_WITHHELD = _AdviceMeaning(False, RequiredChange.NOTHING, None, _WITHHELD_WORDS)

# A check that was not made cannot be approved or constrained.
_NOT_JUDGED = set(Advice) - {Advice.REQUEST_APPROVAL, Advice.ACCEPT_CONSTRAINTS}

_REACH: Mapping[RetryScope | None, str] = {
    RetryScope.CALL: "other calls may pass",
    RetryScope.RULE: "variants of it are refused as well",
    RetryScope.SESSION: "it concerns the whole session",
    None: "how far the refusal reaches is not known",
}
_UNKNOWN = "Do not send it again: this reader does not know the code"
_WEAKER = "Do not send it again: the refusal calls itself weaker than its code is"
_SERVED = "Go on with the answer: another model has given it"
_NOTHING = "Go on: nothing was refused."
# The sentence may reach a model and evidence may be hostile, so only plain names are quoted.
_NAME = re.compile(r"[\w≤≥$€£](?:[\w ./%≤≥$€£'-]{0,38}[\w%])?")
_MAX_NAMES = 5
_GRANTS = frozenset(GrantKind)


def next_step(refusal: Refusal, *, registry: Registry | None = None) -> NextStep:
    """Return the next step after `refusal`. Never raises, whatever the refusal holds."""
    if refusal.refusal_class is None:
        return NextStep(retry=False, change=RequiredChange.NOTHING, sentence=_NOTHING)
    if refusal.source is not None and refusal.source.served_by is not None:
        return _stop_step(refusal, _SERVED)
    known = registry_or_core() if registry is None else registry
    doubt = _distrust_reason(refusal, known)
    if doubt is not None:
        return _stop_step(refusal, doubt)
    # The refusal may come from anyone: its advice counts only if it is not looser.
    refusal = tighten_to_registry(refusal, registry=known)
    advice = _fitting_advice(refusal)
    way = _ADVICE_MEANINGS[advice]
    declined = ReasonCode.MODEL_DECLINED in (refusal.code, refusal.parent)
    is_soft = refusal.refusal_class is RefusalClass.SOFT_BLOCK
    if declined and is_soft and advice is Advice.CHANGE_REQUEST:
        way = _OWN_CHOICE
    if advice is Advice.RESET_CONTEXT and refusal.surface in _WITHHELD_SURFACES:
        way = _WITHHELD
    needs = _list_plain_names(refusal, way.needs)
    wait = _parse_seconds(refusal.evidence.get("retry_after")) if way.retry else None
    if advice is Advice.RETRY_LATER:
        slot = "a while" if wait is None else f"{wait:.15g} second{'s' * (wait != 1)}"
        words = way.words.format(slot)
    else:
        words = _name_needs(refusal, way)
    if advice is Advice.REQUEST_APPROVAL:
        fields = _join_names(refusal, "missing", grants=False)
        words += f", with {fields} supplied" if fields else ""
    if advice is Advice.ESCALATE_OPERATOR:
        names = _join_names(refusal, "missing", grants=True)
        words = words.replace(",", f" without {names},", 1) if names else words
    reset = None
    if advice is Advice.RESET_CONTEXT and way is not _WITHHELD:
        is_session = refusal.retry_scope is RetryScope.SESSION
        reset = ResetScope.SESSION if is_session else ResetScope.CONTEXT
    return NextStep(
        retry=way.retry,
        change=way.change,
        sentence=f"{words}." if way is _WITHHELD else _format_sentence(words, refusal),
        advice=advice,
        wait=wait,
        needs=needs,
        other_model=advice is Advice.USE_OTHER_MODEL or way is _OWN_CHOICE,
        ask=way.ask,
        reset=reset,
        reach=refusal.retry_scope,
    )


def _name_needs(refusal: Refusal, way: _AdviceMeaning) -> str:
    """Return the words of an advice with what is needed, or the question to put to the user."""
    only_grants = way.needs == "missing" and not _join_names(refusal, "missing", grants=False)
    # A question does more than the name of a grant.
    if only_grants and refusal.code in _QUESTIONS:
        return _QUESTIONS[refusal.code]
    names = _join_names(refusal, way.needs)
    return way.words.format(names) if names or not way.needs else way.otherwise


def _list_plain_names(refusal: Refusal, key: str) -> tuple[str, ...]:
    """Return the names under a key of the evidence that may be quoted."""
    return tuple(name for name in list_named(refusal.evidence, key) if _NAME.fullmatch(name))


def _join_names(refusal: Refusal, key: str, *, grants: bool | None = None) -> str:
    """Return the names under a key in words; empty if none of them may be quoted.

    `grants` leaves out all names but grants, or the grants.
    """
    every = list_named(refusal.evidence, key)
    named = [name for name in every if grants is None or _is_grant(name) is grants]
    plain = [name for name in named if _NAME.fullmatch(name)][:_MAX_NAMES]
    shown = [f"a grant of {name}" if _is_grant(name) else name for name in plain]
    more = f" and {len(named) - len(plain)} more" if len(named) > len(plain) else ""
    return f"{', '.join(shown)}{more}" if shown else ""


def _is_grant(name: str) -> bool:
    """Return whether a missing part is a grant, like `approval` or `approval or tool`."""
    return _GRANTS.issuperset(name.split(" or "))


def _distrust_reason(refusal: Refusal, registry: Registry) -> str | None:
    """Return why the refusal's own advice is not to be followed, or None."""
    # For an organisation's code that is not loaded here, use its parent.
    entry = registry.get(refusal.code) or registry.get(refusal.parent or "")
    # INVARIANT: an unknown code is never retried.
    if entry is None or refusal.refusal_class is None or entry.refusal_class is None:
        return _UNKNOWN
    if refusal.refusal_class.strictness < entry.refusal_class.strictness:
        return _WEAKER
    return None


def _fitting_advice(refusal: Refusal) -> Advice:
    """Return the advice, or a stricter one if it does not fit class and `decided`."""
    advice = refusal.advice or Advice.DO_NOT_RETRY
    # INVARIANT: a hard block is never sent again as it was.
    if refusal.refusal_class is RefusalClass.HARD_BLOCK and advice not in AFTER_HARD:
        return Advice.DO_NOT_RETRY
    if not refusal.decided and advice not in _NOT_JUDGED:
        return Advice.ESCALATE_OPERATOR
    return offered_advice(advice, refusal.evidence) or advice


def _stop_step(refusal: Refusal, words: str) -> NextStep:
    return NextStep(
        retry=False,
        change=RequiredChange.NOTHING,
        sentence=_format_sentence(words, refusal),
        advice=Advice.DO_NOT_RETRY,
        reach=refusal.retry_scope,
    )


def _format_sentence(words: str, refusal: Refusal) -> str:
    return f"{words}; {_REACH[refusal.retry_scope]}."


def _parse_seconds(value: Any) -> float | None:
    """Return the seconds to wait in evidence: a number, or the text of a header."""
    if isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
