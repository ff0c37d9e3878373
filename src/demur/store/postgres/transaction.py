"""One atomic write to PostgreSQL: lock heads, then send rows and heads together."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from demur.store.chain import GENESIS, genesis_head
from demur.store.postgres.connection import Connection
from demur.store.rows import ChainHead, UnlinkedRow

__all__ = ["PostgresTransaction", "begin_chains"]

_INSERT_COLUMNS = (*UnlinkedRow._fields, "seq", "previous_hash", "record_hash")
_INSERT = (
    f"INSERT INTO decision_records ({', '.join(_INSERT_COLUMNS)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join(['%s'] * len(_INSERT_COLUMNS))})"
).encode()
# Lock in a fixed order, so that two writers cannot deadlock.
_LOCK_HEADS = """
    SELECT tenant, seq, record_hash FROM chain_heads
    WHERE tenant = ANY(%s) ORDER BY tenant FOR UPDATE
"""
_EXISTING = """
    SELECT tenant, request_id, decision_id
    FROM decision_records JOIN unnest(%s::text[], %s::text[]) AS asked (tenant, request_id)
    USING (tenant, request_id)
"""
_MOVE = """
    INSERT INTO chain_heads (tenant, seq, record_hash) VALUES (%s, %s, %s)
    ON CONFLICT (tenant) DO UPDATE SET seq = EXCLUDED.seq, record_hash = EXCLUDED.record_hash
"""
_DOUBT = "UPDATE decision_records SET confirmed = false WHERE decision_id = ANY(%s)"
_GENESIS = """
    INSERT INTO chain_heads (tenant, seq, record_hash)
    SELECT tenant, 0, %s FROM unnest(%s::text[]) AS new (tenant)
    ON CONFLICT DO NOTHING
"""


class PostgresTransaction:
    """A write in progress; leaving the `with` block commits it.

    `begin_chains` creates heads for new tenants on another connection: a head created in this
    transaction would be a lock taken out of order.
    """

    def __init__(
        self, connection: Connection, begin_chains: Callable[[Collection[str]], None]
    ) -> None:
        self._connection = connection
        self._begin_chains = begin_chains

    def lock_heads(self, tenants: Collection[str]) -> Mapping[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""
        self._begin_chains(tenants)
        found = self._connection.execute(_LOCK_HEADS, [list(tenants)])
        return {tenant: genesis_head(tenant) for tenant in tenants} | {
            row[0]: ChainHead(*row) for row in found
        }

    def find_existing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""
        if not keys:
            return {}
        found = self._connection.execute(_EXISTING, [*map(list, zip(*keys, strict=True))])
        return {(tenant, request_id): decision_id for tenant, request_id, decision_id in found}

    def insert_rows(self, rows: Sequence[tuple[UnlinkedRow, ChainHead, str]]) -> None:
        """Insert rows, each with the head before it and its own hash."""
        if rows:
            self._connection.cursor().executemany(_INSERT, [_row_values(*row) for row in rows])

    def set_heads(self, heads: Collection[ChainHead]) -> None:
        """Move the heads."""
        if heads:
            self._connection.cursor().executemany(_MOVE, heads)

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> None:
        """Mark rows whose callers got an error because storing was not confirmed in time."""
        if decision_ids:
            self._connection.execute(_DOUBT, [list(decision_ids)])


def begin_chains(connection: Connection, tenants: Collection[str]) -> None:
    """Create the genesis head of each tenant that has none."""
    connection.execute(_GENESIS, [GENESIS, sorted(tenants)])


def _row_values(row: UnlinkedRow, head: ChainHead, link: str) -> tuple[Any, ...]:
    *columns, codes, policy_digest, registry_digest, record, sealed = row
    return (
        *columns,
        list(codes),
        policy_digest,
        registry_digest,
        record.decode(),
        None if sealed is None else sealed.decode(),
        head.seq + 1,
        head.hash,
        link,
    )
