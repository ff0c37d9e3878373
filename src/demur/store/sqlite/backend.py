"""Decision records in a SQLite file. Any number of processes may read and write it."""
# ruff: noqa: S608 - statements are built from our own names; values are bound

import sqlite3
from collections.abc import Mapping
from typing import Any, Literal

from demur.errors import InputError
from demur.store.sqlite.connections import SqliteConnections
from demur.store.sqlite.memory import NEXT_VERSION, SqliteMemory
from demur.store.sqlite.reading import SqliteReading
from demur.store.sqlite.transaction import SqliteTransaction
from demur.store.sqlite.watching import SqliteTallies

__all__ = ["Durability", "SqliteBackend"]

Durability = Literal["full", "normal"]

_MAX_RETIRED = 2000
# The plus keeps SQLite from using the tenant index, which is not selective enough.
_OF_SUBJECT = "+tenant = ? AND subject = ?"
_OLDEST = """
    SELECT seq, record_hash, created_at FROM decision_records
    WHERE tenant = ? ORDER BY seq LIMIT ?
"""
_SAVE_ANCHOR = """
    INSERT INTO chain_anchors (tenant, seq, record_hash, retired_before) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq,
        record_hash = excluded.record_hash, retired_before = excluded.retired_before
"""
_RETIRE = "DELETE FROM decision_records WHERE tenant = ? AND seq <= ?"
_ERASE = f"UPDATE decision_records SET sealed = NULL, subject = NULL WHERE {_OF_SUBJECT}"
_UNLEARN = f"""
    DELETE FROM experiences WHERE tenant = ? AND decision_id IN
    (SELECT decision_id FROM decision_records WHERE {_OF_SUBJECT})
"""
_TABLES = {
    "records": "decision_records",
    "tenants": "chain_heads",
    "checkpoints": "checkpoints",
    "snapshots": "snapshots",
    "experiences": "experiences",
    "labels": "labels",
}


class SqliteBackend(SqliteReading, SqliteMemory, SqliteTallies):
    """Decision records in the SQLite file at `path` (`:memory:`: gone when closed).

    Durability `full` survives a power cut. `normal` survives a crash of the process, and may lose
    the last writes before a power cut.

    Raises:
        StorageError: The file cannot be opened, or its schema is newer than this code.
    """

    def __init__(
        self, path: str, *, durability: Durability = "full", busy_timeout_s: float = 30.0
    ) -> None:
        if durability not in {"full", "normal"}:
            raise InputError(f"durability is `full` or `normal`, not `{durability}`")
        self._durability = durability
        super().__init__(
            SqliteConnections(path, synchronous=durability.upper(), busy_timeout_s=busy_timeout_s)
        )

    def transaction(self) -> SqliteTransaction:
        """Return one atomic write."""
        return SqliteTransaction(self._connections)

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete the sealed part, the subject and the experiences of a subject's records."""
        with self.transaction() as write:
            if write.cursor.execute(_UNLEARN, (tenant, tenant, subject)).rowcount:
                write.cursor.execute(NEXT_VERSION, (tenant,))
            erased = write.cursor.execute(_ERASE, (tenant, subject)).rowcount
        self._connections.empty_log()
        return erased

    def retire_records(self, tenant: str, before: str) -> int:
        """Delete records before a time and return how many; the chain stays verifiable."""
        retired = 0
        while count := self._retire_some(tenant, before):
            retired += count
        self._connections.empty_log()
        return retired

    def _retire_some(self, tenant: str, before: str) -> int:
        """Retire a bounded number, so that decisions do not wait long."""
        with self.transaction() as write:
            rows = write.cursor.execute(_OLDEST, (tenant, _MAX_RETIRED)).fetchall()
            count = next((i for i, row in enumerate(rows) if row[2] >= before), len(rows))
            if count:
                seq, record_hash, _ = rows[count - 1]
                write.cursor.execute(_SAVE_ANCHOR, (tenant, seq, record_hash, before))
                write.cursor.execute("INSERT INTO meta VALUES ('retiring', ?)", (tenant,))
                write.cursor.execute(_RETIRE, (tenant, seq))
                write.cursor.execute("DELETE FROM meta WHERE key = 'retiring'")
        return count

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""
        return {
            name: self._fetch_all(f"SELECT COUNT(*) FROM {table}")[0][0]
            for name, table in _TABLES.items()
        }

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        return {
            "kind": "sqlite",
            "place": self._connections.path,
            "schema_version": self._fetch_all("PRAGMA user_version")[0][0],
            "durability": self._durability,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()
