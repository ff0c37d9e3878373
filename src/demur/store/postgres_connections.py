"""Connections to PostgreSQL that wait neither for ever nor for a client that stopped.

There is one writing connection and a few reading ones; they reconnect after an outage. Every
database error becomes a `StorageError`. Addresses can hold passwords, so messages name the host
and the database, never the address.
"""

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ConnectionTimeout, InsufficientPrivilege, ProgramLimitExceeded
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from demur.store.backend import StorageError, UnansweredError, UnavailableError

Durability = Literal["full", "normal"]

_MAX_READERS = 4
_POOL_NAME = "demur"
# A client that is silent for this long inside a transaction loses its locks.
_MAX_SILENCE_S = 2.0
# The server's own limits pass first, because their errors say more.
_GRACE_S = 1.0
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
           set_config('lock_timeout', %(lock)s, false),
           set_config('idle_in_transaction_session_timeout', %(silence)s, false),
           set_config('tcp_keepalives_idle', %(seconds)s, false),
           set_config('tcp_keepalives_interval', '1', false),
           set_config('tcp_keepalives_count', '3', false),
           set_config('tcp_user_timeout', %(silence)s, false),
           CASE WHEN %(writes)s THEN set_config('statement_timeout', %(limit)s, false) END,
           CASE WHEN %(lazy)s THEN set_config('synchronous_commit', 'off', false)
                WHEN current_setting('synchronous_commit') = 'off'
                THEN set_config('synchronous_commit', 'on', false) END,
           pg_backend_pid(),
           (SELECT extract(epoch FROM backend_start)::text
            FROM pg_stat_get_activity(pg_backend_pid()))
"""
# Return those of the server's processes that are still there, and whether that is certain. A role
# that cannot see when a process began may take another process with its number for it.
_FIND_PROCESSES = """
    SELECT given.pid, began_at, began_at = extract(epoch FROM backend_start)::text
    FROM unnest(%s::integer[], %s::text[]) AS given (pid, began_at)
    JOIN pg_stat_activity AS activity
    ON given.pid = activity.pid
    AND coalesce(began_at = extract(epoch FROM backend_start)::text, true)
"""
_END_PROCESSES = "SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS given (pid)"


class _RawJsonLoader(Loader):
    """Returns JSON as stored, because the chain covers these bytes."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


_Steps = Generator[Any, Any, Any]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that stops waiting at `answer_by`; then it is closed.

    The server's own limits do not help against a server that hangs, or a network that drops
    everything.
    """

    answer_by: float | None = None
    process: "ServerProcess | None" = None

    def wait(self, gen: _Steps, *args: Any, **settings: Any) -> Any:
        """Run the steps of an operation, at most until `answer_by`."""
        if self.answer_by is None:
            return super().wait(gen, *args, **settings)
        try:
            return super().wait(_stop_at(gen, self.answer_by), *args, **settings)
        except LateAnswerError:
            self.pgconn.finish()
            raise


class ServerProcess(NamedTuple):
    """A process of the server; the time tells it from later ones with its number."""

    pid: int
    began_at: str | None


class LateAnswerError(psycopg.OperationalError):
    """The server did not answer in time."""


def _is_log_of_others(record: logging.LogRecord) -> bool:
    """Return whether a message of the driver is about a connection that is not demur's."""
    source = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return source != _POOL_NAME and not isinstance(getattr(source, "_conn", None), Connection)


# The driver logs each attempt of an outage; the gate logs its begin and its end.
for _name in ("psycopg", "psycopg.pool"):
    logging.getLogger(_name).addFilter(_is_log_of_others)


def _stop_at(steps: _Steps, end: float) -> _Steps:
    """Yield the steps of an operation as long as there is time; the driver looks every 0.1 s."""
    try:
        awaited = next(steps)
        while True:
            ready = yield awaited
            if monotonic() >= end:
                raise LateAnswerError("the server did not answer in time")
            awaited = steps.send(ready)
    except StopIteration as done:
        return done.value


class PostgresConnections:
    """The connections of one store. `place` names the database without its password.

    A connection does not survive a fork: the child leaves the parent's open and opens its own.
    `answer_s` bounds each use of the database by a decision, from connecting to the last answer.
    """

    def __init__(
        self, url: str, *, durability: Durability, timeout_s: float, deadline_s: float | None
    ) -> None:
        options = _read_address(url)
        self.place = f"{options.get('host', 'localhost')}/{options.get('dbname', '')}"
        self._lazy = durability == "normal"
        self.timeout_s = timeout_s
        self.answer_s = timeout_s if deadline_s is None else min(timeout_s, deadline_s)
        self.silence_s = min(timeout_s, _MAX_SILENCE_S)
        self._address = make_conninfo(url, **_default_options(options, self.answer_s))
        self._closed = False
        # Processes that may still carry out a statement whose client left.
        self._abandoned: list[ServerProcess] = []
        self._start_afresh()
        _LIVE.add(self)

    def _start_afresh(self) -> None:
        self._writing = Lock()
        self._writer: Connection | None = None
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self._address,
            name=_POOL_NAME,
            connection_class=Connection,
            min_size=0,
            max_size=_MAX_READERS,
            timeout=self.answer_s,
            reconnect_timeout=self.answer_s,
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
    def reader(self, *, bounded: bool = False) -> Iterator[Connection]:
        """Lend a connection for reading; `bounded` reads have to end within `answer_s`."""
        self._check_open()
        with self._translate_errors():
            end = monotonic() + self.answer_s
            self._pool.open()
            with self._pool.connection() as connection:
                connection.answer_by = end if bounded else None
                yield connection

    @contextmanager
    def writer(self, limit_s: float | None = None) -> Iterator[Connection]:
        """Lend the connection for writing to one thread at a time, for `limit_s` seconds."""
        with self._writing, self._translate_errors():
            self._check_open()
            end = None if limit_s is None else monotonic() + limit_s + _GRACE_S
            try:
                connection = self._living_writer(end)
                connection.answer_by = end
                self._end_abandoned(connection)
                yield connection
            finally:
                # An error may leave the transaction open; do not reuse it.
                writer, idle = self._writer, TransactionStatus.IDLE
                if writer is not None and writer.info.transaction_status is not idle:
                    if writer.process is not None:
                        self._abandoned.append(writer.process)
                    self._drop_writer()

    def _end_abandoned(self, writer: Connection) -> None:
        """Tell the server to end what it does for writers that did not wait for it."""
        if not self._abandoned:
            return
        columns = [list(column) for column in zip(*self._abandoned, strict=True)]
        # Without the right to see or end them, demur waits for their end and keeps its marks.
        with suppress(InsufficientPrivilege):
            found = writer.execute(_FIND_PROCESSES, columns).fetchall()
            self._abandoned = [ServerProcess(pid, began_at) for pid, began_at, _ in found]
            if known := [pid for pid, _, is_certain in found if is_certain]:
                writer.execute(_END_PROCESSES, [known])

    @property
    def has_abandoned_processes(self) -> bool:
        """Whether the server may still store something for a writer that gave up."""
        return bool(self._abandoned)

    def _living_writer(self, end: float | None) -> Connection:
        if self._writer is not None and not _is_alive(self._writer):
            self._drop_writer()
        if self._writer is None:
            writer = Connection.connect(self._address, autocommit=True)
            writer.answer_by = end
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
        if connection.answer_by is None:
            connection.answer_by = monotonic() + self.answer_s
        values = {
            "limit": milliseconds(self.timeout_s),
            "lock": milliseconds(self.answer_s),
            "silence": milliseconds(self.silence_s),
            "seconds": str(max(1, round(self.silence_s))),
            "lazy": self._lazy,
            "writes": writes,
        }
        *_, pid, began_at = connection.execute(_SET_SESSION, values).fetchone() or ()
        connection.process = ServerProcess(pid, began_at)

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
            problem = f"cannot use the database: {_first_line(error)}"
            late = isinstance(error, LateAnswerError | PoolTimeout | ConnectionTimeout)
            kind = UnansweredError if late else UnavailableError
            raise kind(problem, where=self.place) from error


def milliseconds(seconds: float) -> str:
    """Return a time as the server's settings write it."""
    return str(round(seconds * 1000))


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
