"""Tool calls: demur checks all calls of a message before the first runs, each one once.

Results travel in the graph's state as notes. A note holds for one id with one set of arguments;
an edited call is checked again. Only a sealed note permits a call to run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from demur.enforce.context import Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Approval, CheckResult, grant_steps
from demur.errors import InputError
from demur.integrations._kit import is_changed_fully
from demur.integrations._kit.approval import ApprovalGrants, is_approval, parse_resume_grants
from demur.integrations.langchain.context import HookContext, Seal
from demur.integrations.langchain.messages import (
    answer_abandoned_call,
    answer_not_run,
    build_call_refusal,
    build_refusal_answer,
    change_output,
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
            written = _serialize_call(one.call)
            if one.refused is None:
                notes[_permit_key(written, seal)] = {}
            elif one.asks_approval or ids.count(one.call["id"]) > 1:
                notes[_fingerprint(written)] = {"refused": one.refused, "asks": one.asks_approval}
            else:
                answers.append(one.refused)
        return answers, notes


class CallAdmission(NamedTuple):
    """Whether a call may run: its refusal if not, and its grants if so."""

    refused: ToolMessage | None = None
    grants: tuple[Grant, ...] = ()


def plan_calls(calls: Sequence[ToolCall], hook: HookContext, approval: Approval) -> Steps[CallPlan]:
    """Check the calls in order; after a hard refusal none of them runs.

    Raises:
        InputError: A call has no id, so no message could answer it.
    """
    for call in calls:
        if call["id"] is None:
            raise InputError(f"a call of `{call['name']}` has no id")
    planned: list[PlannedCall] = []
    for call in calls:
        result = yield from _check(call, hook)
        refused = None if result.allowed else build_call_refusal(result, call)
        asks_approval = approval == "interrupt" and result.needs_approval
        planned.append(PlannedCall(call, refused, asks_approval))
        if result.is_hard:
            planned += [PlannedCall(each) for each in calls[len(planned) :]]
            ended = [
                PlannedCall(one.call, one.refused or answer_not_run(one.call, result))
                for one in planned
            ]
            return CallPlan(ended, build_refusal_answer(result))
    return CallPlan(planned)


def admit_call(
    call: ToolCall, notes: CallNotes, hook: HookContext, approvals: ApprovalGrants
) -> Steps[CallAdmission]:
    """Return whether the call may run.

    A call that needs approval interrupts the run here. The person resumes with a grant, or
    approves and the host supplies the grant; any other answer denies the call.
    """
    written = _serialize_call(call)
    if _permit_key(written, hook.seal) in notes:
        return CallAdmission()
    refused, asks_approval = _read_note(notes, written)
    if refused is None:
        # No interrupt here: the resumed run would check the call once more.
        return (yield from _check_with_grants(call, hook, ()))
    answer = asks_approval and interrupt({**(refused.artifact or {}), "tool_call": dict(call)})
    grants = parse_resume_grants(answer)
    if not grants and not is_approval(answer):
        return CallAdmission(refused)
    # It is still the same call, so no run is named and its history does not count it twice.
    unnamed = hook._replace(context=hook.context._replace(run=None))
    kept = approvals.take_grants(hook.seal(written))
    if kept:
        # The call was admitted before, and its tool has interrupted the run since.
        return (yield from _check_with_grants(call, unnamed, kept))
    if not grants:
        # An approval without a grant is not enough. Check again after the pause.
        result = yield from _check(call, unnamed)
        if result.needs_approval:
            grants = yield from grant_steps(approvals.grant_for, result, answer)
        if not grants and not result.allowed:
            return CallAdmission(build_call_refusal(result, call))
    return (yield from _check_with_grants(call, hook, grants))


def keep_paused_grants(
    call: ToolCall, grants: tuple[Grant, ...], seal: Seal, approvals: ApprovalGrants
) -> None:
    """Keep the grants of a call whose tool interrupts the run, because it will run again."""
    if grants:
        approvals.keep_grants(seal(_serialize_call(call)), grants)


def check_result(
    call: ToolCall, result: Any, hook: HookContext, grants: tuple[Grant, ...] = ()
) -> Steps[Any]:
    """Check the result of a tool call, and return it or its refusal."""
    context = hook.context._replace(call_id=call["id"])
    changed = result
    for enforcer in (hook.enforcer, hook.enforcer.refuse_changes()):
        checked = yield from enforcer.tool_result_steps(
            call["name"], result_text(result), context, arguments=call["args"], grants=grants
        )
        if checked.changes is not None:
            changed = change_output(result, checked)
        if is_changed_fully(checked, result_text(changed)):
            break
    if checked.allowed:
        return changed
    return build_call_refusal(checked, call, result if isinstance(result, ToolMessage) else None)


def change_call(request: ToolCallRequest, enforcer: Enforcer) -> ToolCallRequest:
    """Return a request to run a tool with the arguments that its check allowed."""
    call = request.tool_call
    changes, _ = enforcer.change_arguments(call["args"], call["name"])
    if changes is None:
        return request
    return request.override(tool_call={**call, "args": changes.apply(call["args"])})


def _check_with_grants(
    call: ToolCall, hook: HookContext, grants: tuple[Grant, ...]
) -> Steps[CallAdmission]:
    result = yield from _check(call, hook, grants)
    return CallAdmission(None if result.allowed else build_call_refusal(result, call), grants)


def _check(call: ToolCall, hook: HookContext, grants: tuple[Grant, ...] = ()) -> Steps[CheckResult]:
    context = hook.context._replace(call_id=call["id"])
    return hook.enforcer.tool_call_steps(call["name"], call["args"], context, grants=grants)


def _read_note(notes: CallNotes, written: str) -> tuple[ToolMessage | None, bool]:
    """Return the refusal in the note on a call, if any, and whether it asks for approval."""
    note = notes.get(_fingerprint(written))
    fields = note if isinstance(note, dict) else {}
    refused = fields.get("refused")
    return (refused if isinstance(refused, ToolMessage) else None), bool(fields.get("asks"))


def _serialize_call(call: ToolCall) -> str:
    return _as_json([call["id"], call["name"], call["args"]])


def _permit_key(written: str, seal: Seal) -> str:
    return seal(f"runs {written}")


def _fingerprint(written: str) -> str:
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
    refusals = [_read_note(notes, _serialize_call(call))[0] for call in calls]
    if not any(refusals):
        return None
    answers = [
        refused or answer_abandoned_call(call)
        for call, refused in zip(calls, refusals, strict=True)
    ]
    end = max(at for at, one in enumerate(messages, 1) if isinstance(one, AIMessage))
    while end < len(messages) and isinstance(messages[end], ToolMessage):
        end += 1
    return [*messages[:end], *answers, *messages[end:]]
