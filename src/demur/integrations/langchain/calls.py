"""Tool calls: all of one message are ruled on before the first runs, and none of them twice.

What was ruled travels with the state of the graph as notes, by the id of the call. A note
holds for the call as it was then: one that somebody has edited since is ruled on anew.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.types import interrupt

from demur.gate.enforcer import Occasion
from demur.gate.ruling import Ruling
from demur.integrations.langchain.asking import Ask, Asking
from demur.integrations.langchain.messages import (
    grants_of,
    not_run,
    refused_answer,
    refused_call,
    returned_text,
)

__all__ = ["Approval", "Notes", "Plan", "admitted", "planned", "returned"]

# How a call that waits for approval asks for it: by telling the model, or by a pause.
Approval = Literal["message", "interrupt"]
Notes = Mapping[str, Mapping[str, Any]]


class Plan(NamedTuple):
    """What becomes of the calls of a message.

    `answers` are for those that do not run, `notes` on those that may, or have to ask first.
    `end` is there if the run is over.
    """

    answers: list[ToolMessage]
    notes: dict[str, dict[str, Any]]
    end: AIMessage | None = None


def planned(calls: Sequence[ToolCall], at: Occasion, approval: Approval) -> Asking[Plan]:
    """Rule on the calls in their order; after a hard block none of them runs."""
    answers: dict[str, ToolMessage] = {}
    notes: dict[str, dict[str, Any]] = {}
    for call in calls:
        ruling = yield _asked(call, at)
        refused = None if ruling.allowed else refused_call(ruling, call)
        if refused is not None and ruling.is_hard:
            answers[_id(call)] = refused
            left = [answers.get(_id(each)) or not_run(each, ruling) for each in calls]
            return Plan(left, {}, refused_answer(ruling))
        if refused is not None and not _asks(ruling, approval):
            answers[_id(call)] = refused
        else:
            notes[_id(call)] = {"call": _fingerprint(call), "refused": refused}
    return Plan(list(answers.values()), notes)


def admitted(call: ToolCall, notes: Notes, at: Occasion) -> Asking[ToolMessage | None]:
    """Return the answer to a call that may not run, or None if it may.

    One that waits for approval asks for it here. Who is asked answers with a grant; anything
    else is a no.
    """
    note = notes.get(_id(call), {})
    if note.get("call") != _fingerprint(call):
        # It does not ask: a run that goes on after a pause would rule on it once more.
        return (yield from _ruled(call, at))
    refused: ToolMessage | None = note["refused"]
    if refused is None:
        return None
    grants = grants_of(interrupt({**refused.artifact, "tool_call": dict(call)}))
    return (yield from _ruled(call, at, grants=grants)) if grants else refused


def returned(call: ToolCall, result: Any, at: Occasion) -> Asking[Any]:
    """Return what a tool returned, or the answer in its place."""
    about = (call["name"], returned_text(result), at._replace(call_id=call["id"]))
    ruling = yield Ask("tool_result", about, {"arguments": call["args"]})
    if ruling.allowed:
        return result
    return refused_call(ruling, call, result if isinstance(result, ToolMessage) else None)


def _ruled(call: ToolCall, at: Occasion, **beside: Any) -> Asking[ToolMessage | None]:
    ruling = yield _asked(call, at, **beside)
    return None if ruling.allowed else refused_call(ruling, call)


def _asked(call: ToolCall, at: Occasion, **beside: Any) -> Ask:
    about = (call["name"], call["args"], at._replace(call_id=call["id"]))
    return Ask("tool_call", about, beside)


def _asks(ruling: Ruling, approval: Approval) -> bool:
    return approval == "interrupt" and ruling.may_be_approved


def _id(call: ToolCall) -> str:
    return call["id"] or ""


def _fingerprint(call: ToolCall) -> str:
    said = json.dumps([call["name"], call["args"]], sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
