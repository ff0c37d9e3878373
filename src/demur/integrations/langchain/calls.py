"""Tool calls: all of one message are ruled on before the first runs, and none of them twice.

What was ruled travels with the state of the graph as notes. A note holds for the call as it was
then, id and arguments and all: one that somebody has edited since is ruled on anew. That a call
may run is noted under a seal; that it may not, or waits, is believed of anybody.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.types import interrupt

from demur.enforce.approval import Approval
from demur.enforce.enforcer import Occasion
from demur.enforce.ruling import Ruling
from demur.errors import InputError
from demur.integrations.langchain.asking import Ask, AskGrants, Asking
from demur.integrations.langchain.messages import (
    not_run,
    refused_answer,
    refused_call,
    returned_text,
)
from demur.integrations.langchain.notes import Seal
from demur.integrations.langchain.resumed import Consent, approves, grants_of
from demur.model.grant import Grant

__all__ = [
    "Admission",
    "Notes",
    "Plan",
    "Ruled",
    "admitted",
    "paused",
    "planned",
    "refusals_of",
    "returned",
]

Notes = Mapping[str, Any]

_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


class Ruled(NamedTuple):
    """A call, its refusal if it may not run, and whether it asks for approval first."""

    call: ToolCall
    refused: ToolMessage | None = None
    asks: bool = False


class Plan(NamedTuple):
    """The plan for the calls of a message, in order; `end` is set if the run is over."""

    ruled: list[Ruled]
    end: AIMessage | None = None

    @property
    def runs(self) -> list[ToolCall]:
        """The calls that may run."""
        return [one.call for one in self.ruled if one.refused is None]

    @property
    def refused(self) -> list[ToolMessage]:
        """The refusals of calls that may not run."""
        return [one.refused for one in self.ruled if one.refused is not None]

    def handed_on(self, seal: Seal) -> tuple[list[ToolMessage], Notes]:
        """Return the refusals to send now, and notes on the other calls.

        A refused call that shares its id with another gets a note: a message with that id would
        answer both calls.
        """
        ids = [one.call["id"] for one in self.ruled]
        notes: dict[str, Any] = {}
        answers = []
        for one in self.ruled:
            if one.refused is None:
                notes[_permit(_written(one.call), seal)] = {}
            elif one.asks or ids.count(one.call["id"]) > 1:
                note = {"refused": one.refused, "asks": one.asks}
                notes[_fingerprint(_written(one.call))] = note
            else:
                answers.append(one.refused)
        return answers, notes


class Admission(NamedTuple):
    """Whether a call may run: its refusal if not, and its grants if so."""

    refused: ToolMessage | None = None
    grants: tuple[Grant, ...] = ()


def planned(calls: Sequence[ToolCall], at: Occasion, approval: Approval) -> Asking[Plan]:
    """Check the calls in order; after a hard refusal none of them runs.

    Raises:
        InputError: A call has no id, so no message could answer it.
    """
    for call in calls:
        if call["id"] is None:
            raise InputError(f"a call of `{call['name']}` has no id")
    ruled: list[Ruled] = []
    for call in calls:
        ruling = yield _asked(call, at)
        refused = None if ruling.allowed else refused_call(ruling, call)
        ruled.append(Ruled(call, refused, _asks(ruling, approval)))
        if ruling.is_hard:
            ruled += [Ruled(each) for each in calls[len(ruled) :]]
            left = [Ruled(one.call, one.refused or not_run(one.call, ruling)) for one in ruled]
            return Plan(left, refused_answer(ruling))
    return Plan(ruled)


def admitted(
    call: ToolCall, notes: Notes, at: Occasion, seal: Seal, consent: Consent
) -> Asking[Admission]:
    """Return whether the call may run.

    A call that needs approval interrupts the run here. The person resumes with a grant, or
    approves and the host supplies the grant; any other answer denies the call.
    """
    written = _written(call)
    if _permit(written, seal) in notes:
        return Admission()
    refused, asks = _noted(notes.get(_fingerprint(written)))
    if refused is None:
        # No interrupt here: the resumed run would check the call once more.
        return (yield from _ruled(call, at, ()))
    if not asks:
        return Admission(refused)
    answer = interrupt({**(refused.artifact or {}), "tool_call": dict(call)})
    grants = grants_of(answer)
    if not grants and not approves(answer):
        return Admission(refused)
    kept = consent.taken(seal(written))
    if kept:
        # The call was admitted before, and its tool has interrupted the run since.
        grants, at = kept, at._replace(run=None)
    by_grants = _ruled(call, at, grants) if grants else _approved(call, at, answer, consent)
    return (yield from by_grants)


def paused(call: ToolCall, grants: tuple[Grant, ...], seal: Seal, consent: Consent) -> None:
    """Keep the grants of a call whose tool interrupts the run, because it will run again."""
    if grants:
        consent.keep(seal(_written(call)), grants)


def refusals_of(calls: Sequence[ToolCall], notes: Notes) -> list[ToolMessage | None]:
    """Return the noted refusal of each call, or None."""
    return [_noted(notes.get(_fingerprint(_written(call))))[0] for call in calls]


def _approved(call: ToolCall, at: Occasion, answer: Any, consent: Consent) -> Asking[Admission]:
    """Return whether an approved call may run; an approval without a grant is not enough."""
    # Check again after the pause. It is still the same call, so no run is named and the
    # history of calls does not count it twice.
    ruling = yield _asked(call, at._replace(run=None))
    grants: tuple[Grant, ...] = ()
    if ruling.may_be_approved:
        grants = yield AskGrants(consent.grant_for, ruling, answer)
    if grants or ruling.allowed:
        return (yield from _ruled(call, at, grants))
    return Admission(refused_call(ruling, call))


def returned(
    call: ToolCall, result: Any, at: Occasion, grants: tuple[Grant, ...] = ()
) -> Asking[Any]:
    """Check the result of a tool call, and return it or its refusal."""
    about = (call["name"], returned_text(result), at._replace(call_id=call["id"]))
    beside = {"arguments": call["args"], "grants": grants}
    ruling = yield Ask("tool_result", about, beside)
    if ruling.allowed:
        return result
    return refused_call(ruling, call, result if isinstance(result, ToolMessage) else None)


def _ruled(call: ToolCall, at: Occasion, grants: tuple[Grant, ...]) -> Asking[Admission]:
    ruling = yield _asked(call, at, grants=grants)
    return Admission(None if ruling.allowed else refused_call(ruling, call), grants)


def _asked(call: ToolCall, at: Occasion, **beside: Any) -> Ask:
    about = (call["name"], call["args"], at._replace(call_id=call["id"]))
    return Ask("tool_call", about, beside)


def _asks(ruling: Ruling, approval: Approval) -> bool:
    return approval == "interrupt" and ruling.may_be_approved


def _noted(note: Any) -> tuple[ToolMessage | None, bool]:
    """Return the refusal in a note, if any, and whether the call asks for approval."""
    told = note if isinstance(note, dict) else {}
    refused = told.get("refused")
    return (refused if isinstance(refused, ToolMessage) else None), bool(told.get("asks"))


def _written(call: ToolCall) -> str:
    return _as_json([call["id"], call["name"], call["args"]])


def _permit(written: str, seal: Seal) -> str:
    return seal(f"runs {written}")


def _fingerprint(written: str) -> str:
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
