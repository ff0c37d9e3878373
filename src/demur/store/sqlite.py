"""Decision records in a SQLite file. Any number of processes may read and write it."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Self

import msgspec

from demur.errors import InputError
from demur.store.backend import (
    EVENTS_VERSION,
    NO_APPROVALS,
    RESOLVE_APPROVAL,
    SAVE_APPROVAL,
    Dialect,
    Execute,
    load_migrations,
    pending_migrations,
)
from demur.store.grant_tables import GrantRow
from demur.store.retention import adopt_let_go
from demur.store.rows import (
    ApprovalRow,
    ChainHead,
    ChainPlace,
    ResolvedApproval,
    UnlinkedRow,
    genesis_head,
    link_hash,
)
from demur.store.search import SearchSource, SearchTerm
from demur.store.sql import Backend
from demur.store.sqlite_connections import (
    APPLICATION_ID,
    DATABASE_ERRORS,
    SqliteConnections,
    storage_error,
)

_MIGRATIONS = load_migrations("sqlite")


def run_migrations(connection: sqlite3.Connection, where: str) -> None:
    """Apply the migrations that the database lacks.

    Raises:
        StorageError: The database is newer than this code.
    """
    if not pending_migrations(_MIGRATIONS, _schema_version(connection), where):
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        # Read the version again: another process may have migrated meanwhile.
        for step in pending_migrations(_MIGRATIONS, _schema_version(connection), where):
            for statement in _split_script(step.sql):
                connection.execute(statement)
            if step.version == EVENTS_VERSION:
                [now] = connection.execute(f"SELECT {SqliteBackend.dialect.now}").fetchone()
                adopt_let_go(connection.execute, now)
            connection.execute(f"PRAGMA user_version = {step.version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


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
_SELECT_USED = "SELECT used FROM grant_uses WHERE digest = ?"
_SET_USED = (
    "INSERT INTO grant_uses (digest, used) VALUES (?, ?) "
    "ON CONFLICT (digest) DO UPDATE SET used = excluded.used"
)
_SAVE_GRANT = (
    f"INSERT INTO grants ({', '.join(GrantRow._fields)}) "  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * len(GrantRow._fields))}) ON CONFLICT DO NOTHING"
)
_ADD_WORDS = "INSERT INTO search_index (rowid, words) VALUES (:entry_id, :words)"
_DELETE_WORDS = """
    INSERT INTO search_index (search_index, rowid, words)
    SELECT 'delete', entry_id, words FROM search_entries
"""
_NO_INDEX = "words without an index: this SQLite has no FTS5"
_encode_json = msgspec.json.Encoder().encode


class SqliteTransaction:
    """Begins on entry; commits on exit, or rolls back on an error."""

    __slots__ = ("_connections", "_newest", "cursor")

    cursor: sqlite3.Cursor

    def __init__(self, connections: SqliteConnections) -> None:
        self._connections = connections
        self._newest: ChainHead | None = None

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
            self._connections.confirm_commit(self._newest)
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

    def append_rows(
        self, rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow] = NO_APPROVALS
    ) -> list[ChainPlace]:
        """Link each row to the end of its chain, in order, and return their places."""
        heads = self.lock_heads({row.tenant for row in rows})
        known = self.find_existing(
            {(row.tenant, row.request_id) for row in rows if row.request_id is not None}
        )
        places: list[ChainPlace] = []
        fresh: list[tuple[UnlinkedRow, ChainHead, str]] = []
        for row in rows:
            first = None if row.request_id is None else known.get((row.tenant, row.request_id))
            if first is not None:
                places.append(ChainPlace(genesis_head(row.tenant), "", first))
                continue
            # INVARIANT: each record follows the one stored before it for its tenant.
            head = heads[row.tenant]
            own_hash = link_hash(head, row.decision_id, row.record)
            heads[row.tenant] = ChainHead(row.tenant, head.seq + 1, own_hash)
            fresh.append((row, head, own_hash))
            places.append(ChainPlace(head, own_hash))
            if row.request_id is not None:
                known[row.tenant, row.request_id] = row.decision_id
        self.cursor.executemany(_INSERT_RECORD, [_row_values(*one) for one in fresh])
        for tenant in {row.tenant for row, _, _ in fresh}:
            self._newest = heads[tenant]
            self.cursor.execute(_SET_HEAD, self._newest)
        begun = [opened[row.decision_id] for row, _, _ in fresh if row.decision_id in opened]
        if begun:
            self.cursor.executemany(SAVE_APPROVAL, [one.to_columns() for one in begun])
        return places

    def lock_uses(self, digests: Sequence[str]) -> dict[str, int]:
        """Return how often each grant was used, locked; the digests are sorted."""
        found = ((one, self.cursor.execute(_SELECT_USED, (one,)).fetchone()) for one in digests)
        return {digest: row[0] if row else 0 for digest, row in found}

    def set_uses(self, uses: Mapping[str, int]) -> None:
        """Store how often grants were used."""
        self.cursor.executemany(_SET_USED, uses.items())

    def save_grants(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Store signed grants, each once."""
        self.cursor.executemany(_SAVE_GRANT, rows)

    def resolve_approvals(self, resolved: Sequence[ResolvedApproval]) -> None:
        """End the requests that a resolution answers, and link it."""
        self.cursor.executemany(RESOLVE_APPROVAL, [one._asdict() for one in resolved])


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
        index_step=500,
        halves="CAST(record AS BLOB), CAST(sealed AS BLOB)",
        event="CAST(event AS BLOB)",
        now="strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
        # The plus keeps SQLite from using the tenant index, which is not selective enough.
        tenant="+tenant",
        has_code="EXISTS (SELECT 1 FROM json_each(reason_codes) WHERE value = :reason_code)",
        has_subject="subject = :subject",
        hour="substr(created_at, 1, 13)",
        minute="substr(created_at, 1, 16)",
        code_value="code.value",
        code_rows=", json_each(reason_codes) AS code",
        excerpt="""CASE WHEN instr(sealed, '"excerpt":{') > 0 THEN CAST(sealed AS BLOB) END""",
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
        self._connections = SqliteConnections(
            path, synchronous=mode, busy_timeout_s=wait_s, migrate=run_migrations
        )

    def transaction(self) -> SqliteTransaction:
        """Return one atomic write."""
        return SqliteTransaction(self._connections)

    def _run_query(
        self, statement: str, values: Mapping[str, Any], *, bounded: bool = False
    ) -> list[tuple[Any, ...]]:
        del bounded  # readers wait for nobody
        with self._connections.reader() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _open_write(self) -> Iterator[Execute]:
        with SqliteTransaction(self._connections) as write:
            yield write.cursor.execute

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> list[str]:
        """Mark the records of these ids as unconfirmed; none is left to be marked later."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.executemany(_MARK_UNCONFIRMED, [(one,) for one in decision_ids])
        return []

    def search_source(self, terms: Sequence[SearchTerm]) -> SearchSource:
        """Return where the entries with these terms are."""
        if self._connections.has_index:
            parts = (f'"{one.term}"{" *" if one.is_prefix else ""}' for one in terms)
            tables = "FROM search_index JOIN search_entries ON entry_id = search_index.rowid"
            source = f"{tables} WHERE search_index MATCH :terms"
            return SearchSource(source, "search_index.rowid", {"terms": " AND ".join(parts)})
        ends = ("%" if one.is_prefix else " %" for one in terms)
        patterns = (f"% {one.term}{end}" for one, end in zip(terms, ends, strict=True))
        values = {f"term_{number}": pattern for number, pattern in enumerate(patterns)}
        tests = " AND ".join(f"' ' || words || ' ' LIKE :{name}" for name in values)
        return SearchSource(f"FROM search_entries WHERE {tests}", "entry_id", values)

    def _index_entries(self, execute: Execute, entries: Collection[tuple[int, str]]) -> None:
        if self._connections.has_index:
            for entry_id, words in entries:
                execute(_ADD_WORDS, {"entry_id": entry_id, "words": words})

    def _unindex_entries(self, execute: Execute, where: str, values: Mapping[str, Any]) -> None:
        if self._connections.has_index:
            execute(f"{_DELETE_WORDS} WHERE {where}", values)

    @staticmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        try:
            return _decode_code_list(value)
        except (msgspec.MsgspecError, UnicodeError):
            # An audit has to see it: no record has such a code.
            return (value,)

    def _forget_deleted(self) -> None:
        self._connections.merge_index()
        self._connections.empty_log()

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        # A file that was removed is not healthy, though it can still be read.
        self._connections.check_file()
        return {
            "kind": "sqlite",
            "place": self._connections.path,
            "schema_version": self._run_query("PRAGMA user_version", {})[0][0],
            "durability": self._durability,
            "sqlite_version": sqlite3.sqlite_version,
            "search": "index" if self._connections.has_index else _NO_INDEX,
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()
