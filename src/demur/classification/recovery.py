"""The recovery fields: reason, what can be done now, how to proceed, and the next step.

Their words come from the registry alone, so the same decision always has the same words and
never ends in a dead end. Friendlier words for people are composed in `demur.respond`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.meaning import ADVICE_MEANING
from demur.codes.vocabulary import Advice, DecisionOutput, RefusalClass

__all__ = ["Recovery", "leading_entry", "recovery_for"]

_SEVERITIES = ("info", "low", "medium", "high", "critical")

_NOW = {
    RefusalClass.HARD_BLOCK: "Carry on with the parts of the task that do not depend on this.",
    RefusalClass.WORKFLOW_BLOCK: "Nothing runs yet; the rest of the task can be prepared.",
    RefusalClass.SOFT_BLOCK: "A smaller or safer form of the request can be tried.",
}
_USED_UP = "The attempts are used up: hand the request to a person together with this reason."


class Recovery(NamedTuple):
    """The four fields that every output but ALLOW_EXECUTE carries."""

    reason: str
    what_can_be_done_now: str
    how_to_proceed: str
    next_step: Advice


def leading_entry(entries: Sequence[Entry]) -> Entry | None:
    """Return the leading code of a decision: strictest, then most severe, then by name."""
    refusing = [entry for entry in entries if entry.refusal_class is not None]
    return min(refusing, key=_entry_rank, default=None)


def _entry_rank(entry: Entry) -> tuple[int, int, str]:
    strictness = 0 if entry.refusal_class is None else entry.refusal_class.strictness
    return (-strictness, -_SEVERITIES.index(entry.severity), entry.code)


def recovery_for(
    output: DecisionOutput,
    entries: Sequence[Entry],
    *,
    constraints: Sequence[str],
    missing: Sequence[str],
    attempts_left: bool,
) -> Recovery | None:
    """Return the recovery fields, or None if no code refuses."""
    lead = leading_entry(entries)
    if lead is None or lead.refusal_class is None or lead.advice is None:
        return None
    refusal_class, advice = lead.refusal_class, lead.advice
    if advice is Advice.ACCEPT_CONSTRAINTS and not constraints:
        # There are no constraints to accept.
        advice = Advice.CHANGE_REQUEST
    now, proceed = _NOW[refusal_class], ADVICE_MEANING[advice]
    if output is DecisionOutput.ALLOW_CONSTRAINED:
        advice = Advice.ACCEPT_CONSTRAINTS
        now = f"Proceed within these constraints: {_join_words(constraints)}."
        proceed = "Keep to them for the whole action; ask again for anything beyond."
    elif output is DecisionOutput.NEED_CONTEXT and refusal_class is RefusalClass.SOFT_BLOCK:
        advice = Advice.ACCEPT_CONSTRAINTS
        now = f"These constraints would make it possible: {_join_words(constraints)}."
        proceed = "Accept all of them and send the request again as a continuation of this one."
    elif output is DecisionOutput.NEED_CONTEXT:
        now = f"Supply what is missing: {_join_words(missing)}."
        proceed = (
            f"Send it as a continuation of this request. {_authority_sentence(entries)}".rstrip()
        )
    elif refusal_class is not RefusalClass.HARD_BLOCK and not attempts_left:
        advice = Advice.ESCALATE_OPERATOR
        proceed = _USED_UP
    elif refusal_class is RefusalClass.WORKFLOW_BLOCK:
        proceed = f"{proceed} {_authority_sentence(entries)}".rstrip()
    return Recovery(lead.summary, now, proceed, advice)


def _authority_sentence(entries: Sequence[Entry]) -> str:
    kinds = sorted({kind for entry in entries for kind in entry.grants})
    return f"A grant of {_join_words(kinds, last='or')} lifts it." if kinds else ""


def _join_words(names: Sequence[str], last: str = "and") -> str:
    *most, final = names
    return f"{', '.join(most)} {last} {final}" if most else final
