"""Tool calls: demur checks all calls of a message before the first runs, each one once.

Results travel in the graph's state as notes. A note holds for one id with one set of arguments;
an edited call is checked again. Only a sealed note permits a call to run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.types import interrupt

from demur.enforce.approval import Approval
from demur.enforce.context import CallContext
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.integrations._kit.approval import ApprovalGrants, is_approval, parse_resume_grants
from demur.integrations.langchain.context import EnforcerCheck, GrantLookup, HookSteps, Seal
from demur.integrations.langchain.messages import (
    answer_abandoned_call,
    answer_not_run,
    build_call_refusal,
    build_refusal_answer,
    list_open_calls,
    result_text,
)
from demur.model.grant import Grant

CallNotes = Mapping[str, Any]

_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


class PlannedCall(NamedTuple):
    """A call, its refusal if it may not run, and whether it asks for approval first."""

    call: ToolCall
    refused: ToolMessage | None = None
    asks_approval: bool = False


class CallPlan(NamedTuple):
    """The plan for the calls of a message, in order; `end` is set if the run is over."""

    calls: list[PlannedCall]
    end: AIMessage | None = None

    @property
    def allowed_calls(self) -> list[ToolCall]:
        """The calls that may run."""
        return [one.call for one in self.calls if one.refused is None]

    @property
    def refusals(self) -> list[ToolMessage]:
        """The refusals of calls that may not run."""
        return [one.refused for one in self.calls if one.refused is not None]

    def split_answers(self, seal: Seal) -> tuple[list[ToolMessage], CallNotes]:
        """Return the refusals to send now, and notes on the other calls.

        A refused call that shares its id with another gets a note: a message with that id would
        answer both calls.
        """
        ids = [one.call["id"] for one in self.calls]
        notes: dict[str, Any] = {}
        answers = []
        for one in self.calls:
            if one.refused is None:
                notes[_permit_key(_serialize_call(one.call), seal)] = {}
            elif one.asks_approval or ids.count(one.call["id"]) > 1:
                note = {"refused": one.refused, "asks": one.asks_approval}
                notes[_fingerprint_call(_serialize_call(one.call))] = note
            else:
                answers.append(one.refused)
        return answers, notes


class CallAdmission(NamedTuple):
    """Whether a call may run: its refusal if not, and its grants if so."""

    refused: ToolMessage | None = None
    grants: tuple[Grant, ...] = ()


def plan_calls(
    calls: Sequence[ToolCall], context: CallContext, approval: Approval
) -> HookSteps[CallPlan]:
    """Check the calls in order; after a hard refusal none of them runs.

    Raises:
        InputError: A call has no id, so no message could answer it.
    """
    for call in calls:
        if call["id"] is None:
            raise InputError(f"a call of `{call['name']}` has no id")
    ruled: list[PlannedCall] = []
    for call in calls:
        ruling = yield _call_check(call, context)
        refused = None if ruling.allowed else build_call_refusal(ruling, call)
        ruled.append(PlannedCall(call, refused, _asks_approval(ruling, approval)))
        if ruling.is_hard:
            ruled += [PlannedCall(each) for each in calls[len(ruled) :]]
            left = [
                PlannedCall(one.call, one.refused or answer_not_run(one.call, ruling))
                for one in ruled
            ]
            return CallPlan(left, build_refusal_answer(ruling))
    return CallPlan(ruled)


def admit_call(
    call: ToolCall, notes: CallNotes, context: CallContext, seal: Seal, approvals: ApprovalGrants
) -> HookSteps[CallAdmission]:
    """Return whether the call may run.

    A call that needs approval interrupts the run here. The person resumes with a grant, or
    approves and the host supplies the grant; any other answer denies the call.
    """
    written = _serialize_call(call)
    if _permit_key(written, seal) in notes:
        return CallAdmission()
    refused, asks = _read_note(notes.get(_fingerprint_call(written)))
    if refused is None:
        # No interrupt here: the resumed run would check the call once more.
        return (yield from _check_with_grants(call, context, ()))
    if not asks:
        return CallAdmission(refused)
    answer = interrupt({**(refused.artifact or {}), "tool_call": dict(call)})
    grants = parse_resume_grants(answer)
    if not grants and not is_approval(answer):
        return CallAdmission(refused)
    kept = approvals.take_grants(seal(written))
    if kept:
        # The call was admitted before, and its tool has interrupted the run since.
        grants, context = kept, context._replace(run=None)
    by_grants = (
        _check_with_grants(call, context, grants)
        if grants
        else _admit_approved(call, context, answer, approvals)
    )
    return (yield from by_grants)


def keep_paused_grants(
    call: ToolCall, grants: tuple[Grant, ...], seal: Seal, approvals: ApprovalGrants
) -> None:
    """Keep the grants of a call whose tool interrupts the run, because it will run again."""
    if grants:
        approvals.keep_grants(seal(_serialize_call(call)), grants)


def list_noted_refusals(calls: Sequence[ToolCall], notes: CallNotes) -> list[ToolMessage | None]:
    """Return the noted refusal of each call, or None."""
    return [_read_note(notes.get(_fingerprint_call(_serialize_call(call))))[0] for call in calls]


def _admit_approved(
    call: ToolCall, context: CallContext, answer: Any, approvals: ApprovalGrants
) -> HookSteps[CallAdmission]:
    """Return whether an approved call may run; an approval without a grant is not enough."""
    # Check again after the pause. It is still the same call, so no run is named and the
    # history of calls does not count it twice.
    ruling = yield _call_check(call, context._replace(run=None))
    grants: tuple[Grant, ...] = ()
    if ruling.needs_approval:
        grants = yield GrantLookup(approvals.grant_for, ruling, answer)
    if grants or ruling.allowed:
        return (yield from _check_with_grants(call, context, grants))
    return CallAdmission(build_call_refusal(ruling, call))


def check_result(
    call: ToolCall, result: Any, context: CallContext, grants: tuple[Grant, ...] = ()
) -> HookSteps[Any]:
    """Check the result of a tool call, and return it or its refusal."""
    about = (call["name"], result_text(result), context._replace(call_id=call["id"]))
    beside = {"arguments": call["args"], "grants": grants}
    ruling = yield EnforcerCheck("check_tool_result", about, beside)
    if ruling.allowed:
        return result
    return build_call_refusal(ruling, call, result if isinstance(result, ToolMessage) else None)


def _check_with_grants(
    call: ToolCall, context: CallContext, grants: tuple[Grant, ...]
) -> HookSteps[CallAdmission]:
    ruling = yield _call_check(call, context, grants=grants)
    return CallAdmission(None if ruling.allowed else build_call_refusal(ruling, call), grants)


def _call_check(call: ToolCall, context: CallContext, **keywords: Any) -> EnforcerCheck:
    about = (call["name"], call["args"], context._replace(call_id=call["id"]))
    return EnforcerCheck("check_tool_call", about, keywords)


def _asks_approval(result: CheckResult, approval: Approval) -> bool:
    return approval == "interrupt" and result.needs_approval


def _read_note(note: Any) -> tuple[ToolMessage | None, bool]:
    """Return the refusal in a note, if any, and whether the call asks for approval."""
    told = note if isinstance(note, dict) else {}
    refused = told.get("refused")
    return (refused if isinstance(refused, ToolMessage) else None), bool(told.get("asks"))


def _serialize_call(call: ToolCall) -> str:
    return _as_json([call["id"], call["name"], call["args"]])


def _permit_key(written: str, seal: Seal) -> str:
    return seal(f"runs {written}")


def _fingerprint_call(written: str) -> str:
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def answer_abandoned_calls(
    messages: Sequence[BaseMessage], notes: CallNotes
) -> list[BaseMessage] | None:
    """Return the messages with a reply to each abandoned call; None if no call waited.

    If the user sends a new message instead of resuming, LangGraph drops the interrupt and the
    results beside it. Providers reject a history with unanswered calls, so demur adds a reply
    to each of them, right after the model's turn.
    """
    if not notes:
        return None
    calls = list_open_calls(messages)
    refusals = list_noted_refusals(calls, notes)
    if not any(refusals):
        return None
    answers = [
        refused or answer_abandoned_call(call)
        for call, refused in zip(calls, refusals, strict=True)
    ]
    end = _end_of_turn(messages)
    return [*messages[:end], *answers, *messages[end:]]


def _end_of_turn(messages: Sequence[BaseMessage]) -> int:
    """Return the position after the model's last turn and the tool replies to it."""
    end = next(at for at in reversed(range(len(messages))) if isinstance(messages[at], AIMessage))
    end += 1
    while end < len(messages) and isinstance(messages[end], ToolMessage):
        end += 1
    return end
