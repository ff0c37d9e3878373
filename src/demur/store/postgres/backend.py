"""Decision records in PostgreSQL, for many processes that write at once.

The schema is that of SQLite in PostgreSQL's types, so SQL that people write works as they
expect: `created_at` is a timestamp, `reason_codes` an array.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from demur.errors import InputError
from demur.store.backend import Backend, Transaction
from demur.store.postgres.connection import PostgresConnections, Durability
from demur.store.postgres.memory import PostgresMemory, bump_memory_version
from demur.store.postgres.reading import PostgresReading
from demur.store.postgres.schema import run_migrations, schema_version
from demur.store.postgres.transaction import PostgresTransaction, begin_chains
from demur.store.postgres.watching import PostgresTallies

__all__ = ["PostgresBackend", "open_postgres"]

_MAX_RETIRED = 2000
_ERASE = """
    UPDATE decision_records SET sealed = NULL, subject = NULL
    WHERE tenant = %(tenant)s AND left(subject, 128) = left(%(subject)s, 128)
      AND subject = %(subject)s
    RETURNING decision_id
"""
_UNLEARN = "DELETE FROM experiences WHERE tenant = %s AND decision_id = ANY(%s)"
_OLDEST = """
    SELECT seq, record_hash, created_at < %(before)s::timestamptz FROM decision_records
    WHERE tenant = %(tenant)s ORDER BY seq LIMIT %(limit)s
"""
_SAVE_ANCHOR = """
    INSERT INTO chain_anchors (tenant, seq, record_hash, retired_before) VALUES (%s, %s, %s, %s)
    ON CONFLICT (tenant) DO UPDATE SET
        seq = EXCLUDED.seq, record_hash = EXCLUDED.record_hash,
        retired_before = EXCLUDED.retired_before
    WHERE chain_anchors.seq < EXCLUDED.seq
"""
_RETIRE = "DELETE FROM decision_records WHERE tenant = %s AND seq <= %s"
_TABLES = {
    "records": "decision_records",
    "tenants": "chain_heads WHERE seq > 0",
    "checkpoints": "checkpoints",
    "snapshots": "snapshots",
    "experiences": "experiences",
    "labels": "labels",
}


class PostgresBackend(PostgresReading, PostgresMemory, PostgresTallies):
    """A PostgreSQL database that holds decision records."""

    def __init__(self, connections: PostgresConnections, durability: Durability) -> None:
        super().__init__(connections)
        self._durability = durability
        self._begun: set[str] = set()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return one write: committed durably on exit, rolled back on an error."""
        with (
            self._connections.writer() as connection,
            connection.pipeline(),
            connection.transaction(),
        ):
            yield PostgresTransaction(connection, self._begin_chains)

    def _begin_chains(self, tenants: Collection[str]) -> None:
        fresh = set(tenants) - self._begun
        if fresh:
            with self._connections.reader() as connection:
                begin_chains(connection, fresh)
            self._begun |= fresh

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete the sealed part, the subject and the experiences of a subject's records."""
        with self._connections.writer() as connection, connection.transaction():
            # Erasure is a legal right, so it has no timeout.
            connection.execute("SET LOCAL statement_timeout = 0")
            found = connection.execute(_ERASE, {"tenant": tenant, "subject": subject})
            erased = [row[0] for row in found]
            if connection.execute(_UNLEARN, [tenant, erased]).rowcount:
                bump_memory_version(connection, tenant)
        return len(erased)

    def retire_records(self, tenant: str, before: str) -> int:
        """Delete records before a time and return how many; the chain stays verifiable."""
        retired = 0
        while count := self._retire_some(tenant, before):
            retired += count
        return retired

    def _retire_some(self, tenant: str, before: str) -> int:
        """Retire a bounded number, so that transactions are short."""
        asked = {"tenant": tenant, "before": before, "limit": _MAX_RETIRED}
        with self._connections.writer() as connection, connection.transaction():
            oldest = connection.execute(_OLDEST, asked)
            old = [row[:2] for row in takewhile(lambda row: row[2], oldest)]
            if not old:
                return 0
            connection.execute(_SAVE_ANCHOR, [tenant, *old[-1], before])
            connection.execute("SET LOCAL demur.retiring = 'on'")
            return connection.execute(_RETIRE, [tenant, old[-1][0]]).rowcount

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""
        asked = ", ".join(f"(SELECT count(*) FROM {table})" for table in _TABLES.values())  # noqa: S608 - our own names
        with self._connections.reader() as connection:
            found = connection.execute(f"SELECT {asked}".encode()).fetchone()
        return dict(zip(_TABLES, found or (), strict=True))

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        with self._connections.reader() as connection:
            version = schema_version(connection)
            server = connection.info.server_version
        return {
            "kind": "postgresql",
            "place": self._connections.place,
            "schema_version": version,
            "durability": self._durability,
            "server_version": f"{server // 10000}.{server % 10000}",
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()


def open_postgres(
    url: str,
    *,
    durability: Durability = "full",
    timeout_s: float = 30.0,
    busy_timeout_s: float | None = None,
    **_: Any,
) -> Backend:
    """Return the store in a PostgreSQL database, with its schema brought up to date.

    `timeout_s` (or `busy_timeout_s`, its name for all stores) bounds each statement that writes,
    each wait for a lock and each attempt to connect. With durability `full` a write returns when
    the server has it on disk; `normal` may lose the last writes if the server crashes, and never
    breaks a chain.

    Raises:
        StorageError: The database cannot be used, or is newer than this code.
    """
    if durability not in {"full", "normal"}:
        raise InputError(f"durability is `full` or `normal`, not `{durability}`")
    connections = PostgresConnections(
        url, durability=durability, timeout_s=busy_timeout_s or timeout_s
    )
    try:
        with connections.writer() as connection:
            run_migrations(connection, connections.place)
    except BaseException:
        connections.close()
        raise
    return PostgresBackend(connections, durability)
