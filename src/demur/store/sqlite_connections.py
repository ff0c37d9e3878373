"""Connections to a SQLite file that is still where it was opened.

There is one writing connection, and any number of reading ones. A connection does not survive a
fork: the child leaves the parent's connections open and opens its own.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from demur.store.backend import StorageError, UnavailableError
from demur.store.rows import ChainHead
from demur.store.spool import create_private_file

MEMORY = ":memory:"
# "demu", at its place in the head of every file that demur creates.
APPLICATION_ID = 0x64656D75
DATABASE_ERRORS = (sqlite3.Error, UnicodeError, OverflowError)

# Errors about one row; all others mean that the database cannot be used.
_OF_A_ROW = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
_HELP = {
    "SQLITE_BUSY": "another process has been writing for too long; `busy_timeout_s` sets the wait",
    "SQLITE_FULL": "free space on the disk; stored records are safe",
    "SQLITE_IOERR": "check the disk, its free space and limits of file sizes",
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
_LOG_WAIT_MS = 1000
_MAX_NAMED_TABLES = 3
_SELECT_TABLES = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name
"""
_SELECT_NEWEST = """
    SELECT tenant, seq, record_hash FROM decision_records ORDER BY decision_id DESC LIMIT 1
"""
_HOLDS_RECORD = """
    SELECT EXISTS (SELECT 1 FROM decision_records
                   WHERE tenant = :tenant AND seq = :seq AND record_hash = :hash)
        OR EXISTS (SELECT 1 FROM chain_heads
                   WHERE tenant = :tenant AND seq = :seq AND record_hash = :hash)
"""


_CREATE_INDEX = """
    CREATE VIRTUAL TABLE search_index USING fts5 (
        words, content = 'search_entries', content_rowid = 'entry_id', tokenize = 'ascii',
        detail = none, columnsize = 0
    )
"""
_SELECT_SEARCH_TABLES = """
    SELECT name FROM sqlite_master WHERE name IN ('search_entries', 'search_index')
"""
_MERGE_INDEX = "INSERT INTO search_index (search_index, rank) VALUES ('merge', ?)"
_MERGED_PAGES = 500
# A step that changes less has found nothing to merge.
_MIN_MERGE_CHANGES = 2


def storage_error(error: Exception, where: str) -> StorageError:
    """Return the `StorageError` for an error of the database."""
    if not isinstance(error, sqlite3.Error) or isinstance(error, _OF_A_ROW):
        return StorageError(f"the database refused this: {error}", where=where)
    name = getattr(error, "sqlite_errorname", "")
    help_ = next((text for start, text in _HELP.items() if name.startswith(start)), None)
    return UnavailableError(f"cannot use the database: {error}", where=where, help=help_)


def _create_index(connection: sqlite3.Connection) -> bool:
    """Create the index of words if it is missing; return False if this SQLite has no FTS5."""
    tables = _list_search_tables(connection)
    if "search_entries" not in tables:
        return False
    try:
        if "search_index" in tables:
            connection.execute("SELECT 1 FROM search_index LIMIT 0")
            return True
        connection.execute("BEGIN IMMEDIATE")
        # Look again: another process may have created it meanwhile.
        if "search_index" not in _list_search_tables(connection):
            connection.execute(_CREATE_INDEX)
            connection.execute("INSERT INTO search_index (search_index) VALUES ('rebuild')")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if "no such module" not in str(error):
            raise
        return False
    return True


def _list_search_tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute(_SELECT_SEARCH_TABLES)}


class SqliteConnections:
    """All connections to the database at `path`; `migrate` brings its schema up to date.

    A file that was removed or replaced while it was open still takes writes, but nobody would find
    them. So a commit is confirmed only if the file is where it was. A file that is put in its place
    is opened if it holds the last record that was stored here.

    Raises:
        StorageError: It cannot be opened, is not a store, or is newer than this code.
    """

    def __init__(
        self,
        path: str,
        *,
        synchronous: str,
        busy_timeout_s: float,
        migrate: Callable[[sqlite3.Connection, str], None],
    ) -> None:
        self.path = path
        self.synchronous = synchronous
        self._file = path if path == MEMORY else _absolute_path(path)
        self._busy_timeout_s = busy_timeout_s
        self._migrate = migrate
        # The database by its own path, so that a link that changed is seen.
        self._paths: tuple[str, ...] = (self._file,)
        self._identity: _Identity | None = None
        self._newest: ChainHead | None = None
        self._closed = False
        # Whether this SQLite has FTS5, and so there is an index of words.
        self.has_index = False
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
        # Look at the database alone, because this costs time; a commit looks at all files.
        if self._has_moved(files=1):
            self._leave_file()
        if self._writer is None:
            self._check_open()
            with self._translate_errors():
                self._writer = self._open_writer()
        return self._writer

    def confirm_commit(self, newest: ChainHead | None) -> None:
        """Check that a commit went into the file at `path`, and note its last record.

        Raises:
            UnavailableError: The file was removed or replaced.
        """
        # INVARIANT: a record is acknowledged only if it is in the file at the store's path.
        if self._has_moved():
            self._leave_file()
            raise self._removed_error()
        self._newest = newest or self._newest

    def check_file(self) -> None:
        """Check that the store can be written where it was opened.

        Raises:
            StorageError: The file was removed or replaced, and is not back.
        """
        with self.lock:
            if self._has_moved():
                self._leave_file()
            self.writer()

    def _has_moved(self, *, files: int = 3) -> bool:
        if self._writer is None or self._identity is None:
            return False
        return _identify_files(self._paths[:files]) != self._identity[:files]

    def _leave_file(self) -> None:
        """Close all connections to a file that is no longer at its path."""
        free, self._free = self._free, []
        _close_all(free)
        self.drop_writer()

    def _removed_error(self) -> UnavailableError:
        return UnavailableError(
            "somebody removed or replaced the file of the store while it was open",
            where=self.path,
            help="put it back; demur then goes on. Or restart demur, which begins a new store",
        )

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
        free = self._free
        try:
            connection = free.pop()
        except IndexError:
            connection = self._open_connection()
            connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            # Check after handing it back, so that a concurrent `close` misses none.
            free.append(connection)
            if self._closed or free is not self._free:
                _close_all(free)

    def empty_log(self) -> None:
        """Truncate the write-ahead log as far as readers allow: it may hold erased data."""
        with self.lock, self._translate_errors():
            writer = self.writer()
            writer.execute(f"PRAGMA busy_timeout = {_LOG_WAIT_MS}")
            try:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                writer.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")

    def merge_index(self) -> None:
        """Merge the index of words step by step: what was taken out of it is gone only then."""
        if not self.has_index:
            return
        with self.lock, self._translate_errors():
            writer = self.writer()
            # A negative number starts the merge of everything.
            pages, changed = -_MERGED_PAGES, _MIN_MERGE_CHANGES
            while changed >= _MIN_MERGE_CHANGES:
                before = writer.total_changes
                writer.execute(_MERGE_INDEX, (pages,))
                pages, changed = _MERGED_PAGES, writer.total_changes - before

    def close(self) -> None:
        """Close all connections; a borrowed one is closed when it is returned."""
        with self.lock:
            self._closed = True
            # Close readers first: the last connection removes the log.
            _close_all(self._free)
            self.drop_writer()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed", where=self.path)

    # -- opening ---------------------------------------------------------------------------

    def _open_connection(self) -> sqlite3.Connection:
        # SQLite itself must not create a file: a reader would bring an empty one.
        address = self._file if self.in_memory else f"{Path(self._file).as_uri()}?mode=rw"
        connection = sqlite3.connect(
            address,
            timeout=self._busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            uri=not self.in_memory,
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
            create_private_file(self._file)

    def _open_writer(self) -> sqlite3.Connection:
        if self._identity is None:
            self._create_file()
        found = _identify_files((self._file,))
        if self._identity is not None and found[0] is None:
            raise self._removed_error()
        connection = self._open_connection()
        try:
            self._check_owner(connection)
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            if not self.in_memory:
                self._switch_to_log(connection)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            self._migrate(connection, self.path)
            self.has_index = _create_index(connection)
            self._newest = self._newest or _newest_record(connection)
        except BaseException:
            connection.close()
            raise
        if not self.in_memory:
            real = os.path.realpath(self._file)
            self._paths = (self._file, f"{real}-wal", f"{real}-shm")
            self._identity = _identify_files(self._paths)
            if self._identity[0] != found[0]:
                connection.close()
                raise self._removed_error()
        return connection

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        """Check that a file is empty, or the store that was open before.

        Raises:
            StorageError: It is the file of another program, or lacks records.
        """
        tables = [name for (name,) in connection.execute(_SELECT_TABLES)]
        [owner] = connection.execute("PRAGMA application_id").fetchone()
        if owner not in {0, APPLICATION_ID} or (tables and "decision_records" not in tables):
            named = ", ".join(f"`{name}`" for name in tables[:_MAX_NAMED_TABLES])
            more = "" if len(tables) <= _MAX_NAMED_TABLES else " and others"
            content = f": it has the tables {named}{more}" if tables else ""
            problem = f"this SQLite file belongs to another program{content}"
            help_ = "name a file that does not exist yet, like demur.db"
            raise StorageError(problem, where=self.path, help=help_)
        if self._newest is not None and not (tables and _holds_record(connection, self._newest)):
            problem = "the file of the store was replaced by one without the newest records"
            help_ = "put it back; demur then goes on. Or restart demur to go on with the other file"
            raise UnavailableError(problem, where=self.path, help=help_)

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


_Identity = tuple[tuple[int, int] | None, ...]


def _absolute_path(path: str) -> str:
    """Return a path that stays the same if the working directory changes."""
    # Without a working directory, or with a null byte in the path, SQLite says what is wrong.
    with suppress(OSError, ValueError):
        return os.path.abspath(path)  # noqa: PTH100 - links have to stay
    return path


def _identify_files(paths: tuple[str, ...]) -> _Identity:
    """Return device and inode of each file; None for a file that does not exist."""
    return tuple(map(_identify_file, paths))


def _identify_file(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)  # noqa: PTH116 - called for every commit
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def _newest_record(connection: sqlite3.Connection) -> ChainHead | None:
    row = connection.execute(_SELECT_NEWEST).fetchone()
    return ChainHead(*row) if row else None


def _holds_record(connection: sqlite3.Connection, head: ChainHead) -> bool:
    return bool(connection.execute(_HOLDS_RECORD, head._asdict()).fetchone()[0])


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        with suppress(IndexError):
            connections.pop().close()


_LIVE: WeakSet[SqliteConnections] = WeakSet()
# Connections of the parent, kept in a child because closing them would touch the file.
_INHERITED: list[sqlite3.Connection] = []


def _after_fork() -> None:
    for connections in list(_LIVE):
        connections._start_afresh()  # noqa: SLF001 - this module's own class


# Windows has neither forks nor this function.
getattr(os, "register_at_fork", dict)(after_in_child=_after_fork)
