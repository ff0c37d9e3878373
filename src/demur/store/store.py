"""The store: decision records, durable before a caller gets them."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Self

import msgspec

from demur.errors import InputError
from demur.model.grant import Grant
from demur.model.record import ChainLink, DecisionRecord
from demur.store.backend import RecordFilter, StorageError, UnavailableError
from demur.store.committer import Committer, PendingCommit
from demur.store.grant_tables import NO_GRANTS, GrantRow, RecordGrants, Revocation
from demur.store.linking import (
    UNGRANTED,
    ChainPlace,
    record_to_row,
    row_to_grant,
    row_to_record,
    store_batch,
)
from demur.store.retention import IdentifierSearch
from demur.store.rows import (
    ApiKey,
    ChainHead,
    Checkpoint,
    ExperienceRow,
    Label,
    LoginSession,
    Snapshot,
    Tallies,
    UnlinkedRow,
    group_tallies,
    hours_between,
)
from demur.store.sql import Backend


class _PendingRows(NamedTuple):
    """The rows of one caller, and the grants that come with some of them, by decision id."""

    rows: tuple[UnlinkedRow, ...]
    grants: Mapping[str, RecordGrants] = UNGRANTED


_Places = list[ChainPlace]
_replace = msgspec.structs.replace
_NO_FILTER = RecordFilter()
_MAX_UNCONFIRMED = 10_000


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
                raise UnavailableError("the decision could not be confirmed in time") from None
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
            for digest, snapshot in list(self._queued_snapshots.items()):
                self.backend.save_snapshot(snapshot)
                self._saved_digests.add(digest)
                self._queued_snapshots.pop(digest, None)
            places = iter(store_batch(self.backend, rows, marks, grants))
        except BaseException as error:
            self._unconfirmed.extend(marks)
            # It is unknown what was stored: mark all of it as unconfirmed.
            if isinstance(error, UnavailableError) or not isinstance(error, Exception):
                self._unconfirmed.extend(row.decision_id for row in rows)
            raise
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
    ) -> Iterator[DecisionRecord]:
        """Yield matching records, oldest first by default, in bounded memory."""
        rows = self.backend.scan_records(record_filter, newest_first=newest_first)
        return map(row_to_record, islice(rows, limit))

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the policy or registry that records refer to by digest."""
        return self.backend.get_snapshot(digest)

    def list_heads(self) -> list[ChainHead]:
        """Return the end of each tenant's chain."""
        return self.backend.all_heads()

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
        self.backend.add_label(label)

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        return self.backend.list_labels(decision_id)

    # -- tallies, labels, API keys ----------------------------------------------------------

    def find_labels(
        self, kind: str, values: Collection[str], *, tenant: str | None = None, since: str = ""
    ) -> Iterator[Label]:
        """Yield labels of a kind with one of these values, oldest first, in bounded memory."""
        return self.backend.find_labels(tenant, kind, values, since)

    def read_tallies(self, tenant: str | None, since: datetime, until: datetime) -> Tallies:
        """Return counts of decisions, reasons and findings by whole hours in UTC.

        New records are counted first, so the first call takes a moment. `tenant=None` counts all
        tenants together.
        """
        first, beyond = hours_between(since, until)
        self.backend.update_tallies(tenant)
        return group_tallies(self.backend.read_tallies(tenant, first, beyond))

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
        """Erase the sealed part of each record that holds an identifier anywhere in it.

        Raises:
            InputError: The identifier is too short, or `by` or `reason` is empty.
        """
        self.backend.update_tallies(tenant)
        found = self.find_identifier(tenant, identifier)
        ids = [record.decision_id for record, is_sealed in found if is_sealed]
        return self.backend.erase_records(tenant, ids, by=by, reason=reason)

    def find_identifier(
        self, tenant: str, identifier: str
    ) -> Iterator[tuple[DecisionRecord, bool]]:
        """Yield the records that hold an identifier, and whether their sealed part does.

        It is an e-mail address, an account number, a name: a text that stands as a whole in a
        field, or among the words of one. The open part of a record cannot be erased.

        Raises:
            InputError: The identifier is too short.
        """
        search = IdentifierSearch(identifier)
        for row in self.backend.scan_records(RecordFilter(tenant=tenant)):
            is_sealed = row.sealed is not None and search.finds_in(row.sealed)
            if is_sealed or search.finds_in(row.record):
                yield row_to_record(row), is_sealed

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
        if self._unconfirmed:
            with suppress(StorageError):
                self._commit_rows([])
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finish_future(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
