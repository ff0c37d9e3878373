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
    """A call, the answer to it if it may not run, and whether it asks for approval first."""

    call: ToolCall
    refused: ToolMessage | None = None
    asks: bool = False


class Plan(NamedTuple):
    """What becomes of the calls of a message, in their order; `end` is there if the run is over."""

    ruled: list[Ruled]
    end: AIMessage | None = None

    @property
    def runs(self) -> list[ToolCall]:
        """The calls that may run."""
        return [one.call for one in self.ruled if one.refused is None]

    @property
    def refused(self) -> list[ToolMessage]:
        """The answers to those that may not."""
        return [one.refused for one in self.ruled if one.refused is not None]

    def handed_on(self, seal: Seal) -> tuple[list[ToolMessage], Notes]:
        """Return the answers that can be given now, and notes on the calls that go on.

        A call that shares its id with another goes on, refused or not: an answer to one of
        them would count for both.
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
    """Whether a call may run: the answer to it if not, and by which grants if so."""

    refused: ToolMessage | None = None
    grants: tuple[Grant, ...] = ()


def planned(calls: Sequence[ToolCall], at: Occasion, approval: Approval) -> Asking[Plan]:
    """Rule on the calls in their order; after a hard block none of them runs.

    Raises:
        InputError: A call has no id. Nothing could answer it.
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

    One that waits for approval asks for it here. Who is asked answers with a grant, or approves
    and leaves it to the host to give one; anything else is a no.
    """
    written = _written(call)
    if _permit(written, seal) in notes:
        return Admission()
    refused, asks = _noted(notes.get(_fingerprint(written)))
    if refused is None:
        # It does not ask: a run that goes on after a pause would rule on it once more.
        return (yield from _ruled(call, at, ()))
    if not asks:
        return Admission(refused)
    answer = interrupt({**(refused.artifact or {}), "tool_call": dict(call)})
    grants = grants_of(answer)
    if not grants and not approves(answer):
        return Admission(refused)
    kept = consent.taken(seal(written))
    if kept:
        # They let it run already, and its tool has paused the run itself since.
        grants, at = kept, at._replace(run=None)
    by_grants = _ruled(call, at, grants) if grants else _approved(call, at, answer, consent)
    return (yield from by_grants)


def paused(call: ToolCall, grants: tuple[Grant, ...], seal: Seal, consent: Consent) -> None:
    """Keep by which grants a call ran whose tool pauses the run itself: it will begin anew."""
    if grants:
        consent.keep(seal(_written(call)), grants)


def refusals_of(calls: Sequence[ToolCall], notes: Notes) -> list[ToolMessage | None]:
    """Return what was noted as the answer to each of the calls, should nobody approve of it."""
    return [_noted(notes.get(_fingerprint(_written(call))))[0] for call in calls]


def _approved(call: ToolCall, at: Occasion, answer: Any, consent: Consent) -> Asking[Admission]:
    """Return whether a call may run that somebody approved; the approval itself lifts nothing."""
    # The ruling did not outlast the pause, and much may have changed in it. As it is the same
    # call still, it counts in no history, and so it names no run.
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
    """Return what a tool returned that ran by these grants, or the answer in its place."""
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
    """Return the answer that a note has for a call, if it has one, and whether the call asks."""
    told = note if isinstance(note, dict) else {}
    refused = told.get("refused")
    return (refused if isinstance(refused, ToolMessage) else None), bool(told.get("asks"))


def _written(call: ToolCall) -> str:
    return _as_json([call["id"], call["name"], call["args"]])


def _permit(written: str, seal: Seal) -> str:
    return seal(f"runs {written}")


def _fingerprint(written: str) -> str:
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
