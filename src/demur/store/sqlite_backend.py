"""Decision records in a SQLite file. Any number of processes may read and write it."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from demur.errors import InputError
from demur.store.sql import Backend, Dialect, Execute
from demur.store.sqlite_connections import SqliteConnections, SqliteTransaction

Durability = Literal["full", "normal"]
_codes = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteBackend(Backend):
    """Decision records in the SQLite file at `path` (`:memory:`: gone when closed).

    Durability `full` survives a power cut. `normal` survives a crash of the process, and may lose
    the last writes before a power cut.

    Raises:
        StorageError: The file cannot be opened, or its schema is newer than this code.
    """

    dialect = Dialect(
        page=100,
        step=5000,
        halves="CAST(record AS BLOB), CAST(sealed AS BLOB)",
        # The plus keeps SQLite from using the tenant index, which is not selective enough.
        tenant="+tenant",
        has_code="EXISTS (SELECT 1 FROM json_each(reason_codes) WHERE value = :reason_code)",
        has_subject="subject = :subject",
        hour="substr(created_at, 1, 13)",
        code="code.value",
        codes=", json_each(reason_codes) AS code",
        finding="finding.value",
        findings=", json_each(sealed, '$.findings') AS finding",
        for_update="",
        begin_erase="",
        begin_retire="INSERT INTO meta VALUES ('retiring', 'on')",
        end_retire="DELETE FROM meta WHERE key = 'retiring'",
    )

    def __init__(
        self, path: str, *, durability: Durability = "full", busy_timeout_s: float = 30.0
    ) -> None:
        if durability not in {"full", "normal"}:
            raise InputError(f"durability is `full` or `normal`, not `{durability}`")
        self._durability = durability
        self._connections = SqliteConnections(
            path, synchronous=durability.upper(), busy_timeout_s=busy_timeout_s
        )

    def transaction(self) -> SqliteTransaction:
        """Return one atomic write."""
        return SqliteTransaction(self._connections)

    def _read(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[Execute]:
        with SqliteTransaction(self._connections) as write:
            yield write.cursor.execute

    @staticmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        try:
            return _codes(value)
        except (msgspec.MsgspecError, UnicodeError):
            # An audit has to see it: no record has such a code.
            return (value,)

    def _forget_deleted(self) -> None:
        self._connections.empty_log()

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        return {
            "kind": "sqlite",
            "place": self._connections.path,
            "schema_version": self._read("PRAGMA user_version", {})[0][0],
            "durability": self._durability,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()
