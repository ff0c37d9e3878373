"""The course of a request for approval, as its page and the page of its decision show it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from demur.gate.approvals import describe_limits, describe_period
from demur.service.calls import ApiCall
from demur.store.events import APPROVAL_ESCALATED, APPROVAL_EVENTS, APPROVAL_VOTE, read_event
from demur.store.rows import ApprovalRow, ApprovalVote

_MAX_EVENTS = 5000
# How long an approval may last, as the form offers it.
VALID_CHOICES = {
    str(one): describe_period(one) for one in (900, 3600, 28_800, 86_400, 604_800, 2_592_000)
}


class CourseStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the course of a request. `decision_id` is the decision that it made, if any."""

    at: str
    kind: str
    by: str = ""
    note: str = ""
    detail: str = ""
    decision_id: str = ""
    seq: int | None = None


def describe_course(
    call: ApiCall, row: ApprovalRow, votes: Sequence[ApprovalVote] | None = None
) -> list[CourseStep]:
    """Return the course of a request: asked, moved, voted, closed, resolved, and gone on with."""
    if votes is None:
        votes = call.service.store.list_votes(row.decision_id)
    steps = [CourseStep(at=row.requested_at, kind="asked", decision_id=row.decision_id)]
    steps += _read_events(call, row, {one.person: one for one in votes})
    if row.resolution_id is not None:
        steps += _follow_resolution(call, row)
    return steps


def _read_events(
    call: ApiCall, row: ApprovalRow, votes: Mapping[str, ApprovalVote]
) -> Iterator[CourseStep]:
    """Yield what the chain says of a request."""
    store = call.service.store
    record = store.get(row.decision_id, row.tenant)
    first = 1 if record is None or record.chain is None else record.chain.seq
    for found in islice(store.backend.read_events(row.tenant, first), _MAX_EVENTS):
        if found.kind not in APPROVAL_EVENTS:
            continue
        event = read_event(found)
        if event.what.get("decision") != row.decision_id:
            continue
        step = CourseStep(at=event.created_at, kind=event.kind, by=event.by, seq=found.seq)
        if event.kind == APPROVAL_VOTE:
            vote = votes.get(event.by)
            yield msgspec.structs.replace(
                step,
                kind=str(event.what.get("vote", "")),
                note="" if vote is None else vote.note,
                detail=describe_limits(event.what.get("limits", {})),
            )
        elif event.kind == APPROVAL_ESCALATED:
            yield msgspec.structs.replace(step, kind="moved", detail=str(event.what.get("to", "")))
        else:
            yield msgspec.structs.replace(step, kind=str(event.what.get("state", "")))
            return


def _follow_resolution(call: ApiCall, row: ApprovalRow) -> Iterator[CourseStep]:
    """Yield the decision that came of an approval, and those that went on with it."""
    store = call.service.store
    resolution = store.get(row.resolution_id or "", row.tenant)
    if resolution is None:
        return
    for record in store.list_family(row.tenant, resolution.root_id or row.decision_id):
        is_resolution = record.decision_id == resolution.decision_id
        if is_resolution or record.created_at > resolution.created_at:
            yield CourseStep(
                at=record.created_at,
                kind="resolved" if is_resolution else "went_on",
                detail=record.outcome,
                decision_id=record.decision_id,
            )
