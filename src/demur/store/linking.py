"""Records as rows, and their places in the chains of their tenants.

A batch is one transaction in which every record gets its place, and takes the uses of its grants.
Columns repeat fields of the record; `build_row` alone says how, so an audit can compare them.
"""

from collections.abc import Mapping, Sequence

import msgspec

from demur.errors import GrantError
from demur.model.grant import Grant
from demur.model.record import ChainLink, DecisionRecord
from demur.store.backend import StorageError, Transaction
from demur.store.grant_tables import GrantRow, RecordGrants
from demur.store.rows import (
    ApprovalRow,
    ChainPlace,
    RecordRow,
    ResolvedApproval,
    UnlinkedRow,
    genesis_head,
)
from demur.store.sql import Backend

UNGRANTED: Mapping[str, RecordGrants] = {}


def store_batch(
    backend: Backend,
    rows: Sequence[UnlinkedRow],
    grants: Mapping[str, RecordGrants] = UNGRANTED,
) -> list[ChainPlace]:
    """Store rows in order, each linked to the one before it, and return their places.

    `grants` come with some of the rows, by decision id.

    Raises:
        UnavailableError: It is unknown whether the batch is stored.
        StorageError: Nothing of the batch is stored.
    """
    opened = {name: one.opens for name, one in grants.items() if one.opens is not None}
    if not any(one.rows or one.uses or one.resolves for one in grants.values()):
        return backend.append_rows(rows, opened)
    with backend.transaction() as write:
        write.lock_heads({row.tenant for row in rows})
        return _append_granted(write, rows, grants, opened)


def _append_granted(
    write: Transaction,
    rows: Sequence[UnlinkedRow],
    grants: Mapping[str, RecordGrants],
    opened: Mapping[str, ApprovalRow],
) -> list[ChainPlace]:
    """Append the rows whose grants have uses left; a repeated request uses none."""
    uses = _GrantUses(write, grants)
    keys = {(row.tenant, row.request_id) for row in rows if row.request_id is not None}
    known = set(write.find_existing(keys)) if keys else set()
    used_up = set()
    for row in rows:
        if row.request_id is not None and (row.tenant, row.request_id) in known:
            continue
        if not uses.take(row.decision_id):
            used_up.add(row.decision_id)
        elif row.request_id is not None:
            known.add((row.tenant, row.request_id))
    admitted = [row for row in rows if row.decision_id not in used_up]
    places = iter(write.append_rows(admitted, opened))
    uses.save()
    return [
        ChainPlace(genesis_head(row.tenant), "", used_up=True)
        if row.decision_id in used_up
        else next(places)
        for row in rows
    ]


class _GrantUses:
    """Counts the uses of grants within one write, which holds the locks on their numbers."""

    def __init__(self, write: Transaction, grants: Mapping[str, RecordGrants]) -> None:
        self._write = write
        self._grants = grants
        digests = {use.digest for one in grants.values() for use in one.uses}
        self._used = dict(write.lock_uses(sorted(digests))) if digests else {}
        self._taken: dict[str, int] = {}
        self._rows: list[GrantRow] = []
        self._resolved: list[ResolvedApproval] = []

    def take(self, decision_id: str) -> bool:
        """Take the uses of a record, all or none; return whether each grant had one left."""
        own = self._grants.get(decision_id)
        if own is None:
            return True
        # INVARIANT: a grant is used at most as often as it says, whoever uses it at once.
        if any(self._used[use.digest] >= use.max_uses for use in own.uses):
            return False
        for use in own.uses:
            self._used[use.digest] += 1
            self._taken[use.digest] = self._used[use.digest]
        self._rows += own.rows
        self._resolved += () if own.resolves is None else (own.resolves,)
        return True

    def save(self) -> None:
        """Store the new numbers and the signed grants, and end the requests for approval."""
        if self._taken:
            self._write.set_uses(self._taken)
        if self._rows:
            self._write.save_grants(self._rows)
        if self._resolved:
            self._write.resolve_approvals(self._resolved)


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


def row_to_grant(row: GrantRow) -> Grant:
    """Return the signed grant in a row.

    Raises:
        StorageError: The row holds no grant.
    """
    try:
        return Grant.from_json(row.signed_grant)
    except GrantError as error:
        raise StorageError(error.problem, where=row.digest) from error
