"""One atomic write to SQLite, under the database's write lock."""

import sqlite3
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self

import msgspec

from demur.store.chain import genesis_head
from demur.store.rows import ChainHead, UnlinkedRow
from demur.store.sqlite.connections import DATABASE_ERRORS, SqliteConnections, storage_error

__all__ = ["SqliteTransaction"]

_HEAD = "SELECT seq, record_hash FROM chain_heads WHERE tenant = ?"
_EXISTING = "SELECT decision_id FROM decision_records WHERE tenant = ? AND request_id = ?"
_INSERT_COLUMNS = (*UnlinkedRow._fields, "seq", "previous_hash", "record_hash")
_INSERT = (
    f"INSERT INTO decision_records ({', '.join(_INSERT_COLUMNS)}) "  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * len(_INSERT_COLUMNS))})"
)
_SET_HEAD = (
    "INSERT INTO chain_heads (tenant, seq, record_hash) VALUES (?, ?, ?) ON CONFLICT (tenant) "
    "DO UPDATE SET seq = excluded.seq, record_hash = excluded.record_hash"
)
_MARK = "UPDATE decision_records SET confirmed = 0 WHERE decision_id = ?"
_json = msgspec.json.Encoder().encode


class SqliteTransaction:
    """Begins on entry; commits on exit, or rolls back on an error."""

    __slots__ = ("_connections", "cursor")

    cursor: sqlite3.Cursor

    def __init__(self, connections: SqliteConnections) -> None:
        self._connections = connections

    def __enter__(self) -> Self:
        self._connections.lock.acquire()
        try:
            writer = self._connections.writer()
            if writer.in_transaction:
                # An interrupted transaction is still open.
                writer.rollback()
            self.cursor = writer.cursor()
            # Take the write lock at once: upgrading a read lock later could fail.
            self.cursor.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._connections.lock.release()
            if isinstance(error, DATABASE_ERRORS):
                raise storage_error(error, self._connections.path) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._commit_write()
            else:
                self._roll_back()
        finally:
            self._connections.lock.release()
        if isinstance(error, DATABASE_ERRORS):
            raise storage_error(error, self._connections.path) from error

    def _commit_write(self) -> None:
        try:
            self.cursor.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, DATABASE_ERRORS):
                raise storage_error(error, self._connections.path) from error
            raise

    def _roll_back(self) -> None:
        try:
            # Some errors, such as a full disk, roll back by themselves.
            if self.cursor.connection.in_transaction:
                self.cursor.execute("ROLLBACK")
        except sqlite3.Error:
            self._connections.drop_writer()

    # -- the protocol ----------------------------------------------------------------------

    def lock_heads(self, tenants: Collection[str]) -> dict[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""
        heads = {}
        for tenant in tenants:
            found = self.cursor.execute(_HEAD, (tenant,)).fetchone()
            heads[tenant] = ChainHead(tenant, *found) if found else genesis_head(tenant)
        return heads

    def find_existing(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""
        found = ((key, self.cursor.execute(_EXISTING, key).fetchone()) for key in keys)
        return {key: row[0] for key, row in found if row}

    def insert_rows(self, rows: Sequence[tuple[UnlinkedRow, ChainHead, str]]) -> None:
        """Insert rows, each with the head before it and its own hash."""
        self.cursor.executemany(_INSERT, [_row_values(*row) for row in rows])

    def set_heads(self, heads: Collection[ChainHead]) -> None:
        """Move the heads."""
        for head in heads:
            self.cursor.execute(_SET_HEAD, head)

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> None:
        """Mark rows whose callers got an error because storing was not confirmed in time."""
        for decision_id in decision_ids:
            self.cursor.execute(_MARK, (decision_id,))


def _row_values(row: UnlinkedRow, head: ChainHead, own_hash: str) -> tuple[object, ...]:
    sealed = None if row.sealed is None else row.sealed.decode()
    return (
        *row[:12],
        _json(row.reason_codes).decode(),
        row.policy_digest,
        row.registry_digest,
        row.record.decode(),
        sealed,
        head.seq + 1,
        head.hash,
        own_hash,
    )
