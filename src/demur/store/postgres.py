"""Decision records in PostgreSQL, for many processes that write at once. Needs `demur[postgres]`.

The schema is that of SQLite in PostgreSQL's types, so SQL that people write works as they expect:
`created_at` is a timestamp, `reason_codes` an array.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from functools import lru_cache
from typing import Any

import psycopg

from demur.errors import InputError
from demur.store.backend import (
    EVENTS_VERSION,
    NO_APPROVALS,
    RESOLVE_APPROVAL,
    Dialect,
    Execute,
    StorageError,
    Transaction,
    load_migrations,
    pending_migrations,
)
from demur.store.grant_tables import GrantRow
from demur.store.postgres_connections import (
    Connection,
    Durability,
    PostgresConnections,
    milliseconds,
)
from demur.store.retention import adopt_let_go
from demur.store.rows import (
    GENESIS,
    ApprovalRow,
    ChainHead,
    ChainPlace,
    ResolvedApproval,
    UnlinkedRow,
    genesis_head,
)
from demur.store.search import SearchSource, SearchTerm
from demur.store.sql import Backend

_HAS_TRANSACTION_TIMEOUT = 170000
_STORE_ROWS = "CALL demur_store_rows(%s, %s, NULL)"
_APPEND_ROWS = "SELECT demur_append_rows(%s)"
# The server takes no statement beyond a gigabyte, and reads it more than once.
_MAX_ARRAY_LENGTH = 1 << 26
# Lock in a fixed order, so that two writers cannot deadlock.
_LOCK_HEADS = """
    SELECT tenant, seq, record_hash FROM chain_heads
    WHERE tenant = ANY(%s) ORDER BY tenant FOR UPDATE
"""
# One statement, so that no lock is held without a limit: the timer starts with the first lock.
_LOCK_HEADS_FOR = f"""
    WITH locked AS MATERIALIZED ({_LOCK_HEADS})
    SELECT tenant, seq, record_hash FROM locked
    WHERE set_config('transaction_timeout', %s, true) IS NOT NULL
""".encode()  # noqa: S608 - our own names
# As in `demur_store_rows`: heads are free before the disk has the log, and `_FLUSH` waits for it.
_LET_GO_EARLY = "SET LOCAL synchronous_commit = off"
_FLUSH = "SELECT pg_logical_emit_message(true, 'demur', '')"
_SELECT_EXISTING = """
    SELECT tenant, request_id, decision_id
    FROM decision_records JOIN unnest(%s::text[], %s::text[]) AS asked (tenant, request_id)
    USING (tenant, request_id)
"""
# Erasing may lock many records, for long and in another order: what is locked is marked later.
_MARK_UNCONFIRMED = """
    WITH free AS (
        SELECT decision_id FROM decision_records WHERE decision_id = ANY(%(ids)s)
        FOR UPDATE SKIP LOCKED
    ), marked AS (
        UPDATE decision_records SET confirmed = false FROM free
        WHERE decision_records.decision_id = free.decision_id RETURNING free.decision_id
    )
    SELECT decision_id, decision_id IN (SELECT decision_id FROM marked)
    FROM decision_records WHERE decision_id = ANY(%(ids)s)
"""
# Insert or touch each row in order: that locks it, and reads what others committed.
_LOCK_USES = """
    INSERT INTO grant_uses (digest, used)
    SELECT digest, 0 FROM unnest(%s::text[]) AS wanted (digest) ORDER BY digest
    ON CONFLICT (digest) DO UPDATE SET used = grant_uses.used RETURNING digest, used
"""
_SET_USED = "UPDATE grant_uses SET used = %s WHERE digest = %s"
_SAVE_GRANT = (
    f"INSERT INTO grants ({', '.join(GrantRow._fields)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join(['%s'] * len(GrantRow._fields))}) ON CONFLICT DO NOTHING"
).encode()
_INSERT_GENESIS = """
    INSERT INTO chain_heads (tenant, seq, record_hash)
    SELECT tenant, 0, %s FROM unnest(%s::text[]) AS new (tenant)
    ON CONFLICT DO NOTHING
"""


class PostgresTransaction:
    """A write of several statements in progress; leaving the `with` block commits it.

    `begin` creates heads for new tenants on another connection: a head created in this
    transaction would be a lock taken out of order. A client that stops while it holds locks loses
    them after `silence_s`. The server limits the whole transaction from 17 on. Older ones limit
    the wait for a client, and only after a Sync: so one follows each answer that is waited for.
    """

    def __init__(
        self,
        connection: Connection,
        pipeline: psycopg.Pipeline,
        begin: Callable[[Collection[str]], None],
        silence_s: float,
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._begin = begin
        self._silence_s = silence_s

    def lock_heads(self, tenants: Collection[str]) -> Mapping[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""
        self._begin(tenants)
        heads = {tenant: genesis_head(tenant) for tenant in tenants}
        self._connection.execute(_LET_GO_EARLY)
        if self._connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
            values: list[Any] = [list(tenants), milliseconds(self._silence_s)]
            found = self._connection.execute(_LOCK_HEADS_FOR, values)
        else:
            found = self._connection.execute(_LOCK_HEADS, [list(tenants)])
        self._pipeline.sync()
        return heads | {row[0]: ChainHead(*row) for row in found}

    def find_existing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""
        if not keys:
            return {}
        found = self._connection.execute(_SELECT_EXISTING, [*map(list, zip(*keys, strict=True))])
        self._pipeline.sync()
        return {(tenant, request_id): decision_id for tenant, request_id, decision_id in found}

    def append_rows(
        self, rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow] = NO_APPROVALS
    ) -> list[ChainPlace]:
        """Link each row to the end of its chain, in order, and return their places."""
        answers: list[str] = []
        for values in _format_rows(rows, opened):
            found = self._connection.execute(_APPEND_ROWS, [values])
            self._pipeline.sync()
            answers += _fetch_answers(found)
        return _read_places(rows, answers)

    def lock_uses(self, digests: Sequence[str]) -> Mapping[str, int]:
        """Return how often each grant was used, locked; the digests are sorted."""
        found = self._connection.execute(_LOCK_USES, [list(digests)])
        self._pipeline.sync()
        return {digest: int(used) for digest, used in found}

    def set_uses(self, uses: Mapping[str, int]) -> None:
        """Store how often grants were used."""
        rows = [(used, digest) for digest, used in uses.items()]
        self._connection.cursor().executemany(_SET_USED, rows)

    def save_grants(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Store signed grants, each once."""
        self._connection.cursor().executemany(_SAVE_GRANT, rows)

    def resolve_approvals(self, resolved: Sequence[ResolvedApproval]) -> None:
        """End the requests that a resolution answers, and link it."""
        values = [one._asdict() for one in resolved]
        self._connection.cursor().executemany(_to_psycopg(RESOLVE_APPROVAL), values)


def begin_chains(connection: Connection, tenants: Collection[str]) -> None:
    """Create the genesis head of each tenant that has none."""
    connection.execute(_INSERT_GENESIS, [GENESIS, sorted(tenants)])


def _format_rows(rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow]) -> list[str]:
    """Return arrays of rows for the functions of the schema; several if one would be too large."""
    pieces: list[list[str]] = []
    length = _MAX_ARRAY_LENGTH
    # The order in which all writers lock heads.
    for row in sorted(rows, key=lambda row: row.tenant):
        text = _format_row(row, opened)
        length += len(text)
        if length > _MAX_ARRAY_LENGTH:
            pieces.append([])
            length = len(text)
        pieces[-1].append(text)
    return [_format_array(piece, quote=False) for piece in pieces]


def _read_places(rows: Sequence[UnlinkedRow], answers: Sequence[str]) -> list[ChainPlace]:
    """Return the places of rows in their own order; the answers are in that of their tenants."""
    order = sorted(range(len(rows)), key=lambda number: rows[number].tenant)
    places = {
        number: _read_place(rows[number].tenant, answer)
        for number, answer in zip(order, answers, strict=True)
    }
    return [places[number] for number in range(len(rows))]


def _format_row(row: UnlinkedRow, opened: Mapping[str, ApprovalRow]) -> str:
    """Return the columns of a row, and of the approval that it opens, as an array of texts."""
    approval = opened.get(row.decision_id)
    *columns, amount, currency, codes, policy_digest, registry_digest, record, sealed = row
    values = (
        *columns,
        None if amount is None else repr(amount),
        currency,
        _format_array(codes),
        policy_digest,
        registry_digest,
        record.decode(),
        None if sealed is None else sealed.decode(),
        None if approval is None else _format_approval(approval),
    )
    return _format_array(values)


def _format_approval(row: ApprovalRow) -> str:
    values = row.to_columns().values()
    return _format_array([None if one is None else str(one) for one in values])


def _format_array(values: Iterable[str | None], *, quote: bool = True) -> str:
    """Return an array as PostgreSQL reads it; the elements of an outer one are not quoted."""
    texts = ("NULL" if one is None else _quote(one) if quote else one for one in values)
    return f"{{{','.join(texts)}}}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_place(tenant: str, answer: str) -> ChainPlace:
    """Return the place that an answer of `demur_append_rows` names."""
    if answer.startswith(" "):
        return ChainPlace(genesis_head(tenant), "", answer[1:])
    seq, previous, own_hash = answer.split(" ")
    return ChainPlace(ChainHead(tenant, int(seq) - 1, previous), own_hash)


def _fetch_answers(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Sequence[str]:
    """Return what the functions of the schema say about each row."""
    places: Sequence[str]
    [[places]] = cursor
    return places


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
    connection.answer_by = None
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        connection.execute(_LOCK_SCHEMA)
        # Another process may have migrated meanwhile. Create and read the table to see it: the
        # catalogue may still show the state before the wait.
        connection.execute(_ADD_META)
        for step in pending_migrations(_MIGRATIONS, _stored_version(connection), where):
            connection.execute(step.sql.encode())
            if step.version == EVENTS_VERSION:
                _adopt_let_go(connection)
            connection.execute(_SAVE_VERSION, [str(step.version)])


def _adopt_let_go(connection: Connection) -> None:
    found = connection.execute(f"SELECT {PostgresBackend.dialect.now}".encode()).fetchone()
    assert found is not None

    def execute(statement: str, values: Mapping[str, Any]) -> Any:
        return connection.execute(_to_psycopg(statement), values or None)

    adopt_let_go(execute, found[0])


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
        index_step=1000,
        halves="record, sealed",
        event="event",
        now="""to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
        tenant="tenant",
        has_code=":reason_code = ANY(reason_codes)",  # demur: allow dynamic-code - it is SQL
        has_subject="left(subject, 128) = left(:subject, 128) AND subject = :subject",
        hour="""to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')""",
        minute="""to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')""",
        code_value="code",
        code_rows=", unnest(reason_codes) AS code",
        excerpt="""CASE WHEN strpos(sealed::text, '"excerpt":{') > 0 THEN sealed::text END""",
        finding="finding",
        # PostgreSQL reads no JSON that holds an escaped NUL, and a request may hold one.
        findings=r""", json_array_elements(CASE
            WHEN strpos(CAST(sealed AS text), '\u0000') = 0 THEN sealed
            ELSE CAST(replace(CAST(sealed AS text), '\u0000', '\ufffd') AS json)
            END -> 'findings') AS finding""",
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
        connections = self._connections
        with connections.writer(connections.answer_s) as writer, writer.pipeline() as pipeline:
            with writer.transaction():
                silence_s = connections.silence_s
                yield PostgresTransaction(writer, pipeline, self._begin_chains, silence_s)
            if self._durability == "full":
                writer.execute(_FLUSH)

    def append_rows(
        self, rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow] = NO_APPROVALS
    ) -> list[ChainPlace]:
        """Store rows in one statement, each at the end of its chain, and return their places."""
        arrays = _format_rows(rows, opened)
        if len(arrays) != 1:
            with self.transaction() as write:
                # `lock_heads` also sets the time limit of the transaction.
                write.lock_heads({row.tenant for row in rows})
                return write.append_rows(rows, opened)
        connections = self._connections
        with connections.writer(connections.answer_s) as writer:
            found = writer.execute(_STORE_ROWS, [*arrays, self._durability == "full"])
            return _read_places(rows, _fetch_answers(found))

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> list[str]:
        """Mark records as unconfirmed, and return the ids to mark again later."""
        connections = self._connections
        with connections.writer(connections.answer_s) as writer:
            # Ask first: what was stored before the last of those processes ended can be seen below.
            is_final = not connections.has_abandoned_processes
            found = dict(writer.execute(_MARK_UNCONFIRMED, {"ids": list(decision_ids)}))
        return [one for one in decision_ids if not found.get(one, is_final)]

    def _begin_chains(self, tenants: Collection[str]) -> None:
        fresh = set(tenants) - self._begun
        if fresh:
            with self._connections.reader(bounded=True) as connection:
                begin_chains(connection, fresh)
            self._begun |= fresh

    def _run_query(
        self, statement: str, values: Mapping[str, Any], *, bounded: bool = False
    ) -> list[tuple[Any, ...]]:
        with self._connections.reader(bounded=bounded) as connection:
            return connection.execute(_to_psycopg(statement), values or None).fetchall()

    @contextmanager
    def _open_write(self) -> Iterator[Execute]:
        connections = self._connections
        with connections.writer(connections.timeout_s) as connection, connection.transaction():

            def execute(statement: str, values: Mapping[str, Any]) -> Any:
                if statement == self.dialect.begin_erase:
                    connection.answer_by = None
                return connection.execute(_to_psycopg(statement), values or None)

            yield execute

    def wait_for_disk(self) -> None:
        """Wait until the disk has everything that can be read now."""
        if self._durability == "full":
            self._run_query(_FLUSH, {}, bounded=True)

    def search_source(self, terms: Sequence[SearchTerm]) -> SearchSource:
        """Return where the entries with these terms are."""
        parts = (f"'{one.term}'{':*' if one.is_prefix else ''}" for one in terms)
        match = "array_to_tsvector(string_to_array(words, ' ')) @@ CAST(:terms AS tsquery)"
        values = {"terms": " & ".join(parts)}
        return SearchSource(f"FROM search_entries WHERE {match}", "entry_id", values)

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
        with self._connections.reader(bounded=True) as connection:
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
    deadline_s: float | None = None,
    **_: Any,
) -> Backend:
    """Return the store in a PostgreSQL database, with its schema brought up to date.

    `timeout_s` (or `busy_timeout_s`, its name for all stores) bounds each statement that writes.
    `deadline_s`, or else `timeout_s`, bounds each wait for a lock, each attempt to connect, and
    each read of a decision. With durability `full` a write returns when
    the server has it on disk; `normal` may lose the last writes if the server crashes, and never
    breaks a chain.

    Raises:
        StorageError: The database cannot be used, or is newer than this code.
    """
    if durability not in {"full", "normal"}:
        raise InputError(f"durability is `full` or `normal`, not `{durability}`")
    limit_s = busy_timeout_s or timeout_s
    connections = PostgresConnections(
        url, durability=durability, timeout_s=limit_s, deadline_s=deadline_s
    )
    try:
        with connections.writer(connections.answer_s) as connection:
            run_migrations(connection, connections.place)
    except BaseException:
        connections.close()
        raise
    return PostgresBackend(connections, durability)
