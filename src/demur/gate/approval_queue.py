"""The queue of what waits for people: approve, decline, and do what is due.

The vote of a person is a signed grant and an event of the chain, stored together. The vote that
decides closes the request, and its resolution is a decision like any other.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple

import msgspec

from demur.errors import DemurError, InputError
from demur.gate.approvals import ApprovalSettings, DueStep, find_due, is_own_request
from demur.gate.clock import (
    Clock,
    Entropy,
    IdSource,
    format_timestamp,
    system_clock,
    system_entropy,
)
from demur.gate.gate import Gate
from demur.gate.people import signing_key_of
from demur.grants.person_keys import PERSON_PREFIX, ServiceKey
from demur.grants.signing import sign_approval
from demur.model.grant import MAX_USES, Grant
from demur.model.record import DecisionRecord
from demur.store.approval_tables import VoteProblem, VoteResult
from demur.store.grant_tables import GrantRow
from demur.store.people_tables import can_sign
from demur.store.rows import ApprovalRow, ApprovalState, ApprovalVote
from demur.store.store import Store

_log = logging.getLogger("demur")
_HOUR_S, _MONTH_S = 3600, 30 * 86_400
_BY = "demur"
MAX_APPROVAL_NOTE = 500


class ApprovalLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person approves: this request once, or more of the same action.

    With `covers: scope`, it is the action of the request by the same requester in the same tenant,
    `uses` times. Either way it ends after `valid_s`.
    """

    covers: Literal["request", "scope"] = "request"
    valid_s: Annotated[int, msgspec.Meta(ge=60, le=_MONTH_S)] = _HOUR_S
    uses: Annotated[int, msgspec.Meta(ge=1, le=MAX_USES)] = 1

    def __post_init__(self) -> None:
        if self.covers == "request" and self.uses != 1:
            raise ValueError("one request has one use; `covers: scope` has more")


_DEFAULT_LIMITS = ApprovalLimits()


class ApprovalError(DemurError, ValueError):
    """A vote that was not taken; `reason` says why, in one word for programs."""

    def __init__(self, reason: VoteProblem, problem: str, help_text: str | None = None) -> None:
        super().__init__(problem, help=help_text)
        self.reason = reason

    def __reduce__(self) -> tuple[type["ApprovalError"], tuple[VoteProblem, str, str | None]]:
        return ApprovalError, (self.reason, self.problem, self.help)


class ApprovalResult(NamedTuple):
    """The request after a vote, and the decision that came of it, if the vote decided."""

    row: ApprovalRow
    resolution: DecisionRecord | None = None


class ApprovalQueue:
    """The requests that wait for people behind a gate. Safe to share between threads and processes.

    Callers authenticate a person first; this checks what the person may decide. `service_key`
    reads the key that keeps the keys of people; without it, people can only decline.
    """

    def __init__(
        self,
        gate: Gate,
        service_key: Callable[[], ServiceKey] | None = None,
        *,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
    ) -> None:
        if gate.store is None:
            raise InputError("a gate without a store has no queue", help="name a `store`")
        self.gate = gate
        self.store: Store = gate.store
        self.settings: ApprovalSettings = gate.approvals
        self._service_key = service_key
        self._clock = clock
        self._entropy = entropy
        self._ids = IdSource(clock, entropy)

    def approve(
        self,
        decision_id: str,
        login: str,
        *,
        limits: ApprovalLimits = _DEFAULT_LIMITS,
        note: str = "",
        tenant: str | None = None,
    ) -> ApprovalResult:
        """Sign a person's grants, store the vote, and resolve the request if enough people agree.

        Raises:
            ApprovalError: The person may not, the request is closed or expired, or voted before.
            InputError: The note cannot be used, or there is no service key.
            StorageError: The store does not answer. A vote that was stored stays.
        """
        row, record = self._require_request(decision_id, tenant)
        # INVARIANT: nobody approves their own request.
        if is_own_request(login, record):
            raise _vote_error(VoteProblem.OWN_REQUEST, row)
        if self._service_key is None:
            raise InputError("there is no service key, so nobody can sign approvals")
        now = self._clock()
        self._require_approver(login, row)
        key = signing_key_of(self.store, self._service_key(), login, now, entropy=self._entropy)
        grants = [
            sign_approval(
                record,
                key,
                grant_id=f"approval-{self._ids(now)}",
                kind=kind,
                codes=row.reason_codes,
                not_before=now,
                expires_at=now + timedelta(seconds=limits.valid_s),
                uses=limits.uses,
                covers_scope=limits.covers == "scope",
                registry=self.gate.registry,
            )
            for kind in row.kinds
        ]
        shown = msgspec.to_builtins(limits)
        vote = _make_vote(row, login, "approve", note, now)._replace(
            limits=shown, grant_digests=tuple(grant.compute_digest() for grant in grants)
        )
        rows = [_grant_row(grant, record, vote.voted_at) for grant in grants]
        voted = _require_taken(self.store.add_vote(vote, rows))
        is_closed = voted.state == ApprovalState.APPROVED
        return ApprovalResult(voted, self.resolve(voted) if is_closed else None)

    def decline(
        self, decision_id: str, login: str, *, note: str = "", tenant: str | None = None
    ) -> ApprovalResult:
        """Store a person's no, which closes the request.

        Raises:
            ApprovalError: The person may not, or the request is closed or expired.
            InputError: The note cannot be used.
            StorageError: The store does not answer.
        """
        row, _ = self._require_request(decision_id, tenant)
        vote = _make_vote(row, login, "decline", note, self._clock())
        return ApprovalResult(_require_taken(self.store.add_vote(vote)))

    def resolve(self, row: ApprovalRow) -> DecisionRecord:
        """Store the decision that follows from an approval, and link it to the request.

        Raises:
            InputError: The request was erased.
            StorageError: The store does not answer.
        """
        grants = find_approval_grants(self.store, row)
        return self.gate.resolve(row.decision_id, grants=grants, tenant=row.tenant, approved=True)

    def run_due(self, now: datetime | None = None) -> list[DueStep]:
        """Do what is due: expire, escalate, and resolve what a lost process left; return it.

        Raises:
            StorageError: The store does not answer.
        """
        moment = self._clock() if now is None else now
        return [
            step
            for page in self._open_pages()
            for step in find_due(page, moment, self.settings)
            if self._run_step(step, format_timestamp(moment))
        ]

    def _open_pages(self) -> Iterator[list[ApprovalRow]]:
        after = ""
        while page := self.store.list_open_approvals(after):
            yield page
            after = page[-1].decision_id

    def _run_step(self, step: DueStep, now: str) -> bool:
        """Return whether this process did the step."""
        row = step.row
        if step.kind == "expire":
            reason = f"nobody decided until {row.expires_at}"
            return self.store.close_approval(row, now=now, by=_BY, reason=reason)
        if step.kind == "escalate":
            reason = f"no answer from {row.group_name}"
            return self.store.move_approval(row, step.group, now=now, by=_BY, reason=reason)
        try:
            self.resolve(row)
        except InputError as error:
            _log.error("approval %s cannot be resolved: %s", row.decision_id, error.problem)
            return False
        return True

    def _require_request(
        self, decision_id: str, tenant: str | None
    ) -> tuple[ApprovalRow, DecisionRecord]:
        row = self.store.get_approval(decision_id, tenant)
        record = None if row is None else self.store.get(decision_id, row.tenant)
        if row is None or record is None:
            raise _vote_error(VoteProblem.UNKNOWN)
        if record.personal is None:
            raise _vote_error(VoteProblem.ERASED, row)
        return row, record

    def _require_approver(self, login: str, row: ApprovalRow) -> None:
        """Refuse a person before a key is made for them; the write of the vote checks again."""
        person = self.store.get_person(login)
        if person is None or not can_sign(person):
            raise _vote_error(VoteProblem.NOT_ALLOWED)
        if person.tenant not in {"", row.tenant}:
            raise _vote_error(VoteProblem.UNKNOWN)


def find_approval_grants(store: Store, row: ApprovalRow) -> tuple[Grant, ...]:
    """Return the signed grants of an approved request, for its requester; none of any other."""
    if row.state != ApprovalState.APPROVED:
        return ()
    votes = store.list_votes(row.decision_id)
    digests = [one for vote in votes if vote.vote == "approve" for one in vote.grant_digests]
    found = store.find_grants(row.tenant, digests) if digests else {}
    return tuple(found[digest] for digest in digests if digest in found)


def _make_vote(
    row: ApprovalRow, login: str, vote: Literal["approve", "decline"], note: str, now: datetime
) -> ApprovalVote:
    if len(note) > MAX_APPROVAL_NOTE or not note.isprintable():
        problem = f"a note is one line of at most {MAX_APPROVAL_NOTE} characters"
        raise InputError(problem, where="note")
    return ApprovalVote(
        decision_id=row.decision_id,
        tenant=row.tenant,
        person=f"{PERSON_PREFIX}{login}",
        vote=vote,
        note=note.strip(),
        limits={},
        grant_digests=(),
        voted_at=format_timestamp(now),
    )


def _grant_row(grant: Grant, record: DecisionRecord, now: str) -> GrantRow:
    return GrantRow(
        tenant=record.tenant,
        digest=grant.compute_digest(),
        grant_id=grant.grant_id,
        granted_to=grant.granted_to,
        decision_id=record.decision_id,
        created_at=now,
        expires_at=format_timestamp(grant.expires_at),
        signed_grant=grant.to_json().decode(),
    )


def _require_taken(result: VoteResult) -> ApprovalRow:
    if result.problem is not None:
        raise _vote_error(result.problem, result.row)
    assert result.row is not None
    return result.row


_PROBLEMS = {
    VoteProblem.UNKNOWN: "there is no request for approval of this decision",
    VoteProblem.NOT_ALLOWED: "this person may not approve",
    VoteProblem.CLOSED: "the request is closed",
    VoteProblem.EXPIRED: "the request has expired",
    VoteProblem.OTHER_GROUP: "another group decides on this request",
    VoteProblem.VOTED_BEFORE: "this person voted before: nothing changed",
    VoteProblem.OWN_REQUEST: "nobody approves their own request",
    VoteProblem.ERASED: "the request was erased",
}


def _vote_error(reason: VoteProblem, row: ApprovalRow | None = None) -> ApprovalError:
    problem, help_text = _PROBLEMS[reason], None
    if reason is VoteProblem.CLOSED and row is not None:
        by = f" by {row.closed_by}" if row.closed_by else ""
        problem = f"the request is closed: {row.state}{by}"
    elif reason is VoteProblem.OTHER_GROUP and row is not None:
        help_text = f"the group `{row.group_name}` decides"
    elif reason is VoteProblem.OWN_REQUEST:
        help_text = "ask another approver"
    return ApprovalError(reason, problem, help_text)
