"""Store a batch in one transaction: every record gets its place in its tenant's chain."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from demur.store.backend import Backend, Transaction
from demur.store.chain import genesis_head, link_hash
from demur.store.rows import ChainHead, UnlinkedRow

__all__ = ["ChainPlace", "store_batch"]

_Key = tuple[str, str]


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
