"""The store: decision records, durable before a caller gets them.

A batch is one transaction in which every record gets its place in its tenant's chain. Columns
repeat fields of the record; `build_row` alone says how, so an audit can compare them.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Self

import msgspec

from demur.errors import InputError
from demur.model.record import ChainLink, DecisionRecord
from demur.store.backend import RecordFilter, StorageError, Transaction, UnavailableError
from demur.store.committer import Committer, PendingCommit
from demur.store.rows import (
    ApiKey,
    ChainHead,
    Checkpoint,
    ExperienceRow,
    Label,
    RecordRow,
    Snapshot,
    Tallies,
    UnlinkedRow,
    genesis_head,
    group_tallies,
    hours_between,
    link_hash,
)
from demur.store.sql import Backend


class ChainPlace(NamedTuple):
    """The place of a row in its chain: the head before it, and its own hash.

    If its request was stored before, `first` is the decision id of that record, and the row
    itself is not stored.
    """

    previous: ChainHead
    hash: str
    first: str | None = None


def store_batch(
    backend: Backend, rows: Sequence[UnlinkedRow], unconfirmed: Collection[str] = ()
) -> list[ChainPlace]:
    """Store rows in order, each linked to the one before it, and return their places.

    Raises:
        StorageError: Nothing of the batch is stored.
    """
    with backend.transaction() as write:
        if unconfirmed:
            write.mark_unconfirmed(unconfirmed)
        return _link_rows(write, rows) if rows else []


def _link_rows(write: Transaction, rows: Sequence[UnlinkedRow]) -> list[ChainPlace]:
    heads = dict(write.lock_heads({row.tenant for row in rows}))
    keys = {(row.tenant, row.request_id) for row in rows if row.request_id is not None}
    known = dict(write.find_existing(keys)) if keys else {}
    places: list[ChainPlace] = []
    fresh: list[tuple[UnlinkedRow, ChainHead, str]] = []
    for row in rows:
        key = None if row.request_id is None else (row.tenant, row.request_id)
        if key in known:
            places.append(ChainPlace(genesis_head(row.tenant), "", known[key]))
            continue
        # INVARIANT: each record follows the one stored before it for its tenant.
        head = heads[row.tenant]
        own_hash = link_hash(head, row.decision_id, row.record)
        heads[row.tenant] = ChainHead(row.tenant, head.seq + 1, own_hash)
        fresh.append((row, head, own_hash))
        places.append(ChainPlace(head, own_hash))
        if key is not None:
            known[key] = row.decision_id
    if fresh:
        write.insert_rows(fresh)
        write.set_heads([heads[tenant] for tenant in {row.tenant for row, _, _ in fresh}])
    return places


class _SealedRequester(msgspec.Struct, frozen=True, kw_only=True):
    """The one field of the sealed part that has a column; reading it alone is cheap."""

    requester: str | None = None


_decode_record = msgspec.json.Decoder(DecisionRecord).decode
_decode_requester = msgspec.json.Decoder(_SealedRequester).decode


def record_to_row(record: DecisionRecord) -> UnlinkedRow:
    """Return the row of a record that has no place in the chain yet."""
    return build_row(record, record.open_bytes())


def build_row(record: DecisionRecord, open_part: bytes) -> UnlinkedRow:
    """Return the row of a record whose open part is encoded; an erased record has no subject."""
    amount, refusal_class = record.amount, record.refusal_class
    return UnlinkedRow(
        record.decision_id,
        record.created_at,
        record.tenant,
        record.request_id,
        record.root_id,
        None if record.sealed is None else _decode_requester(record.sealed).requester,
        record.verdict.value,
        record.decision_output.value,
        None if refusal_class is None else refusal_class.value,
        record.action_type,
        None if amount is None or amount.value is None else float(amount.value),
        None if amount is None else amount.currency,
        record.reason_codes,
        record.determinism.policy_digest,
        record.determinism.registry_digest,
        open_part,
        record.sealed,
    )


def row_to_record(row: RecordRow) -> DecisionRecord:
    """Return the record in a row, with its sealed part and its place in the chain.

    Raises:
        StorageError: The row holds no decision record.
    """
    try:
        record = _decode_record(row.record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StorageError(f"not a decision record: {error}", where=row.decision_id) from error
    link = ChainLink(seq=row.seq, previous=row.previous, hash=row.hash)
    return msgspec.structs.replace(record, sealed=row.sealed, chain=link)


_Rows = tuple[UnlinkedRow, ...]
_Places = list[ChainPlace]
_replace = msgspec.structs.replace
_NO_FILTER = RecordFilter()
_MAX_UNCONFIRMED = 10_000


class StoredRecord(NamedTuple):
    """A stored record with its place in the chain.

    `duplicate` says that its request id was stored before: then this is the first record, and the
    caller checks whether it is the same request.
    """

    record: DecisionRecord
    duplicate: bool = False


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
        self._committer: Committer[_Rows, _Places] = Committer(
            self._commit_rows, self._note_late, deadline_s=deadline_s
        )

    # -- writing ---------------------------------------------------------------------------

    def put(self, record: DecisionRecord, snapshots: Sequence[Snapshot] = ()) -> StoredRecord:
        """Store a record and its snapshots durably; return it with its place.

        Raises:
            StorageError: It is not stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        [place] = self._committer.run((record_to_row(record),))
        return self._build_stored(record, place)

    def put_many(
        self, records: Sequence[DecisionRecord], snapshots: Sequence[Snapshot] = ()
    ) -> list[StoredRecord]:
        """Store records in one transaction: all of them or none.

        Raises:
            StorageError: None is stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        places = self._committer.run(tuple(map(record_to_row, records)))
        return [self._build_stored(record, at) for record, at in zip(records, places, strict=True)]

    async def aput(
        self, record: DecisionRecord, snapshots: Sequence[Snapshot] = ()
    ) -> StoredRecord:
        """Store a record as `put` does, without blocking the event loop.

        Raises:
            StorageError: It is not stored, or this could not be confirmed in time.
        """
        self._queue_snapshots(snapshots)
        [place] = await self._await_commit((record_to_row(record),))
        if place.first is None:
            return self._build_stored(record, place)
        return await asyncio.to_thread(self._build_stored, record, place)

    async def _await_commit(self, rows: _Rows) -> _Places:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def wake(entry: PendingCommit[_Rows, _Places]) -> None:
            """Wake the caller in its event loop from the storing thread."""
            try:
                loop.call_soon_threadsafe(_finish_future, done)
            except RuntimeError:  # its loop is closed, so nobody waits
                if entry.error is None:
                    self._note_late(entry.item, entry.outcome())

        entry = self._committer.submit(rows, wake)
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
                self._note_late(rows, entry.outcome())
            raise
        return entry.outcome()

    def _commit_rows(self, batch: Sequence[_Rows]) -> list[_Places]:
        """Store a batch, and mark records whose callers stopped waiting."""
        marks = [self._unconfirmed.popleft() for _ in range(len(self._unconfirmed))]
        rows = [row for group in batch for row in group]
        try:
            for digest, snapshot in list(self._queued_snapshots.items()):
                self.backend.save_snapshot(snapshot)
                self._saved_digests.add(digest)
                self._queued_snapshots.pop(digest, None)
            places = iter(store_batch(self.backend, rows, marks))
        except BaseException as error:
            self._unconfirmed.extend(marks)
            # It is unknown what was stored: mark all of it as unconfirmed.
            if isinstance(error, UnavailableError) or not isinstance(error, Exception):
                self._unconfirmed.extend(row.decision_id for row in rows)
            raise
        return [list(islice(places, len(group))) for group in batch]

    def _note_late(self, rows: _Rows, places: _Places) -> None:
        stored = zip(rows, places, strict=True)
        self._unconfirmed.extend(row.decision_id for row, at in stored if at.first is None)

    def _build_stored(self, record: DecisionRecord, place: ChainPlace) -> StoredRecord:
        if place.first is not None:
            first = self.get(place.first)
            if first is None:
                raise StorageError("the first record of this request is gone", where=place.first)
            return StoredRecord(first, duplicate=True)
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

    # -- erasure and retention --------------------------------------------------------------

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Erase the sealed part of a subject's records; the chain stays valid."""
        # Findings are in the sealed part, so count them before it is erased.
        self.backend.update_tallies(tenant)
        return self.backend.erase_subject(tenant, subject)

    def retire_records(self, tenant: str, before: str) -> int:
        """Delete a tenant's records before a time; the rest of the chain stays valid."""
        self.backend.update_tallies(tenant)
        return self.backend.retire_records(tenant, before)

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
