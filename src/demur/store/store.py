"""The store: decision records, durable before a caller gets them."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, Literal, NamedTuple, Self

import msgspec

from demur.errors import InputError
from demur.model.grant import Grant
from demur.model.record import ChainLink, DecisionRecord
from demur.store.approval_tables import VoteResult
from demur.store.backend import RecordFilter, StorageError, UnavailableError
from demur.store.committer import Committer, PendingCommit
from demur.store.erasure import ErasurePlan, IdentifierSearch
from demur.store.grant_tables import NO_GRANTS, GrantRow, RecordGrants, Revocation
from demur.store.linking import (
    UNGRANTED,
    record_to_row,
    row_to_grant,
    row_to_record,
    store_batch,
)
from demur.store.people_tables import Person, PersonChange, PersonKey
from demur.store.rows import (
    REVIEW,
    REVIEW_VALUES,
    WITHDRAWN,
    ApiKey,
    ApprovalRow,
    ApprovalVote,
    ChainHead,
    ChainPlace,
    Checkpoint,
    ExperienceRow,
    Label,
    LoginSession,
    RecordMatch,
    RecordMatches,
    Snapshot,
    Tallies,
    UnlinkedRow,
    group_tallies,
    hour_of,
    hours_between,
)
from demur.store.search import list_filter_terms, parse_search
from demur.store.sql import Backend


class _PendingRows(NamedTuple):
    """The rows of one caller, and the grants that come with some of them, by decision id."""

    rows: tuple[UnlinkedRow, ...]
    grants: Mapping[str, RecordGrants] = UNGRANTED


_Places = list[ChainPlace]
_replace = msgspec.structs.replace
_NO_FILTER = RecordFilter()
_MAX_UNCONFIRMED = 10_000
# A database takes a moment to end what it still does for a connection that was given up.
_CLOSING_PAUSES_S = (0.0, 0.05, 0.2)
_SEARCH_PAGE = 500
_INDEXED_AT_ONCE = 10_000
_MAX_WIDE_TENANTS = 8


class StoredRecord(NamedTuple):
    """A stored record with its place in the chain.

    `duplicate` says that its request id was stored before: then this is the first record, and the
    caller checks whether it is the same request. `used_up` says that a grant of the record has no
    uses left: then it was not stored.
    """

    record: DecisionRecord
    duplicate: bool = False
    used_up: bool = False


def _pending_row(record: DecisionRecord, grants: RecordGrants) -> _PendingRows:
    rows = (record_to_row(record),)
    by_id = UNGRANTED if grants is NO_GRANTS else {record.decision_id: grants}
    return _PendingRows(rows, by_id)


class Store:
    """Decision records in a database.

    With `deadline_s`, storing that takes longer raises an error; if the record is stored later, it
    is marked unconfirmed.
    """

    def __init__(self, backend: Backend, *, deadline_s: float | None = None) -> None:
        self.backend = backend
        self._deadline_s = deadline_s
        self._saved_digests: set[str] = set()
        self._queued_snapshots: dict[str, Snapshot] = {}
        # Bounded, because an outage may be long.
        self._unconfirmed: deque[str] = deque(maxlen=_MAX_UNCONFIRMED)
        self._committer: Committer[_PendingRows, _Places] = Committer(
            self._commit_rows, self._note_late, deadline_s=deadline_s
        )

    # -- writing ---------------------------------------------------------------------------

    def put(
        self,
        record: DecisionRecord,
        snapshots: Sequence[Snapshot] = (),
        grants: RecordGrants = NO_GRANTS,
    ) -> StoredRecord:
        """Store a record, its snapshots and its grants durably; return it with its place.

        Raises:
            StorageError: It is not stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        [place] = self._committer.run(_pending_row(record, grants))
        return self._build_stored(record, place)

    def put_many(
        self,
        records: Sequence[DecisionRecord],
        snapshots: Sequence[Snapshot] = (),
        grants: Mapping[str, RecordGrants] = UNGRANTED,
    ) -> list[StoredRecord]:
        """Store records in one transaction: all of them or none.

        `grants` come with some of the records, by decision id. A record whose grants are used up is
        left out.

        Raises:
            StorageError: None is stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        places = self._committer.run(_PendingRows(tuple(map(record_to_row, records)), grants))
        return [self._build_stored(record, at) for record, at in zip(records, places, strict=True)]

    async def aput(
        self,
        record: DecisionRecord,
        snapshots: Sequence[Snapshot] = (),
        grants: RecordGrants = NO_GRANTS,
    ) -> StoredRecord:
        """Store a record as `put` does, without blocking the event loop.

        Raises:
            StorageError: It is not stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        [place] = await self._await_commit(_pending_row(record, grants))
        if place.first is None:
            return self._build_stored(record, place)
        return await asyncio.to_thread(self._build_stored, record, place)

    async def _await_commit(self, pending: _PendingRows) -> _Places:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def wake(entry: PendingCommit[_PendingRows, _Places]) -> None:
            """Wake the caller in its event loop from the storing thread."""
            try:
                loop.call_soon_threadsafe(_finish_future, done)
            except RuntimeError:  # its loop is closed, so nobody waits
                if entry.error is None:
                    self._note_late(entry.item, entry.outcome())

        entry = self._committer.submit(pending, wake)
        try:
            if self._deadline_s is None:
                await done
            else:
                async with asyncio.timeout(self._deadline_s):
                    await done
        except TimeoutError:
            if self._committer.abandon(entry):
                raise UnavailableError("the store did not confirm the decision in time") from None
        except asyncio.CancelledError:
            if not self._committer.abandon(entry) and entry.error is None:
                self._note_late(pending, entry.outcome())
            raise
        return entry.outcome()

    def _commit_rows(self, batch: Sequence[_PendingRows]) -> list[_Places]:
        """Store a batch, and mark records whose callers stopped waiting."""
        marks = [self._unconfirmed.popleft() for _ in range(len(self._unconfirmed))]
        rows = [row for group in batch for row in group.rows]
        grants = {name: one for group in batch for name, one in group.grants.items()}
        try:
            if marks:
                marks = self.backend.mark_unconfirmed(marks)
            for digest, snapshot in list(self._queued_snapshots.items()):
                self.backend.save_snapshot(snapshot)
                self._saved_digests.add(digest)
                self._queued_snapshots.pop(digest, None)
            places = iter(store_batch(self.backend, rows, grants) if rows else ())
        except BaseException as error:
            self._unconfirmed.extend(marks)
            # It is unknown what was stored: mark all of it as unconfirmed.
            if isinstance(error, UnavailableError) or not isinstance(error, Exception):
                self._unconfirmed.extend(row.decision_id for row in rows)
            raise
        self._unconfirmed.extend(marks)
        return [list(islice(places, len(group.rows))) for group in batch]

    def _note_late(self, pending: _PendingRows, places: _Places) -> None:
        stored = zip(pending.rows, places, strict=True)
        self._unconfirmed.extend(row.decision_id for row, at in stored if at.hash)

    def _build_stored(self, record: DecisionRecord, place: ChainPlace) -> StoredRecord:
        if place.first is not None:
            first = self.get(place.first)
            if first is None:
                raise StorageError("the first record of this request is gone", where=place.first)
            return StoredRecord(first, duplicate=True)
        if place.used_up:
            return StoredRecord(record, used_up=True)
        link = ChainLink(seq=place.previous.seq + 1, previous=place.previous.hash, hash=place.hash)
        return StoredRecord(_replace(record, chain=link))

    def _queue_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Queue snapshots to be saved with the next batch."""
        for snapshot in snapshots:
            if snapshot.digest not in self._saved_digests:
                self._queued_snapshots[snapshot.digest] = snapshot

    # -- reading ---------------------------------------------------------------------------

    def get(self, decision_id: str, tenant: str | None = None) -> DecisionRecord | None:
        """Return a record, or None if there is none (of that tenant)."""
        row = self.backend.get_record(decision_id)
        return None if row is None or tenant not in {None, row.tenant} else row_to_record(row)

    def resolve_id(self, prefix: str, tenant: str | None = None) -> str | None:
        """Return the one decision id (of that tenant) that begins with `prefix`, or None.

        Raises:
            InputError: Several do.
        """
        ids = self.backend.find_ids(prefix, 2, tenant)
        if len(ids) > 1 and prefix not in ids:
            raise InputError(f"several decisions begin with `{prefix}`", help="use a longer prefix")
        return ids[0] if ids else None

    def by_request(self, tenant: str, request_id: str) -> DecisionRecord | None:
        """Return the record of a request id."""
        row = self.backend.by_request(tenant, request_id)
        return None if row is None else row_to_record(row)

    def list_family(self, tenant: str, root_id: str) -> list[DecisionRecord]:
        """Return a record and all records that continue it, in the order of the chain."""
        return list(map(row_to_record, self.backend.list_family(tenant, root_id)))

    def find_records(
        self,
        record_filter: RecordFilter = _NO_FILTER,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        index_limit: int | None = None,
    ) -> Iterator[DecisionRecord]:
        """Yield matching records, oldest first by default, in bounded memory.

        With a `text` in the filter, new records are indexed first, at most about `index_limit`.
        """
        if record_filter.text is None:
            rows = self.backend.scan_records(record_filter, newest_first=newest_first)
            return map(row_to_record, islice(rows, limit))
        self.backend.update_search(record_filter.tenant, index_limit)
        streams = [
            self._find_by_text(record_filter._replace(tenant=name), newest_first=newest_first)
            for name in self._list_tenants(record_filter.tenant)
        ]
        ids = merge(*streams, reverse=newest_first)
        found = (self.backend.get_record(decision_id) for decision_id in ids)
        return islice((row_to_record(row) for row in found if row is not None), limit)

    def _find_by_text(self, record_filter: RecordFilter, *, newest_first: bool) -> Iterator[str]:
        """Yield the ids of a tenant's records with a text, in bounded memory."""
        terms = list_filter_terms(record_filter)
        is_last = not parse_search(record_filter.text or "")
        while not is_last:
            page = self.backend.match_records(
                record_filter, terms, newest_first=newest_first, window=_SEARCH_PAGE
            )
            yield from (row.decision_id for row in page.rows)
            is_last = page.is_last
            record_filter = (
                record_filter._replace(before=page.last)
                if newest_first
                else record_filter._replace(after=page.last)
            )

    def match_records(
        self, record_filter: RecordFilter, *, newest_first: bool = True, window: int = 10_000
    ) -> RecordMatches:
        """Return which records match, looking at no more than the first `window` of each tenant.

        New records are indexed first, up to a number that a caller can wait for.
        """
        tenant, waiting = record_filter.tenant, 0
        terms = list_filter_terms(record_filter)
        if record_filter.text is not None and not parse_search(record_filter.text):
            return RecordMatches([], is_complete=True)
        if terms:
            self.backend.update_search(tenant, _INDEXED_AT_ONCE)
            waiting = self.backend.count_unindexed(tenant)
        # Without an index of all records, the others are looked through.
        is_indexed = bool(terms) and (not waiting or record_filter.text is not None)
        names = self._list_tenants(tenant)
        window = window if len(names) <= _MAX_WIDE_TENANTS else window // _MAX_WIDE_TENANTS
        rows: list[RecordMatch] = []
        is_complete = True
        for name in names:
            own = record_filter._replace(tenant=name)
            page = self.backend.match_records(
                own,
                list_filter_terms(own) if is_indexed else (),
                newest_first=newest_first,
                window=window,
            )
            rows += page.rows
            is_complete = is_complete and page.is_last
        rows.sort(key=lambda row: row.decision_id, reverse=newest_first)
        return RecordMatches(rows, is_complete, waiting)

    def update_search(self) -> int:
        """Index the words of all records that are new; return how many were looked at."""
        return self.backend.update_search(None)

    def _list_tenants(self, tenant: str | None) -> list[str]:
        return [head.tenant for head in self.list_heads()] if tenant is None else [tenant]

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the policy or registry that records refer to by digest."""
        return self.backend.get_snapshot(digest)

    def list_heads(self, *, durable: bool = False) -> list[ChainHead]:
        """Return the end of each tenant's chain; if `durable`, once the disk has them all.

        Heads that leave the store have to be durable: a crash could lose them here otherwise.
        """
        heads = self.backend.all_heads()
        if durable:
            self.backend.wait_for_disk()
        return heads

    def save_checkpoint(self, now: str) -> list[ChainHead]:
        """Save the end of each chain for later audits, and return the ends."""
        heads = self.backend.all_heads()
        self.backend.save_checkpoints([Checkpoint(now, head) for head in heads])
        return heads

    # -- grants ----------------------------------------------------------------------------

    def find_revoked(self, tenant: str, grant_ids: Collection[str]) -> frozenset[str]:
        """Return those of the grants that were revoked, for a tenant or for all."""
        return self.backend.find_revoked(tenant, grant_ids)

    def revoke_grant(self, revocation: Revocation) -> bool:
        """Revoke a grant for every gate over this store; return False if it was revoked before."""
        return self.backend.revoke_grant(revocation)

    def list_revocations(self, tenant: str | None = None) -> list[Revocation]:
        """Return the revocations, oldest first; with `tenant`, those that it sees."""
        return self.backend.list_revocations(tenant)

    def count_uses(self, digests: Collection[str]) -> Mapping[str, int]:
        """Return how often each of the grants was used; unused ones are left out."""
        return self.backend.count_uses(digests)

    def find_grants(self, tenant: str, digests: Collection[str]) -> dict[str, Grant]:
        """Return the signed grants with these digests.

        Raises:
            StorageError: A row holds no grant.
        """
        rows = self.backend.find_grants(tenant, digests)
        return {row.digest: row_to_grant(row) for row in rows}

    def list_grants(
        self, tenant: str | None = None, grant_id: str | None = None, limit: int | None = None
    ) -> list[GrantRow]:
        """Return the signed grants (of a tenant, with an id), newest first."""
        return self.backend.list_grants(tenant, grant_id, limit)

    # -- people ----------------------------------------------------------------------------

    def get_person(self, login: str) -> Person | None:
        """Return a person."""
        return self.backend.get_person(login)

    def find_oidc_person(self, issuer: str, subject: str) -> Person | None:
        """Return the person whom an identity provider knows by a subject."""
        return self.backend.find_oidc_person(issuer, subject)

    def list_people(self, tenant: str | None = None) -> list[Person]:
        """Return people (of a tenant), by login."""
        return self.backend.list_people(tenant)

    def add_person(self, person: Person, *, by: str, reason: str, now: str) -> None:
        """Store a new person, and say so in the chain.

        Raises:
            InputError: The login is taken, or it is not said who adds the person and why.
        """
        self.backend.add_person(person, by=by, reason=reason, now=now)

    def change_person(
        self, login: str, change: PersonChange, *, by: str, reason: str, now: str
    ) -> Person:
        """Change a person, say so in the chain, and return them as they are then.

        A person who is disabled, or gets another role or password, is logged out. The key of a
        person who may no longer sign is retired.

        Raises:
            InputError: There is no such person, or it is not said who changes them and why.
        """
        return self.backend.change_person(login, change, by=by, reason=reason, now=now)

    def rehash_password(self, login: str, old: str, new: str) -> None:
        """Store the same password under a stronger hash, unless it was changed meanwhile."""
        self.backend.rehash_password(login, old, new)

    def list_person_keys(self, login: str) -> list[PersonKey]:
        """Return the keys of a person, oldest first."""
        return self.backend.list_person_keys(login)

    def find_person_keys(self, key_ids: Collection[str]) -> list[PersonKey]:
        """Return the keys of people with these ids, retired ones included."""
        return self.backend.find_person_keys(key_ids)

    def add_person_key(self, key: PersonKey, *, replace: bool = False) -> PersonKey | None:
        """Store a key of a person, and return the key that counts; None if they may not sign.

        If the person has another key, that is returned instead, or with `replace` retired.
        """
        return self.backend.add_person_key(key, replace=replace)

    # -- approvals -------------------------------------------------------------------------

    def list_approvals(
        self,
        tenant: str | None = None,
        state: str | None = None,
        groups: Collection[str] | None = None,
        start: str | None = None,
        limit: int = 500,
        *,
        oldest_first: bool = False,
    ) -> list[ApprovalRow]:
        """Return approvals, newest or oldest first, from behind the decision id `start` on.

        With `groups`, those that one of the groups decides, and those that any approver does.
        """
        return self.backend.list_approvals(
            tenant, state, groups, start, limit, oldest_first=oldest_first
        )

    def list_open_approvals(self, after: str = "") -> list[ApprovalRow]:
        """Return a page of what waits for a person or, approved, for its resolution."""
        return self.backend.list_open_approvals(after)

    def list_closed_approvals(self, since: str) -> list[ApprovalRow]:
        """Return what was closed since a time, latest first, and at most one page of it."""
        return self.backend.list_closed_approvals(since)

    def count_waiting(
        self, tenant: str | None = None, groups: Collection[str] | None = None, now: str = ""
    ) -> int:
        """Return how many requests wait and have not expired at `now`."""
        return self.backend.count_waiting(tenant, groups, now)

    def get_approval(self, decision_id: str, tenant: str | None = None) -> ApprovalRow | None:
        """Return the approval of a decision (of that tenant), or None if nobody is asked."""
        return self.backend.get_approval(decision_id, tenant)

    def find_approvals(self, decision_ids: Collection[str]) -> list[ApprovalRow]:
        """Return the approvals of decisions, in no order."""
        return self.backend.find_approvals(decision_ids)

    def list_votes(self, decision_id: str) -> list[ApprovalVote]:
        """Return the votes on a decision, oldest first."""
        return self.backend.list_votes(decision_id)

    def count_votes(self, decision_ids: Collection[str], now: str) -> dict[str, int]:
        """Return how many people approved each of the decisions; others are left out.

        While a request waits, only those count whose yes still holds at `now`.
        """
        return self.backend.count_votes(decision_ids, now)

    def find_approving_votes(self, decision_ids: Collection[str], now: str) -> list[ApprovalVote]:
        """Return the votes that approve decisions and, while those wait, still hold at `now`."""
        return self.backend.find_approving_votes(decision_ids, now)

    def add_vote(self, vote: ApprovalVote, grants: Sequence[GrantRow] = ()) -> VoteResult:
        """Store a vote, and close the request if it decides: one transaction with its events.

        `grants` are those that the vote gives. Nothing is stored if the vote cannot be taken.

        Raises:
            InputError: The person or the note cannot stand in the chain.
        """
        return self.backend.add_vote(vote, grants)

    def close_approval(self, row: ApprovalRow, *, now: str, by: str, reason: str) -> bool:
        """Close a request that nobody decided in time; return whether this call did."""
        return self.backend.close_approval(row, now=now, by=by, reason=reason)

    def move_approval(
        self, row: ApprovalRow, group: str, *, now: str, by: str, reason: str
    ) -> bool:
        """Have another group decide; return whether this call moved the request."""
        return self.backend.move_approval(row, group, now=now, by=by, reason=reason)

    def claim_notice(self, row: ApprovalRow, notice: str) -> bool:
        """Note that a notice goes out; return False if another process sends it already."""
        return self.backend.claim_notice(row, notice)

    # -- memory ----------------------------------------------------------------------------

    def add_experience(self, experience: ExperienceRow, label: Label) -> None:
        """Store an experience together with its label."""
        self.backend.add_experience(experience, label)

    def list_experiences(self, tenant: str, now: str) -> list[ExperienceRow]:
        """Return a tenant's experiences that have not expired, by memory id."""
        return self.backend.list_experiences(tenant, now)

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""
        return self.backend.memory_version(tenant)

    def forget_experiences(
        self, tenant: str, memory_ids: Collection[str] | None = None, before: str | None = None
    ) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""
        return self.backend.forget_experiences(tenant, memory_ids, before)

    def add_label(self, label: Label) -> None:
        """Store a label on a decision."""
        self.backend.add_labels([label])

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Store labels, all or none."""
        self.backend.add_labels(labels)

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        return self.backend.list_labels(decision_id)

    # -- tallies, labels, API keys ----------------------------------------------------------

    def find_labels(
        self, kind: str, values: Collection[str], *, tenant: str | None = None, since: str = ""
    ) -> Iterator[Label]:
        """Yield labels of a kind with one of these values, oldest first, in bounded memory."""
        return self.backend.find_labels(tenant, kind, values, since)

    def find_reviews(self, *, tenant: str | None = None, since: str = "") -> dict[str, Label]:
        """Return the review of each decision that has one, in the order of the first ones.

        Of several reviews the latest counts. One that was withdrawn is none.
        """
        values = (*REVIEW_VALUES, WITHDRAWN)
        latest = {
            label.decision_id: label
            for label in self.find_labels(REVIEW, values, tenant=tenant, since=since)
        }
        return {name: label for name, label in latest.items() if label.value != WITHDRAWN}

    def count_verdicts(self, tenant: str | None, since: datetime) -> dict[str, int]:
        """Return how many decisions there are by verdict, from an hour on.

        Decisions of that time that were retired count as well.
        """
        self.backend.update_tallies(tenant)
        return self.backend.count_verdicts(tenant, hour_of(since))

    def count_unreviewed(self, tenant: str | None, since: datetime) -> dict[str, int]:
        """Return how many decisions have no review, by verdict, from an hour on.

        Decisions of that time that were retired count as well.
        """
        reviewed = self.backend.count_reviewed(tenant, f"{hour_of(since)}:00:00.000Z")
        decided = self.count_verdicts(tenant, since).items()
        return {verdict: max(0, count - reviewed.get(verdict, 0)) for verdict, count in decided}

    def read_tallies(
        self,
        tenant: str | None,
        since: datetime,
        until: datetime,
        kind: Literal["decision", "reason", "finding"] | None = None,
        *,
        by_day: bool = False,
    ) -> Tallies:
        """Return counts of decisions, reasons and findings by whole hours in UTC.

        New records are counted first, so the first call takes a moment. `tenant=None` counts all
        tenants together. With `kind`, only those are read. With `by_day`, the counts of a day
        stand at its first hour.
        """
        first, beyond = hours_between(since, until)
        self.backend.update_tallies(tenant)
        rows = self.backend.read_tallies(tenant, first, beyond, kind, by_day=by_day)
        return group_tallies(rows)

    def count_minutes(self, tenant: str | None, since: str, until: str) -> Tallies:
        """Return the same counts by minutes in UTC, read from the records between two times.

        It costs as much as there are records in that time, so it is for short ones.
        """
        names = self._list_tenants(tenant)
        rows = (row for name in names for row in self.backend.count_minutes(name, since, until))
        return group_tallies(rows)

    def add_key(self, key: ApiKey) -> None:
        """Store an API key of the service."""
        self.backend.add_key(key)

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        return self.backend.find_key(digest)

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        return self.backend.list_keys()

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        return self.backend.revoke_key(key_id, now)

    def add_session(self, session: LoginSession) -> None:
        """Store a login to the dashboard."""
        self.backend.add_session(session)

    def list_sessions(self) -> list[LoginSession]:
        """Return every login to the dashboard."""
        return self.backend.list_sessions()

    def delete_session(self, digest: str) -> None:
        """Delete a login to the dashboard."""
        self.backend.delete_session(digest)

    # -- erasure and retention --------------------------------------------------------------

    def erase_subject(self, tenant: str, subject: str, *, by: str, reason: str) -> int:
        """Erase the sealed part of a subject's records, and say so in the chain.

        `by` is who erases, and `reason` why: both stay in the chain for ever.

        Raises:
            InputError: One of them is empty.
        """
        # Findings are in the sealed part, so count them before it is erased.
        self.backend.update_tallies(tenant)
        return self.backend.erase_subject(tenant, subject, by=by, reason=reason)

    def erase_identifier(self, tenant: str, identifier: str, *, by: str, reason: str) -> int:
        """Erase an identifier wherever it can be erased; return the number of records.

        Raises:
            InputError: The identifier is too short, or `by` or `reason` is empty.
        """
        plan = self.plan_erasure(tenant, identifier)
        return self.erase_planned(plan, by=by, reason=reason)

    def plan_erasure(
        self, tenant: str, identifier: str, *, first: int = 1, limit: int | None = None
    ) -> ErasurePlan:
        """Return what erasing an identifier takes, and what keeps it.

        It is an e-mail address, an account number, a name: a text that stands as a whole in a
        field, or among the words of one. The search begins at the place `first` of the chain. With
        `limit` it ends after so many places, and grants, experiences and notes are searched once it
        reaches the end.

        Raises:
            InputError: The identifier is too short.
        """
        search = IdentifierSearch(identifier)
        begin = max(first, self.backend.get_anchor(tenant).seq + 1)
        end = max((head.seq for head in self.list_heads() if head.tenant == tenant), default=0)
        last = end if limit is None else min(end, begin + limit - 1)
        ids, kept, open_parts = [], Counter[str](), 0
        for row in self.backend.read_chain(tenant, begin, last):
            if row.sealed is not None and search.find_fields(row.sealed):
                ids.append(row.decision_id)
            fields = search.find_fields(row.record)
            open_parts += bool(fields)
            kept.update(f"record.{name}" for name in fields)
        plan = ErasurePlan(tenant, tuple(ids), {}, open_parts, kept)
        if last < end:
            return plan._replace(next_seq=last + 1)
        others, more = self.backend.find_outside_records(tenant, search)
        return plan._replace(others=others, kept=kept + more)

    def erase_planned(self, plan: ErasurePlan, *, by: str, reason: str) -> int:
        """Erase what a plan names, and say so in the chain; return the number of records.

        Raises:
            InputError: `by` or `reason` is empty.
        """
        # Findings are in the sealed part, so count them before it is erased.
        self.backend.update_tallies(plan.tenant)
        count = self.backend.erase_records(plan.tenant, plan.decision_ids, by=by, reason=reason)
        self.backend.clear_rows(plan.tenant, plan.others, by=by, reason=reason)
        return count

    def retire_records(self, tenant: str, before: str, *, by: str, reason: str) -> int:
        """Delete a tenant's records before a time, and say so in the chain.

        `plan_retirement` of the backend says which ones. The rest of the chain stays valid.

        Raises:
            InputError: `by` or `reason` is empty.
        """
        self.backend.update_tallies(tenant)
        return self.backend.retire_records(tenant, before, by=by, reason=reason)

    # -- the store itself ------------------------------------------------------------------

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""
        return self.backend.count_rows()

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        return {**self.backend.info(), "deadline_s": self._deadline_s}

    def close(self) -> None:
        """Finish pending commits, and release all resources."""
        self._committer.close()
        with suppress(StorageError):
            for pause_s in _CLOSING_PAUSES_S:
                if self._unconfirmed:
                    time.sleep(pause_s)
                    self._commit_rows([])
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finish_future(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
