"""Decision records in PostgreSQL, for many processes that write at once. Needs `demur[postgres]`.

The schema is that of SQLite in PostgreSQL's types, so SQL that people write works as they expect:
`created_at` is a timestamp, `reason_codes` an array.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from demur.errors import InputError
from demur.store.backend import Backend, Transaction
from demur.store.postgres_connections import (
    Connection,
    Durability,
    PostgresConnections,
    PostgresTransaction,
    begin_chains,
    run_migrations,
    schema_version,
)
from demur.store.postgres_reading import PostgresReading
from demur.store.rows import ApiKey, Checkpoint, ExperienceRow, Label, Snapshot, TallyRow


def _insert_statement(table: str, columns: Sequence[str]) -> str:
    places = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 - our own names


_KEPT_ONCE = "ON CONFLICT DO NOTHING"
_PLACE = ("created_at", "tenant", "seq", "record_hash")
_CHECKPOINT = f"{_insert_statement('checkpoints', _PLACE)} {_KEPT_ONCE}"
_SAVE_SNAPSHOT = f"{_insert_statement('snapshots', Snapshot._fields)} {_KEPT_ONCE}"
_SNAPSHOT = "SELECT digest, kind, text FROM snapshots WHERE digest = %s"
_EXPERIENCE = (
    f"{_insert_statement('experiences', ExperienceRow._fields)} ON CONFLICT (tenant, memory_id) DO UPDATE SET "
    + ", ".join(f"{name} = EXCLUDED.{name}" for name in ExperienceRow._fields)
)
_LABEL = _insert_statement("labels", Label._fields)
_EXPERIENCES = f"""
    SELECT {", ".join(ExperienceRow._fields)} FROM experiences
    WHERE tenant = %s AND (expires_at IS NULL OR expires_at > %s) ORDER BY memory_id
"""  # noqa: S608 - our own names
_VERSION = "SELECT version FROM memory_versions WHERE tenant = %s"
_BUMP_VERSION = """
    INSERT INTO memory_versions (tenant, version) VALUES (%s, 1)
    ON CONFLICT (tenant) DO UPDATE SET version = memory_versions.version + 1
"""
_FORGET = """
    DELETE FROM experiences WHERE tenant = %s AND (memory_id = ANY(%s) OR expires_at < %s::text)
"""
_LABELS = f"""
    SELECT {", ".join(Label._fields)} FROM labels
    WHERE decision_id = %s ORDER BY created_at, label_id
"""  # noqa: S608 - our own names


class PostgresMemory:
    """The part of the backend for snapshots, experiences, labels and checkpoints."""

    _connections: PostgresConnections

    def save_checkpoints(self, checkpoints: Collection[Checkpoint]) -> None:
        """Save where chains end."""
        rows = [(checkpoint.created_at, *checkpoint.head) for checkpoint in checkpoints]
        with self._connections.writer() as connection, connection.transaction():
            connection.cursor().executemany(_CHECKPOINT.encode(), rows)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a text under its digest; each text is saved once."""
        with self._connections.writer() as connection:
            connection.execute(_SAVE_SNAPSHOT.encode(), snapshot)

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the text under a digest."""
        with self._connections.reader() as connection:
            found = connection.execute(_SNAPSHOT, [digest]).fetchone()
        return None if found is None else Snapshot(*found)

    def add_experience(self, experience: ExperienceRow, label: Label) -> None:
        """Store an experience together with its label."""
        with self._connections.writer() as connection, connection.transaction():
            connection.execute(_EXPERIENCE.encode(), experience)
            connection.execute(_LABEL.encode(), label)
            bump_memory_version(connection, experience.tenant)

    def list_experiences(self, tenant: str, now: str) -> list[ExperienceRow]:
        """Return a tenant's experiences that have not expired, by memory id."""
        with self._connections.reader() as connection:
            found = connection.execute(_EXPERIENCES.encode(), [tenant, now])
            return [ExperienceRow(*row) for row in found]

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""
        with self._connections.reader() as connection:
            found = connection.execute(_VERSION, [tenant]).fetchone()
        return 0 if found is None else int(found[0])

    def forget_experiences(
        self, tenant: str, memory_ids: Collection[str] | None, before: str | None
    ) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""
        given = [tenant, list(memory_ids or ()), before]
        with self._connections.writer() as connection, connection.transaction():
            count = connection.execute(_FORGET, given).rowcount
            if count:
                bump_memory_version(connection, tenant)
        return count

    def add_label(self, label: Label) -> None:
        """Store a label."""
        with self._connections.writer() as connection:
            connection.execute(_LABEL.encode(), label)

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        with self._connections.reader() as connection:
            return [Label(*row) for row in connection.execute(_LABELS.encode(), [decision_id])]


def bump_memory_version(connection: Connection, tenant: str) -> None:
    """Note that a tenant's experiences changed."""
    connection.execute(_BUMP_VERSION, [tenant])


_STEP = 20_000
_PAGE = 500
_BEHIND = """
    SELECT tenant, head.seq FROM chain_heads AS head
    LEFT JOIN tally_marks AS mark USING (tenant) WHERE head.seq > COALESCE(mark.seq, 0)
"""
_BEGIN = "INSERT INTO tally_marks (tenant, seq) VALUES (%s, 0) ON CONFLICT DO NOTHING"
_MARK = "SELECT seq FROM tally_marks WHERE tenant = %s FOR UPDATE"
_SET_MARK = "UPDATE tally_marks SET seq = %s WHERE tenant = %s"
_ADD = """
    INSERT INTO tallies (tenant, kind, hour, first, second, third, count)
    SELECT tenant, '{kind}', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24'),
           {first}, {second}, {third}, count(*)
    FROM decision_records {joined}
    WHERE tenant = %(tenant)s AND seq > %(mark)s AND seq <= %(last)s
    GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, first, second, third)
    DO UPDATE SET count = tallies.count + EXCLUDED.count
"""
_COUNT_STATEMENTS = (
    _ADD.format(
        kind="decision",
        first="verdict",
        second="decision_output",
        third="COALESCE(refusal_class, '')",
        joined="",
    ),
    _ADD.format(
        kind="reason",
        first="code",
        second="verdict",
        third="''",
        joined=", unnest(reason_codes) AS code",
    ),
    _ADD.format(
        kind="finding",
        first="COALESCE(finding ->> 'surface', '')",
        second="finding ->> 'code'",
        third="COALESCE(finding ->> 'action', 'block')",
        joined=", json_array_elements(sealed -> 'findings') AS finding",
    ),
)
_TALLIES = """
    SELECT kind, hour, first, second, third, sum(count)::bigint FROM tallies
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
      AND hour >= %(first)s AND hour < %(beyond)s
    GROUP BY kind, hour, first, second, third ORDER BY hour, kind
"""
_KEY = ", ".join(ApiKey._fields)
_ADD_KEY = f"INSERT INTO api_keys ({_KEY}) VALUES ({', '.join(['%s'] * len(ApiKey._fields))})"  # noqa: S608 - our own names
_BY_DIGEST = f"SELECT {_KEY} FROM api_keys WHERE digest = %s"  # noqa: S608 - our own names
_KEYS = f"SELECT {_KEY} FROM api_keys ORDER BY created_at, key_id"  # noqa: S608 - our own names
_REVOKE = "UPDATE api_keys SET revoked_at = %s WHERE key_id = %s AND revoked_at IS NULL"
_LABELS_BY_KIND = f"""
    SELECT label_id, {", ".join(Label._fields)} FROM labels
    WHERE kind = %(kind)s AND value = ANY(%(values)s) AND created_at >= %(since)s
      AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
      AND (created_at, label_id) > (%(at)s, %(after)s)
    ORDER BY created_at, label_id LIMIT {_PAGE}
"""  # noqa: S608 - our own names


class PostgresTallies:
    """The part of the backend for tallies, API keys and labels by kind."""

    _connections: PostgresConnections

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""
        for name, head in self._fetch_tallies(_BEHIND, []):
            if tenant in {None, name}:
                while self._count_some(name, head):
                    pass

    def _count_some(self, tenant: str, head: int) -> bool:
        """Count a bounded number of records; return whether there are more up to `head`."""
        with self._connections.writer() as connection, connection.transaction():
            connection.execute(_BEGIN, [tenant])
            found = connection.execute(_MARK, [tenant]).fetchone()
            # Read the mark again under the lock: another process may have counted them.
            mark = 0 if found is None else int(found[0])
            last = min(mark + _STEP, head)
            if mark < last:
                given = {"tenant": tenant, "mark": mark, "last": last}
                for statement in _COUNT_STATEMENTS:
                    connection.execute(statement.encode(), given)
                connection.execute(_SET_MARK, [last, tenant])
        return last < head

    def read_tallies(self, tenant: str | None, first: str, beyond: str) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order."""
        asked = {"tenant": tenant, "first": first, "beyond": beyond}
        return [TallyRow(*row) for row in self._fetch_tallies(_TALLIES, asked)]

    def add_key(self, key: ApiKey) -> None:
        """Store an API key."""
        with self._connections.writer() as connection:
            connection.execute(_ADD_KEY.encode(), key)

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        rows = self._fetch_tallies(_BY_DIGEST, [digest])
        return ApiKey(*rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        return [ApiKey(*row) for row in self._fetch_tallies(_KEYS, [])]

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        with self._connections.writer() as connection:
            return connection.execute(_REVOKE, [now, key_id]).rowcount > 0

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""
        asked = {"tenant": tenant, "kind": kind, "values": list(values), "since": since}
        place = {"at": "", "after": 0}
        while rows := self._fetch_tallies(_LABELS_BY_KIND, {**asked, **place}):
            yield from (Label(*row[1:]) for row in rows)
            place = {"at": Label(*rows[-1][1:]).created_at, "after": rows[-1][0]}

    def _fetch_tallies(
        self, statement: str, given: list[Any] | dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(statement.encode(), given).fetchall()


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
