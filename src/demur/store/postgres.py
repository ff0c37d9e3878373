"""Decision records in PostgreSQL, for many processes that write at once. Needs `demur[postgres]`.

The schema is that of SQLite in PostgreSQL's types, so SQL that people write works as they expect:
`created_at` is a timestamp, `reason_codes` an array. There is one writing connection and a few
reading ones; they reconnect after an outage. Every database error becomes a `StorageError`.
Addresses can hold passwords, so messages name the host and the database, never the address.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Literal
from weakref import WeakSet

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgramLimitExceeded
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from demur.errors import InputError
from demur.store.backend import (
    StorageError,
    Transaction,
    UnavailableError,
    load_migrations,
    pending_migrations,
)
from demur.store.rows import GENESIS, ChainHead, UnlinkedRow, genesis_head
from demur.store.sql import Backend, Dialect, Execute

Connection = psycopg.Connection[tuple[Any, ...]]
Durability = Literal["full", "normal"]

_MAX_READERS = 4
# Errors about one row; all others mean that the database cannot be used.
_ABOUT_A_ROW = (
    psycopg.DataError,
    psycopg.IntegrityError,
    ProgramLimitExceeded,
    OverflowError,
    UnicodeError,
)
# A server default of `off` would break the promise of `full`; stricter defaults stay.
_SET_SESSION = """
    SELECT set_config('timezone', 'UTC', false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('lock_timeout', %(limit)s, false),
           set_config('idle_in_transaction_session_timeout', %(limit)s, false),
           CASE WHEN %(writes)s THEN set_config('statement_timeout', %(limit)s, false) END,
           CASE WHEN %(lazy)s THEN set_config('synchronous_commit', 'off', false)
                WHEN current_setting('synchronous_commit') = 'off'
                THEN set_config('synchronous_commit', 'on', false) END
"""


class _RawJsonLoader(Loader):
    """Returns JSON as stored, because the chain covers these bytes."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class PostgresConnections:
    """The connections of one store. `place` names the database without its password.

    A connection does not survive a fork: the child leaves the parent's open and opens its own.
    """

    def __init__(self, url: str, *, durability: Durability, timeout_s: float) -> None:
        options = _read_address(url)
        self.place = f"{options.get('host', 'localhost')}/{options.get('dbname', '')}"
        self._lazy = durability == "normal"
        self._timeout_s = timeout_s
        self._address = make_conninfo(url, **_default_options(options, timeout_s))
        self._closed = False
        self._start_afresh()
        _LIVE.add(self)

    def _start_afresh(self) -> None:
        self._writing = Lock()
        self._writer: Connection | None = None
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self._address,
            min_size=0,
            max_size=_MAX_READERS,
            timeout=self._timeout_s,
            reconnect_timeout=self._timeout_s,
            kwargs={"autocommit": True},
            configure=partial(self._configure_session, writes=False),
            check=_check_alive,
            open=False,
        )

    def after_fork(self) -> None:
        """Set the parent's connections aside; only for a child that was just forked."""
        _INHERITED.append((self._writer, self._pool))
        self._start_afresh()

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        with self._writing:
            self._drop_writer()
        self._pool.close()

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """Lend a connection for reading."""
        self._check_open()
        with self._translate_errors():
            self._pool.open()
            with self._pool.connection() as connection:
                yield connection

    @contextmanager
    def writer(self) -> Iterator[Connection]:
        """Lend the connection for writing to one thread at a time."""
        with self._writing, self._translate_errors():
            self._check_open()
            try:
                yield self._living_writer()
            finally:
                # An error may leave the transaction open; do not reuse it.
                writer, idle = self._writer, TransactionStatus.IDLE
                if writer is not None and writer.info.transaction_status is not idle:
                    self._drop_writer()

    def _living_writer(self) -> Connection:
        if self._writer is not None and not _is_alive(self._writer):
            self._drop_writer()
        if self._writer is None:
            writer = psycopg.connect(self._address, autocommit=True)
            try:
                self._configure_session(writer, writes=True)
            except BaseException:
                writer.close()
                raise
            self._writer = writer
        return self._writer

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _configure_session(self, connection: Connection, *, writes: bool) -> None:
        connection.adapters.register_loader("json", _RawJsonLoader)
        limit = str(round(self._timeout_s * 1000))
        connection.execute(_SET_SESSION, {"limit": limit, "lazy": self._lazy, "writes": writes})

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed", where=self.place)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _ABOUT_A_ROW as error:
            problem = f"the database refused this: {_first_line(error)}"
            raise StorageError(problem, where=self.place) from error
        except psycopg.Error as error:
            problem = f"the database cannot be used: {_first_line(error)}"
            raise UnavailableError(problem, where=self.place) from error


def _read_address(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.Error:
        # The driver's message quotes the address, and with it the password.
        raise StorageError(
            "the address of the store is no PostgreSQL address",
            help="write it like `postgresql://user@host:5432/database`",
        ) from None


def _default_options(options: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return defaults for options not in the address; a lost host must not block for ever."""
    seconds = max(2, round(timeout_s))
    defaults = {
        "application_name": "demur",
        "client_encoding": "UTF8",
        "connect_timeout": seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": 1 + seconds // 3,
        "keepalives_count": 3,
        "tcp_user_timeout": seconds * 1000,
    }
    return {name: value for name, value in defaults.items() if name not in options}


def _is_alive(connection: Connection) -> bool:
    """Return whether an idle connection is still connected, without a round trip."""
    try:
        _check_alive(connection)
    except psycopg.Error:
        return False
    return True


def _check_alive(connection: Connection) -> None:
    # If the server closed the connection, the first call reads its last message and the second
    # fails.
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


_LIVE: "WeakSet[PostgresConnections]" = WeakSet()
# Connections of the parent, kept in a child because closing them would affect the parent.
_INHERITED: list[tuple[Connection | None, ConnectionPool[Connection]]] = []


def _after_fork() -> None:
    for connections in list(_LIVE):
        connections.after_fork()


# Windows has neither forks nor this function.
getattr(os, "register_at_fork", dict)(after_in_child=_after_fork)


_INSERT_COLUMNS = (*UnlinkedRow._fields, "seq", "previous_hash", "record_hash")
_INSERT_RECORD = (
    f"INSERT INTO decision_records ({', '.join(_INSERT_COLUMNS)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join(['%s'] * len(_INSERT_COLUMNS))})"
).encode()
# Lock in a fixed order, so that two writers cannot deadlock.
_LOCK_HEADS = """
    SELECT tenant, seq, record_hash FROM chain_heads
    WHERE tenant = ANY(%s) ORDER BY tenant FOR UPDATE
"""
_SELECT_EXISTING = """
    SELECT tenant, request_id, decision_id
    FROM decision_records JOIN unnest(%s::text[], %s::text[]) AS asked (tenant, request_id)
    USING (tenant, request_id)
"""
_SET_HEAD = """
    INSERT INTO chain_heads (tenant, seq, record_hash) VALUES (%s, %s, %s)
    ON CONFLICT (tenant) DO UPDATE SET seq = EXCLUDED.seq, record_hash = EXCLUDED.record_hash
"""
_MARK_UNCONFIRMED = "UPDATE decision_records SET confirmed = false WHERE decision_id = ANY(%s)"
_INSERT_GENESIS = """
    INSERT INTO chain_heads (tenant, seq, record_hash)
    SELECT tenant, 0, %s FROM unnest(%s::text[]) AS new (tenant)
    ON CONFLICT DO NOTHING
"""


class PostgresTransaction:
    """A write in progress; leaving the `with` block commits it.

    `begin` creates heads for new tenants on another connection: a head created in this
    transaction would be a lock taken out of order.
    """

    def __init__(self, connection: Connection, begin: Callable[[Collection[str]], None]) -> None:
        self._connection = connection
        self._begin = begin

    def lock_heads(self, tenants: Collection[str]) -> Mapping[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""
        self._begin(tenants)
        heads = {tenant: genesis_head(tenant) for tenant in tenants}
        found = self._connection.execute(_LOCK_HEADS, [list(tenants)])
        return heads | {row[0]: ChainHead(*row) for row in found}

    def find_existing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""
        if not keys:
            return {}
        found = self._connection.execute(_SELECT_EXISTING, [*map(list, zip(*keys, strict=True))])
        return {(tenant, request_id): decision_id for tenant, request_id, decision_id in found}

    def insert_rows(self, rows: Sequence[tuple[UnlinkedRow, ChainHead, str]]) -> None:
        """Insert rows, each with the head before it and its own hash."""
        if rows:
            values = [_row_values(*row) for row in rows]
            self._connection.cursor().executemany(_INSERT_RECORD, values)

    def set_heads(self, heads: Collection[ChainHead]) -> None:
        """Move the heads."""
        if heads:
            self._connection.cursor().executemany(_SET_HEAD, heads)

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> None:
        """Mark rows whose callers got an error because storing was not confirmed in time."""
        if decision_ids:
            self._connection.execute(_MARK_UNCONFIRMED, [list(decision_ids)])


def begin_chains(connection: Connection, tenants: Collection[str]) -> None:
    """Create the genesis head of each tenant that has none."""
    connection.execute(_INSERT_GENESIS, [GENESIS, sorted(tenants)])


def _row_values(row: UnlinkedRow, head: ChainHead, link: str) -> tuple[Any, ...]:
    *columns, codes, policy_digest, registry_digest, record, sealed = row
    halves = (record.decode(), None if sealed is None else sealed.decode())
    digests = (policy_digest, registry_digest)
    return (*columns, list(codes), *digests, *halves, head.seq + 1, head.hash, link)


_MIGRATIONS = load_migrations("postgres")
# An advisory lock; its number is "demur" in hexadecimal.
_LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(x'64656d7572'::bigint)"
_ADD_META = "CREATE TABLE IF NOT EXISTS meta (key text NOT NULL PRIMARY KEY, value text NOT NULL)"
_SAVE_VERSION = """
    INSERT INTO meta (key, value) VALUES ('schema_version', %s)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
"""


def run_migrations(connection: Connection, where: str) -> None:
    """Apply the migrations that the database lacks.

    Raises:
        StorageError: The database is newer than this code, or cannot hold all text.
    """
    if connection.info.parameter_status("server_encoding") != "UTF8":
        help_text = "create it with `ENCODING 'UTF8' TEMPLATE template0`"
        raise StorageError("the database cannot hold all text", where=where, help=help_text)
    if not pending_migrations(_MIGRATIONS, schema_version(connection), where):
        return
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        connection.execute(_LOCK_SCHEMA)
        # Another process may have migrated meanwhile. Create and read the table to see it: the
        # catalogue may still show the state before the wait.
        connection.execute(_ADD_META)
        for step in pending_migrations(_MIGRATIONS, _stored_version(connection), where):
            connection.execute(step.sql.encode())
            connection.execute(_SAVE_VERSION, [str(step.version)])


def schema_version(connection: Connection) -> int:
    """Return the version of the schema; 0 if there is none yet."""
    found = connection.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()
    return _stored_version(connection) if found == (True,) else 0


def _stored_version(connection: Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return 0 if row is None else int(row[0])


_PLACEHOLDER = re.compile(r"(?<!:):([a-z_0-9]+)")


@lru_cache(256)
def _to_psycopg(statement: str) -> bytes:
    """Return a statement with the placeholders of the driver."""
    return _PLACEHOLDER.sub(r"%(\1)s", statement).encode()


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
        code_value="code",
        code_rows=", unnest(reason_codes) AS code",
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
        with self._connections.writer() as writer, writer.pipeline(), writer.transaction():
            yield PostgresTransaction(writer, self._begin_chains)

    def _begin_chains(self, tenants: Collection[str]) -> None:
        fresh = set(tenants) - self._begun
        if fresh:
            with self._connections.reader() as connection:
                begin_chains(connection, fresh)
            self._begun |= fresh

    def _run_query(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(_to_psycopg(statement), values or None).fetchall()

    @contextmanager
    def _open_write(self) -> Iterator[Execute]:
        with self._connections.writer() as connection, connection.transaction():
            yield lambda statement, values: connection.execute(
                _to_psycopg(statement), values or None
            )

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
    limit_s = busy_timeout_s or timeout_s
    connections = PostgresConnections(url, durability=durability, timeout_s=limit_s)
    try:
        with connections.writer() as connection:
            run_migrations(connection, connections.place)
    except BaseException:
        connections.close()
        raise
    return PostgresBackend(connections, durability)
