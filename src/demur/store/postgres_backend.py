"""Decision records in PostgreSQL, for many processes that write at once. Needs `demur[postgres]`.

The schema is that of SQLite in PostgreSQL's types, so SQL that people write works as they expect:
`created_at` is a timestamp, `reason_codes` an array.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from functools import lru_cache
from typing import Any

from demur.errors import InputError
from demur.store.backend import Transaction
from demur.store.postgres_connections import (
    Durability,
    PostgresConnections,
    PostgresTransaction,
    begin_chains,
    run_migrations,
    schema_version,
)
from demur.store.sql import Backend, Dialect, Execute

_NAMED = re.compile(r"(?<!:):([a-z_0-9]+)")


@lru_cache(256)
def _compile(statement: str) -> bytes:
    """Return a statement with the placeholders of the driver."""
    return _NAMED.sub(r"%(\1)s", statement).encode()


class PostgresBackend(Backend):
    """A PostgreSQL database that holds decision records."""

    dialect = Dialect(
        page=500,
        step=20_000,
        halves="record, sealed",
        tenant="tenant",
        has_code=":reason_code = ANY(reason_codes)",  # demur: allow dynamic-code - it is SQL
        has_subject="left(subject, 128) = left(:subject, 128) AND subject = :subject",
        hour="""to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')""",
        code="code",
        codes=", unnest(reason_codes) AS code",
        finding="finding",
        findings=", json_array_elements(sealed -> 'findings') AS finding",
        for_update="FOR UPDATE",
        # Erasure is a legal right, so it has no timeout.
        begin_erase="SET LOCAL statement_timeout = 0",
        begin_retire="SET LOCAL demur.retiring = 'on'",
        end_retire="",
    )

    def __init__(self, connections: PostgresConnections, durability: Durability) -> None:
        self._connections = connections
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

    def _read(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(_compile(statement), values or None).fetchall()

    @contextmanager
    def _write(self) -> Iterator[Execute]:
        with self._connections.writer() as connection, connection.transaction():
            yield lambda statement, values: connection.execute(_compile(statement), values or None)

    @staticmethod
    def _decode_time(value: Any) -> str:
        # Records have milliseconds; a changed time may have more, and an audit has to see it.
        finest = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return f"{value.astimezone(UTC).isoformat(timespec=finest)[:-6]}Z"

    @staticmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        return tuple(value)

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
