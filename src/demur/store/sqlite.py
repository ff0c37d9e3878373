"""Decision records in a SQLite file. Any number of processes may read and write it.

There is one writing connection, and any number of reading ones. A connection does not survive a
fork: the child leaves the parent's connections open and opens its own.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Self
from weakref import WeakSet

import msgspec

from demur.errors import InputError
from demur.store.backend import StorageError, UnavailableError, load_migrations, pending_migrations
from demur.store.rows import ChainHead, UnlinkedRow, genesis_head
from demur.store.sql import Backend, Dialect, Execute

MEMORY = ":memory:"
DATABASE_ERRORS = (sqlite3.Error, UnicodeError, OverflowError)

_MIGRATIONS = load_migrations("sqlite")
# Errors about one row; all others mean that the database cannot be used.
_OF_A_ROW = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
_HELP = {
    "SQLITE_BUSY": "another process has been writing for too long; `busy_timeout_s` sets the wait",
    "SQLITE_FULL": "free space on the disk; stored records are safe",
    "SQLITE_READONLY": "the file and its folder have to be writable",
    "SQLITE_CANTOPEN": "the folder has to exist and to be writable",
    "SQLITE_NOTADB": "name another file; this one is no SQLite database",
}
# A commit writes whole pages to the log, and a record touches many, so small pages cost less.
_PAGE_BYTES = 2048
_LOG_BYTES = 16 * 2**20
_PRAGMAS = (
    "foreign_keys = ON",
    # Erased and retired data must be gone from the file too.
    "secure_delete = ON",
    "cache_size = -32768",
    # Checkpoint rarely: each checkpoint waits for the disk.
    f"wal_autocheckpoint = {_LOG_BYTES // _PAGE_BYTES}",
)
_PAUSE_S = 0.01
_OWNER_ONLY = 0o600
_LOG_WAIT_MS = 1000


def storage_error(error: Exception, where: str) -> StorageError:
    """Return the `StorageError` for an error of the database."""
    if not isinstance(error, sqlite3.Error) or isinstance(error, _OF_A_ROW):
        return StorageError(f"the database refused this: {error}", where=where)
    name = getattr(error, "sqlite_errorname", "")
    help_ = next((text for start, text in _HELP.items() if name.startswith(start)), None)
    return UnavailableError(f"the database cannot be used: {error}", where=where, help=help_)


class SqliteConnections:
    """All connections to the database at `path`.

    Raises:
        StorageError: It cannot be opened, or is newer than this code.
    """

    def __init__(self, path: str, *, synchronous: str, busy_timeout_s: float) -> None:
        self.path = path
        self.synchronous = synchronous
        self._busy_timeout_s = busy_timeout_s
        self._closed = False
        self._writer: sqlite3.Connection | None = None
        self._free: list[sqlite3.Connection] = []
        self.lock = threading.RLock()
        self.writer()
        _LIVE.add(self)

    @property
    def in_memory(self) -> bool:
        """Whether there is no file, so one connection serves everything."""
        return self.path == MEMORY

    def writer(self) -> sqlite3.Connection:
        """Return the writing connection; the caller must hold `lock`."""
        if self._writer is None:
            self._check_open()
            with self._translate_errors():
                self._writer = self._open_writer()
        return self._writer

    def drop_writer(self) -> None:
        """Close a writer that is stuck in a transaction; the next use opens another."""
        connection, self._writer = self._writer, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to read with."""
        self._check_open()
        with self._translate_errors():
            if self.in_memory:
                with self.lock:
                    yield self.writer()
            else:
                with self._borrow_reader() as connection:
                    yield connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DATABASE_ERRORS as error:
            raise storage_error(error, self.path) from error

    @contextmanager
    def _borrow_reader(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._free.pop()
        except IndexError:
            connection = self._open_connection()
            connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            # Check after handing it back, so that a concurrent `close` misses none.
            self._free.append(connection)
            if self._closed:
                self._close_free()

    def empty_log(self) -> None:
        """Truncate the write-ahead log as far as readers allow: it may hold erased data."""
        with self.lock, self._translate_errors():
            writer = self.writer()
            writer.execute(f"PRAGMA busy_timeout = {_LOG_WAIT_MS}")
            try:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                writer.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")

    def close(self) -> None:
        """Close all connections; a borrowed one is closed when it is returned."""
        with self.lock:
            self._closed = True
            # Close readers first: the last connection removes the log.
            self._close_free()
            self.drop_writer()

    def _close_free(self) -> None:
        while self._free:
            with suppress(IndexError):
                self._free.pop().close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed", where=self.path)

    # -- opening ---------------------------------------------------------------------------

    def _open_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        # Invalid UTF-8 must not fail a read; an audit finds it.
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        return connection

    def _create_file(self) -> None:
        """Create the file of a new store, readable by its owner only.

        SQLite gives the log and its index the mode of the file.
        """
        if self.in_memory:
            return
        if os.path.isdir(self.path):  # noqa: PTH112 - never raises
            help_ = "name a file in it, like demur.db"
            problem = "the store cannot be opened: this is a folder"
            raise UnavailableError(problem, where=self.path, help=help_)
        # SQLite reports a file that cannot be created.
        with suppress(OSError, ValueError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))

    def _open_writer(self) -> sqlite3.Connection:
        self._create_file()
        connection = self._open_connection()
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            if not self.in_memory:
                self._switch_to_log(connection)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            self._run_migrations(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _switch_to_log(self, connection: sqlite3.Connection) -> None:
        """Turn on write-ahead logging; other processes may do the same at this moment."""
        # SQLite does not wait here, to avoid deadlocks, so retry.
        until = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                name = str(getattr(error, "sqlite_errorname", ""))
                if not name.startswith("SQLITE_BUSY") or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _run_migrations(self, connection: sqlite3.Connection) -> None:
        if not pending_migrations(_MIGRATIONS, _schema_version(connection), self.path):
            return
        connection.execute("BEGIN EXCLUSIVE")
        try:
            # Read the version again: another process may have migrated meanwhile.
            for step in pending_migrations(_MIGRATIONS, _schema_version(connection), self.path):
                for statement in _split_script(step.sql):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {step.version}")
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    # -- forking ---------------------------------------------------------------------------

    def _start_afresh(self) -> None:
        self.lock = threading.RLock()
        if self.in_memory:
            return
        _INHERITED.extend(self._free)
        if self._writer is not None:
            _INHERITED.append(self._writer)
        self._free = []
        self._writer = None


def _schema_version(connection: sqlite3.Connection) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _split_script(script: str) -> Iterator[str]:
    """Yield the statements of a script; a trigger is one statement."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_LIVE: WeakSet[SqliteConnections] = WeakSet()
# Connections of the parent, kept in a child because closing them would touch the file.
_INHERITED: list[sqlite3.Connection] = []


def _after_fork() -> None:
    for connections in list(_LIVE):
        connections._start_afresh()  # noqa: SLF001 - this module's own class


# Windows has neither forks nor this function.
getattr(os, "register_at_fork", dict)(after_in_child=_after_fork)


_SELECT_HEAD = "SELECT seq, record_hash FROM chain_heads WHERE tenant = ?"
_SELECT_EXISTING = "SELECT decision_id FROM decision_records WHERE tenant = ? AND request_id = ?"
_INSERT_COLUMNS = (*UnlinkedRow._fields, "seq", "previous_hash", "record_hash")
_INSERT_RECORD = (
    f"INSERT INTO decision_records ({', '.join(_INSERT_COLUMNS)}) "  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * len(_INSERT_COLUMNS))})"
)
_SET_HEAD = (
    "INSERT INTO chain_heads (tenant, seq, record_hash) VALUES (?, ?, ?) ON CONFLICT (tenant) "
    "DO UPDATE SET seq = excluded.seq, record_hash = excluded.record_hash"
)
_MARK_UNCONFIRMED = "UPDATE decision_records SET confirmed = 0 WHERE decision_id = ?"
_encode_json = msgspec.json.Encoder().encode


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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
            found = self.cursor.execute(_SELECT_HEAD, (tenant,)).fetchone()
            heads[tenant] = ChainHead(tenant, *found) if found else genesis_head(tenant)
        return heads

    def find_existing(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""
        found = ((key, self.cursor.execute(_SELECT_EXISTING, key).fetchone()) for key in keys)
        return {key: row[0] for key, row in found if row}

    def insert_rows(self, rows: Sequence[tuple[UnlinkedRow, ChainHead, str]]) -> None:
        """Insert rows, each with the head before it and its own hash."""
        self.cursor.executemany(_INSERT_RECORD, [_row_values(*row) for row in rows])

    def set_heads(self, heads: Collection[ChainHead]) -> None:
        """Move the heads."""
        for head in heads:
            self.cursor.execute(_SET_HEAD, head)

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> None:
        """Mark rows whose callers got an error because storing was not confirmed in time."""
        for decision_id in decision_ids:
            self.cursor.execute(_MARK_UNCONFIRMED, (decision_id,))


def _row_values(row: UnlinkedRow, head: ChainHead, own_hash: str) -> tuple[object, ...]:
    sealed = None if row.sealed is None else row.sealed.decode()
    digests, halves = (row.policy_digest, row.registry_digest), (row.record.decode(), sealed)
    codes = _encode_json(row.reason_codes).decode()
    return (*row[:12], codes, *digests, *halves, head.seq + 1, head.hash, own_hash)


Durability = Literal["full", "normal"]
_decode_code_list = msgspec.json.Decoder(tuple[str, ...]).decode


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
        code_value="code.value",
        code_rows=", json_each(reason_codes) AS code",
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
        mode, wait_s = durability.upper(), busy_timeout_s
        self._connections = SqliteConnections(path, synchronous=mode, busy_timeout_s=wait_s)

    def transaction(self) -> SqliteTransaction:
        """Return one atomic write."""
        return SqliteTransaction(self._connections)

    def _run_query(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _open_write(self) -> Iterator[Execute]:
        with SqliteTransaction(self._connections) as write:
            yield write.cursor.execute

    @staticmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        try:
            return _decode_code_list(value)
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
            "schema_version": self._run_query("PRAGMA user_version", {})[0][0],
            "durability": self._durability,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()
