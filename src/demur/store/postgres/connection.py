"""Connections to PostgreSQL: one writer and a few readers, which reconnect after an outage.

Every database error becomes a `StorageError`. Addresses can hold passwords, so messages name the
host and the database, never the address.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Literal
from weakref import WeakSet

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgramLimitExceeded
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from demur.store.backend import StorageError, UnavailableError

__all__ = ["Connection", "PostgresConnections", "Durability"]

Connection = psycopg.Connection[tuple[Any, ...]]
Durability = Literal["full", "normal"]

_READERS = 4
# Errors about one row; all others mean that the database cannot be used.
_ABOUT_A_ROW = (
    psycopg.DataError,
    psycopg.IntegrityError,
    ProgramLimitExceeded,
    OverflowError,
    UnicodeError,
)
# A server default of `off` would break the promise of `full`; stricter defaults stay.
_CONFIGURE = """
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
        given = _read_address(url)
        self.place = f"{given.get('host', 'localhost')}/{given.get('dbname', '')}"
        self._lazy = durability == "normal"
        self._timeout_s = timeout_s
        self._address = make_conninfo(url, **_default_options(given, timeout_s))
        self._closed = False
        self._start_afresh()
        _LIVE.add(self)

    def _start_afresh(self) -> None:
        self._writing = Lock()
        self._writer: Connection | None = None
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self._address,
            min_size=0,
            max_size=_READERS,
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
                if self._writer is not None and not _is_idle(self._writer):
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
        connection.execute(_CONFIGURE, {"limit": limit, "lazy": self._lazy, "writes": writes})

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed", where=self.place)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _ABOUT_A_ROW as error:
            raise StorageError(
                f"the database refused this: {_first_line(error)}", where=self.place
            ) from error
        except psycopg.Error as error:
            raise UnavailableError(
                f"the database cannot be used: {_first_line(error)}", where=self.place
            ) from error


def _read_address(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.Error:
        # The driver's message quotes the address, and with it the password.
        raise StorageError(
            "the address of the store is no PostgreSQL address",
            help="write it like `postgresql://user@host:5432/database`",
        ) from None


def _default_options(given: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return defaults for options not in the address; a lost host must not block for ever."""
    seconds = max(2, round(timeout_s))
    wanted = {
        "application_name": "demur",
        "client_encoding": "UTF8",
        "connect_timeout": seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": 1 + seconds // 3,
        "keepalives_count": 3,
        "tcp_user_timeout": seconds * 1000,
    }
    return {name: value for name, value in wanted.items() if name not in given}


def _is_alive(connection: Connection) -> bool:
    """Return whether an idle connection is still connected, without a round trip."""
    try:
        _check_alive(connection)
    except psycopg.Error:
        return False
    return True


def _is_idle(connection: Connection) -> bool:
    return connection.info.transaction_status is TransactionStatus.IDLE


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
