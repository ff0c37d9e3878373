"""Approvals over HTTP: what waits for a person, and how a requester learns what came of it."""

from functools import partial
from typing import Annotated, Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.gate.approval_queue import MAX_APPROVAL_NOTE, ApprovalError, ApprovalLimits
from demur.gate.approvals import describe_next_step, is_settled
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.service.authentication import Role
from demur.service.calls import (
    TENANT_PARAMETER,
    ApiAnswer,
    ApiCall,
    QueryField,
    RouteTable,
    json_answer,
    number_parameter,
    wait_for_disconnect,
)
from demur.service.problem import ProblemError, forbidden, invalid_call
from demur.service.record_search import require_record
from demur.service.routes.decisions import is_page_start
from demur.store.approval_tables import VoteProblem
from demur.store.rows import ApprovalRow, ApprovalState

APPROVAL_ROUTES = RouteTable()
_DEFAULT_LIMIT, _MAX_LIMIT = 50, 500
_DEFAULT_WAIT_S, _MAX_WAIT_S = 30, 60
_APPROVAL = "/v1/approvals/{decision_id}"
_Note = Annotated[str, msgspec.Meta(max_length=MAX_APPROVAL_NOTE, pattern="^[^\\x00]*$")]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A request for approval: what waits, for whom and until when, and how it ended.

    `needed` different people must approve it, and `given` did. `group` decides; if it is empty, any
    approver does. `resolution_id` is the decision that came of it.
    """

    decision_id: str
    tenant: str
    action_type: str
    reason_codes: list[str]
    kinds: list[str]
    needed: int
    given: int
    requested_at: str
    expires_at: str
    group: str
    state: ApprovalState
    closed_at: str | None
    closed_by: str
    note: str
    resolution_id: str | None

    @classmethod
    def from_row(cls, row: ApprovalRow, given: int) -> "ApprovalView":
        """Return what is shown of a row."""
        return cls(
            decision_id=row.decision_id,
            tenant=row.tenant,
            action_type=row.action_type,
            reason_codes=list(row.reason_codes),
            kinds=list(row.kinds),
            needed=row.needed,
            given=given,
            requested_at=row.requested_at,
            expires_at=row.expires_at,
            group=row.group_name,
            state=ApprovalState(row.state),
            closed_at=row.closed_at,
            closed_by=row.closed_by,
            note=row.note,
            resolution_id=row.resolution_id,
        )


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for approval, newest first; `next` is the `before` of the next page, if any."""

    approvals: list[ApprovalView]
    next: str | None


class VoteView(msgspec.Struct, frozen=True, kw_only=True):
    """One person's vote."""

    person: str
    vote: str
    note: str
    limits: dict[str, Any]
    voted_at: str


class ApprovalDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A request for approval with its votes, oldest first."""

    approval: ApprovalView
    votes: list[VoteView]


class ApprovalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request for approval, and how its requester goes on."""

    decision_id: str
    state: ApprovalState
    settled: bool
    needed: int
    given: int
    expires_at: str
    closed_at: str | None
    closed_by: str
    note: str
    resolution_id: str | None
    how_to_proceed: str


@APPROVAL_ROUTES.add_sync(
    "GET /v1/approvals",
    "list approvals",
    Role.READ,
    gives=Approvals,
    query=(
        QueryField("state", "Only this state.", {"type": "string", "enum": list(ApprovalState)}),
        QueryField("group", "Only what this group or any approver decides."),
        QueryField("before", "The `next` of an earlier page."),
        number_parameter("limit", "How many.", _MAX_LIMIT),
        TENANT_PARAMETER,
    ),
)
def list_approvals(call: ApiCall) -> Approvals:
    """List requests for approval, newest first."""
    limit, before = call.read_number("limit", _DEFAULT_LIMIT, maximum=_MAX_LIMIT), None
    if call.query.get("before"):
        before = call.query["before"]
        if not is_page_start(before):
            raise invalid_call(422, "not a decision id", "before", "take the `next` of a page")
    group, store = call.query.get("group"), call.service.store
    rows = store.list_approvals(
        call.chosen_tenant(),
        call.query.get("state"),
        None if group is None else [group],
        before,
        limit + 1,
    )
    listed = rows[:limit]
    now = format_timestamp(call.service.clock())
    given = store.count_votes([row.decision_id for row in listed], now)
    views = [ApprovalView.from_row(row, given.get(row.decision_id, 0)) for row in listed]
    return Approvals(approvals=views, next=listed[-1].decision_id if len(rows) > limit else None)


@APPROVAL_ROUTES.add_sync(
    f"GET {_APPROVAL}", "get approval", Role.READ, gives=ApprovalDetails, statuses=(404,)
)
def get_approval(call: ApiCall) -> ApprovalDetails:
    """Return one request for approval with its votes."""
    return describe_approval(call, require_approval(call))


def require_approval(call: ApiCall) -> ApprovalRow:
    """Return the request for approval that the path names. May wait for the store.

    Raises:
        ProblemError: There is none, or it is another tenant's; both look the same.
    """
    return _require_row(call, require_record(call))


def _require_row(call: ApiCall, record: DecisionRecord) -> ApprovalRow:
    row = call.service.store.get_approval(record.decision_id, record.tenant)
    if row is None:
        help_text = "only a refusal that people can lift is put before them"
        raise invalid_call(404, "this decision asked nobody for approval", help=help_text)
    return row


def _count_given(call: ApiCall, row: ApprovalRow) -> int:
    now = format_timestamp(call.service.clock())
    return call.service.store.count_votes([row.decision_id], now).get(row.decision_id, 0)


def describe_approval(call: ApiCall, row: ApprovalRow) -> ApprovalDetails:
    """Return what is shown of a request for approval and its votes."""
    votes = call.service.store.list_votes(row.decision_id)
    return ApprovalDetails(
        approval=ApprovalView.from_row(row, _count_given(call, row)),
        votes=[
            VoteView(
                person=vote.person,
                vote=vote.vote,
                note=vote.note,
                limits=dict(vote.limits),
                voted_at=vote.voted_at,
            )
            for vote in votes
        ],
    )


class Approve(ApprovalLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's yes, with its limits and a note."""

    note: _Note = ""


class Decline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's no, with a note that the requester gets."""

    note: _Note = ""


_STATUSES = {
    VoteProblem.UNKNOWN: 404,
    VoteProblem.NOT_ALLOWED: 403,
    VoteProblem.OTHER_GROUP: 403,
    VoteProblem.OWN_REQUEST: 403,
}


@APPROVAL_ROUTES.add_sync(
    f"POST {_APPROVAL}/approve",
    "approve decision",
    Role.APPROVE,
    takes=Approve,
    gives=ApprovalDetails,
    statuses=(404, 409),
    example={"covers": "request", "valid_s": 3600, "note": "the ticket is there"},
)
def approve_decision(call: ApiCall) -> ApprovalDetails:
    """Approve a refused decision, within limits, as the person who is logged in."""
    body = call.decode_body(Approve)
    limits = ApprovalLimits(covers=body.covers, valid_s=body.valid_s, uses=body.uses)
    return cast_vote(call, body.note, limits)


@APPROVAL_ROUTES.add_sync(
    f"POST {_APPROVAL}/decline",
    "decline decision",
    Role.APPROVE,
    takes=Decline,
    gives=ApprovalDetails,
    statuses=(404, 409),
    example={"note": "the customer withdrew it"},
)
def decline_decision(call: ApiCall) -> ApprovalDetails:
    """Decline a refused decision as the person who is logged in."""
    return cast_vote(call, call.decode_body(Decline).note, None)


def cast_vote(call: ApiCall, note: str, limits: ApprovalLimits | None) -> ApprovalDetails:
    """Store the vote of the person who calls: yes within limits, or without them no.

    Raises:
        ProblemError: The vote cannot be taken.
    """
    record, login = require_record(call), call.caller.person
    # INVARIANT: no key approves, only a person does.
    if login is None:
        raise forbidden("only a person who is logged in can decide")
    queue, whose = call.service.approvals, {"note": note, "tenant": record.tenant}
    try:
        if limits is None:
            result = queue.decline(record.decision_id, login, **whose)
        else:
            result = queue.approve(record.decision_id, login, limits=limits, **whose)
    except ApprovalError as error:
        status = _STATUSES.get(error.reason, 409)
        code = ReasonCode.PERMISSION_DENIED if status == 403 else ReasonCode.REQUEST_INVALID
        evidence = {"reason": str(error.reason)}
        raise ProblemError(
            status, code, error.problem, help=error.help, evidence=evidence
        ) from error
    return describe_approval(
        call, call.service.store.get_approval(record.decision_id) or result.row
    )


@APPROVAL_ROUTES.add(
    "GET /v1/decisions/{decision_id}/wait",
    "wait for approval",
    Role.DECIDE,
    gives=ApprovalStatus,
    query=(number_parameter("seconds", "How long to wait for an answer.", _MAX_WAIT_S),),
    statuses=(404,),
    waits_s=float(_MAX_WAIT_S),
)
async def wait_for_approval(call: ApiCall) -> ApiAnswer:
    """Wait until people approve or decline a decision, and say how to go on."""
    seconds = call.read_number("seconds", _DEFAULT_WAIT_S, maximum=_MAX_WAIT_S)
    row = await call.run_blocking(_require_own_row, call)
    if not is_settled(row):
        hang_up = None if call.receive is None else partial(wait_for_disconnect, call.receive)
        waits = call.service.approval_waits
        await waits.wait(call.caller.name, row.decision_id, seconds, hang_up)
    return json_answer(await call.run_blocking(_read_status, call, row))


def _require_own_row(call: ApiCall) -> ApprovalRow:
    """Return the request of a decision, if the key may ask for its requester."""
    record, bound = require_record(call), call.caller.subjects
    personal = record.personal
    if bound and (personal is None or personal.requester not in bound):
        raise invalid_call(404, "there is no such decision")
    return _require_row(call, record)


def _read_status(call: ApiCall, before: ApprovalRow) -> ApprovalStatus:
    store = call.service.store
    row = store.get_approval(before.decision_id, before.tenant) or before
    return ApprovalStatus(
        decision_id=row.decision_id,
        state=ApprovalState(row.state),
        settled=is_settled(row),
        needed=row.needed,
        given=_count_given(call, row),
        expires_at=row.expires_at,
        closed_at=row.closed_at,
        closed_by=row.closed_by,
        note=row.note,
        resolution_id=row.resolution_id,
        how_to_proceed=describe_next_step(row),
    )
