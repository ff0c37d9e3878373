"""What a consumer does after a refusal: retry or not, with what change, and whom to ask.

The advice is a table. Class, `decided`, and what this reader knows of the code can only
take ways away from it. So a code from elsewhere, or advice that does not fit its class, ends in
a stop and not in a loop. One way is added: what a model chose by itself, another may not.
"""

import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from demur.codes.default import registry_or_core
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope
from demur.model.received import held
from demur.model.refusal import Refusal

__all__ = ["Change", "Helper", "NextStep", "Reset", "next_step"]


class Change(StrEnum):
    """What must be different before the request is sent again."""

    NOTHING = "nothing"
    REQUEST = "request"
    CONTEXT = "context"
    CONSTRAINTS = "constraints"
    APPROVAL = "approval"
    MODEL = "model"
    START = "start"


class Helper(StrEnum):
    """Who can settle what the agent cannot."""

    USER = "user"
    APPROVER = "approver"
    OPERATOR = "operator"


class Reset(StrEnum):
    """What has to be dropped, because the problem is kept in it."""

    CONTEXT = "context"
    SESSION = "session"


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """The way on from one refusal. Build one with `next_step`.

    `advice` is what was followed: the refusal's own, or a stricter one where that did not fit.
    `retry` says whether sending it again can ever help, once `change` is made. `wait` is in
    seconds, and None where nothing says how long. `needs` names what the change consists of,
    as far as the refusal does. `other_model` says that another model may serve the request as
    it is. `reach` is how far the refusal goes.
    """

    retry: bool
    change: Change
    sentence: str
    advice: Advice | None = None
    wait: float | None = None
    needs: tuple[str, ...] = ()
    other_model: bool = False
    ask: Helper | None = None
    reset: Reset | None = None
    reach: RetryScope | None = None


class _Way(NamedTuple):
    """What one advice means, and the words for it; `{}` stands for what is needed."""

    retry: bool
    change: Change
    ask: Helper | None
    words: str
    needs: str = ""
    otherwise: str = ""


_WAYS: Mapping[Advice, _Way] = {
    Advice.DO_NOT_RETRY: _Way(False, Change.NOTHING, None, "Do not send it again"),
    Advice.CHANGE_REQUEST: _Way(
        True, Change.REQUEST, None, "Ask for something else, not for the same in other words"
    ),
    Advice.PROVIDE_CONTEXT: _Way(
        *(True, Change.CONTEXT, Helper.USER, "Supply {} and send it again"),
        needs="missing",
        otherwise="what is missing",
    ),
    Advice.ACCEPT_CONSTRAINTS: _Way(
        *(True, Change.CONSTRAINTS, Helper.USER, "Accept {} and send it again"),
        needs="constraints",
        otherwise="the limits that are offered",
    ),
    Advice.REQUEST_APPROVAL: _Way(
        *(True, Change.APPROVAL, Helper.APPROVER, "Have it approved by {} and send it again"),
        needs="approver",
        otherwise="someone who may decide it",
    ),
    Advice.RETRY_LATER: _Way(True, Change.NOTHING, None, "Wait {} and send it again unchanged"),
    Advice.RESET_CONTEXT: _Way(
        True, Change.START, None, "Drop the context that carries the problem and start clean"
    ),
    Advice.USE_OTHER_MODEL: _Way(True, Change.MODEL, None, "Send it to another model"),
    Advice.ESCALATE_OPERATOR: _Way(
        False, Change.NOTHING, Helper.OPERATOR, "Hand it to whoever runs the system"
    ),
}
assert set(_WAYS) == set(Advice)
# No rule and no filter was in the way: the model declined, and gave no reason that holds elsewhere.
_OWN_CHOICE = _Way(True, Change.REQUEST, None, "Ask for something else, or ask another model")

# What can be of use where nothing lifts the block: none of it sends the same thing again.
_AFTER_HARD = {Advice.CHANGE_REQUEST, Advice.RESET_CONTEXT, Advice.ESCALATE_OPERATOR}
# Nobody can approve or bound what was never judged.
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
# A sentence may reach a model, and evidence may hold anyone's text: only plain names are quoted.
_NAME = re.compile(r"\w(?:[\w ./-]{0,38}\w)?")
_MOST_NAMES = 5


def next_step(refusal: Refusal, *, registry: Registry | None = None) -> NextStep:
    """Return what to do after `refusal`; never raises, whatever code and evidence it holds."""
    if refusal.refusal_class is None:
        return NextStep(retry=False, change=Change.NOTHING, sentence=_NOTHING)
    if refusal.source is not None and refusal.source.served_by is not None:
        return _stop(refusal, _SERVED)
    known = registry_or_core() if registry is None else registry
    doubt = _doubt(refusal, known)
    if doubt is not None:
        return _stop(refusal, doubt)
    # The refusal may have been read by anyone: its advice counts only if it is not looser.
    refusal = held(refusal, registry=known)
    advice = _fitting(refusal)
    way = _WAYS[advice]
    if _is_own_choice(refusal, advice):
        way = _OWN_CHOICE
    needs = _names(refusal.evidence.get(way.needs))
    wait = _seconds(refusal.evidence.get("retry_after")) if way.retry else None
    slot = _wait_words(wait) if advice is Advice.RETRY_LATER else _listed(needs) or way.otherwise
    return NextStep(
        retry=way.retry,
        change=way.change,
        sentence=_sentence(way.words.format(slot), refusal),
        advice=advice,
        wait=wait,
        needs=needs,
        other_model=advice is Advice.USE_OTHER_MODEL or way is _OWN_CHOICE,
        ask=way.ask,
        reset=_reset(advice, refusal.retry_scope),
        reach=refusal.retry_scope,
    )


def _doubt(refusal: Refusal, registry: Registry) -> str | None:
    """Return why the refusal's own words are not to be followed, or None."""
    # An organisation's code that is not loaded here is vouched for by its parent.
    entry = registry.get(refusal.code) or registry.get(refusal.parent or "")
    # INVARIANT: an unknown code is never retried.
    if entry is None or refusal.refusal_class is None or entry.refusal_class is None:
        return _UNKNOWN
    if refusal.refusal_class.strictness < entry.refusal_class.strictness:
        return _WEAKER
    return None


def _fitting(refusal: Refusal) -> Advice:
    """Return the advice, or a stricter one where class and `decided` leave no room for it."""
    advice = refusal.advice or Advice.DO_NOT_RETRY
    # INVARIANT: a hard block is never sent again as it was.
    if refusal.refusal_class is RefusalClass.HARD_BLOCK and advice not in _AFTER_HARD:
        return Advice.DO_NOT_RETRY
    if not refusal.decided and advice not in _NOT_JUDGED:
        return Advice.ESCALATE_OPERATOR
    return advice


def _is_own_choice(refusal: Refusal, advice: Advice) -> bool:
    declined = ReasonCode.MODEL_DECLINED in (refusal.code, refusal.parent)
    soft = refusal.refusal_class is RefusalClass.SOFT_BLOCK
    return declined and soft and advice is Advice.CHANGE_REQUEST


def _stop(refusal: Refusal, words: str) -> NextStep:
    return NextStep(
        retry=False,
        change=Change.NOTHING,
        sentence=_sentence(words, refusal),
        advice=Advice.DO_NOT_RETRY,
        reach=refusal.retry_scope,
    )


def _sentence(words: str, refusal: Refusal) -> str:
    return f"{words}; {_REACH[refusal.retry_scope]}."


def _reset(advice: Advice, scope: RetryScope | None) -> Reset | None:
    if advice is not Advice.RESET_CONTEXT:
        return None
    return Reset.SESSION if scope is RetryScope.SESSION else Reset.CONTEXT


def _seconds(value: Any) -> float | None:
    """Return a time to wait as evidence gives it: a number, or a header's text."""
    if isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _wait_words(seconds: float | None) -> str:
    if seconds is None:
        return "a while"
    return "1 second" if seconds == 1 else f"{seconds:.15g} seconds"


def _names(value: Any) -> tuple[str, ...]:
    listed: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    return tuple(name for name in listed if isinstance(name, str) and _NAME.fullmatch(name))


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
