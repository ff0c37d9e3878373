"""The pages of approvals: what waits for people, and one request with its forms and its course."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from demur.audit.report import read_personal, report_decision
from demur.codes.registry import Registry
from demur.errors import InputError
from demur.gate.approval_queue import MAX_APPROVAL_NOTE, ApprovalLimits
from demur.gate.approvals import ApprovalSettings, is_own_request, parse_moment, shown_state
from demur.gate.clock import format_timestamp
from demur.model.record import DecisionRecord
from demur.observe.approval_notices import NoticeState, read_notice_state
from demur.service.authentication import LOCAL, Principal, Role
from demur.service.calls import ApiAnswer, ApiCall
from demur.service.dashboard.approval_course import VALID_CHOICES, describe_course
from demur.service.dashboard.decisions import (
    DecisionRow,
    decision_row,
    mark_texts,
    view_excerpt,
)
from demur.service.dashboard.frame import (
    approvals_key,
    forget_result,
    parse_form,
    render_page,
)
from demur.service.dashboard.rendering import encode_segment, format_amount
from demur.service.problem import ProblemError, invalid_call
from demur.service.record_search import require_record
from demur.service.routes.approvals import cast_vote, require_approval
from demur.service.routes.decisions import is_page_start
from demur.store.rows import ApprovalRow, ApprovalState, ApprovalVote

_PER_PAGE = 20
_MAX_FINDINGS = 200
_DECIDED = (ApprovalState.APPROVED, ApprovalState.DECLINED, ApprovalState.EXPIRED)
# How often an approval may be used, as the form offers it.
USES_CHOICES = ("1", "2", "5", "10", "50", "100", "1000")


class ApprovalCard(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the queue: the row of its decision, why it was refused, and where it stands.

    `left` says how long somebody may still decide. `mine` says whether the caller may.
    """

    row: DecisionRow
    approval: dict[str, Any]
    state: str
    reasons: list[tuple[str, str]]
    summary: str
    given: int
    left: str
    mine: bool


def approvals_page(call: ApiCall) -> ApiAnswer:
    """Return what waits, the oldest first, or what was decided, the newest first."""
    store, tenant, now = call.service.store, call.chosen_tenant(), call.service.clock()
    tab = "decided" if call.query.get("tab") == "decided" else "waiting"
    waits = tab == "waiting"
    group, mine = call.query.get("group", "").strip(), call.query.get("mine") == "1"
    state = call.query.get("state", "")
    named = call.query.get("start", "")
    start = named if is_page_start(named) else ""
    rows = list(islice(find_requests(call, start, _PER_PAGE + 1), _PER_PAGE + 1))
    shown = rows[:_PER_PAGE]
    given = store.count_votes([one.decision_id for one in shown], format_timestamp(now))
    filters = {"tab": "" if waits else tab, "group": group, "state": state}
    return render_page(
        call,
        "approvals.html",
        title="Approvals",
        section="approvals",
        tab=tab,
        cards=[_build_card(call, one, given.get(one.decision_id, 0), now) for one in shown],
        waiting=store.count_waiting(tenant, now=format_timestamp(now)),
        filters={**filters, "mine": "1" if mine else ""},
        states=[str(one) for one in _DECIDED],
        groups=list(call.service.gate.approvals.groups),
        is_later=bool(start),
        following=shown[-1].decision_id if len(rows) > len(shown) else "",
        undelivered=_find_undelivered(shown) if waits else None,
        **_describe_caller(call.caller),
    )


def find_requests(call: ApiCall, start: str = "", at_once: int = 200) -> Iterator[ApprovalRow]:
    """Yield the requests that fit a query, in the order of the page, from behind `start` on."""
    query, store, tenant = call.query, call.service.store, call.chosen_tenant()
    waits = query.get("tab") != "decided"
    states = (ApprovalState.WAITING,) if waits else _DECIDED
    if query.get("state", "") in states:
        states = (ApprovalState(query["state"]),)
    group = query.get("group", "").strip()
    mine = _deciding_groups(call.caller) if query.get("mine") == "1" else None
    groups = [group] if group else mine

    def read_state(state: str) -> Iterator[ApprovalRow]:
        """Yield the requests of one state, which are read in parts."""
        behind = start or None
        while rows := store.list_approvals(
            tenant, state, groups, behind, at_once, oldest_first=waits
        ):
            yield from rows
            behind = rows[-1].decision_id

    found = [read_state(state) for state in states]
    yield from merge(*found, key=lambda one: one.decision_id, reverse=not waits)


def _deciding_groups(caller: Principal) -> list[str] | None:
    """Return the groups for which a person decides; None for an admin, who decides for all."""
    return None if Role.ADMIN in caller.roles else sorted(caller.groups)


def _describe_caller(caller: Principal) -> dict[str, Any]:
    """Return who looks at the page, and whether they decide."""
    return {
        "person": caller.person,
        "may_approve": caller.has_role(Role.APPROVE),
        "is_local": caller == LOCAL,
    }


def _find_undelivered(rows: Sequence[ApprovalRow]) -> NoticeState | None:
    """Return a notice that could not be delivered, if there is one."""
    notices = (read_notice_state(row) for row in rows)
    return next((one for one in notices if one is not None and one.status == "failed"), None)


def _build_card(call: ApiCall, approval: ApprovalRow, given: int, now: datetime) -> ApprovalCard:
    record = call.service.store.get(approval.decision_id, approval.tenant)
    if record is None:
        raise invalid_call(404, "the decision of a request for approval is gone")
    return ApprovalCard(
        row=decision_row(record, with_tenant=call.chosen_tenant() is None),
        approval=approval._asdict(),
        state=shown_state(approval, now),
        reasons=_name_reasons(approval.reason_codes, call.service.gate.registry),
        summary=record.explanation.summary,
        given=given,
        left=describe_left(approval, now),
        mine=not _why_not(call.caller, approval, record, now),
    )


def _name_reasons(codes: Sequence[str], registry: Registry) -> list[tuple[str, str]]:
    return [(code, registry[code].title if code in registry else "") for code in codes]


def describe_left(row: ApprovalRow, now: datetime) -> str:
    """Return how long somebody may still decide, in words; empty if nobody may."""
    left = parse_moment(row.expires_at) - now
    if row.state != ApprovalState.WAITING or left <= timedelta():
        return ""
    minutes = int(left.total_seconds() // 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return format_amount(minutes, "minute")
    return format_amount(minutes // 60, "hour") if minutes < 2880 else f"{minutes // 1440} days"


def _why_not(
    caller: Principal,
    row: ApprovalRow,
    record: DecisionRecord,
    now: datetime,
    votes: Sequence[ApprovalVote] = (),
) -> str:
    """Return in one word why a caller cannot decide a request; empty if they can."""
    if shown_state(row, now) != ApprovalState.WAITING:
        return "closed"
    if caller.person is None:
        return "nobody"
    if not caller.has_role(Role.APPROVE):
        return "role"
    if is_own_request(caller.person, record):
        return "own"
    groups = _deciding_groups(caller)
    if row.group_name and groups is not None and row.group_name not in groups:
        return "group"
    return "voted" if any(one.person == caller.name for one in votes) else ""


def approval_page(call: ApiCall) -> ApiAnswer:
    """Return the page of one request."""
    return _render_approval(call)


def approve_form(call: ApiCall) -> ApiAnswer:
    """Approve a request within the limits of the form, and return to its page."""
    form = parse_form(call.body)
    covers = form.get("covers", "request")
    uses = form.get("uses", "1") if covers == "scope" else "1"
    given = {"covers": covers, "uses": uses, "valid_s": form.get("valid_s", "3600")}
    try:
        limits = msgspec.convert(given, ApprovalLimits, strict=False)
    except msgspec.ValidationError as error:
        return _render_approval(call, form, invalid_call(422, str(error)))
    return _send_vote(call, form, limits)


def decline_form(call: ApiCall) -> ApiAnswer:
    """Decline a request, and return to its page."""
    return _send_vote(call, parse_form(call.body), None)


def _send_vote(call: ApiCall, form: Mapping[str, str], limits: ApprovalLimits | None) -> ApiAnswer:
    # A note is one line, however it was typed.
    note = " ".join(form.get("note", "").split())
    if len(note) > MAX_APPROVAL_NOTE:
        problem = f"a note has at most {MAX_APPROVAL_NOTE} characters"
        return _render_approval(call, form, invalid_call(422, problem, "note"))
    try:
        cast_vote(call, note, limits)
    except ProblemError as error:
        if error.status == 404:
            raise
        return _render_approval(call, form, error)
    except InputError as error:
        return _render_approval(call, form, invalid_call(422, error.problem, help=error.help))
    forget_result(call.service, approvals_key(call))
    place = f"/approvals/{encode_segment(call.path['decision_id'])}#course"
    return ApiAnswer(b"", 303, headers={"location": place})


def _render_approval(
    call: ApiCall, form: Mapping[str, str] | None = None, problem: ProblemError | None = None
) -> ApiAnswer:
    record, now = require_record(call), call.service.clock()
    approval = require_approval(call)
    personal = read_personal(record)
    store, votes = call.service.store, call.service.store.list_votes(approval.decision_id)
    approving = store.find_approving_votes([approval.decision_id], format_timestamp(now))
    registry, report = call.service.gate.registry, report_decision(call.service.store, record)
    findings = () if personal is None else personal.findings[:_MAX_FINDINGS]
    removed = () if record.redaction is None else record.redaction.removed
    return render_page(
        call,
        "approval.html",
        title=f"Approval {record.decision_id}",
        section="approvals",
        status=200 if problem is None else problem.status,
        record=record,
        row=decision_row(record),
        approval=approval._asdict(),
        state=shown_state(approval, now),
        left=describe_left(approval, now),
        given=len(approving),
        reasons=_name_reasons(approval.reason_codes, registry),
        others=[code for code in record.reason_codes if code not in approval.reason_codes],
        rules=[rule._asdict() for rule in report.rules],
        request=None if personal is None else dict(personal.request),
        facts={} if personal is None else dict(personal.facts),
        texts=[] if personal is None else mark_texts(personal.request, findings, removed),
        excerpt=view_excerpt(personal),
        why_not=_why_not(call.caller, approval, record, now, approving),
        next_group=_next_group(approval, call.service.gate.approvals),
        course=describe_course(call, approval, votes),
        notice=read_notice_state(approval),
        valid_choices=VALID_CHOICES,
        uses_choices=USES_CHOICES,
        max_note=MAX_APPROVAL_NOTE,
        form={"covers": "request", "valid_s": "3600", "uses": "10", "note": "", **(form or {})},
        problem=problem,
        **_describe_caller(call.caller),
    )


def _next_group(row: ApprovalRow, settings: ApprovalSettings) -> dict[str, str] | None:
    """Return which group decides after the present one, and from when on."""
    if settings.escalate_after_s is None or row.group_name not in settings.groups:
        return None
    place = settings.groups.index(row.group_name) + 1
    if place >= len(settings.groups):
        return None
    waits = timedelta(seconds=settings.escalate_after_s * place)
    begins = format_timestamp(parse_moment(row.requested_at) + waits)
    return {"name": settings.groups[place], "at": begins} if begins < row.expires_at else None
