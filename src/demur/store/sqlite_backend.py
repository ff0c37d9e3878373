"""Decision records in a SQLite file. Any number of processes may read and write it."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from demur.errors import InputError
from demur.store.rows import ApiKey, Checkpoint, ExperienceRow, Label, Snapshot, TallyRow
from demur.store.sqlite_connections import SqliteConnections, SqliteTransaction
from demur.store.sqlite_reading import SqliteReading

# ruff: noqa: S608 - statements are built from our own names; values are bound


NEXT_VERSION = """
    INSERT INTO memory_versions (tenant, version) VALUES (?, 1)
    ON CONFLICT (tenant) DO UPDATE SET version = version + 1
"""


def _insert_statement(verb: str, table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})"


_SAVE_SNAPSHOT = _insert_statement("INSERT OR IGNORE", "snapshots", Snapshot._fields)
_SAVE_EXPERIENCE = _insert_statement("INSERT OR REPLACE", "experiences", ExperienceRow._fields)
_SAVE_LABEL = _insert_statement("INSERT", "labels", Label._fields)
_PLACE = ("tenant", "seq", "record_hash", "created_at")
_SAVE_CHECKPOINT = _insert_statement("INSERT OR IGNORE", "checkpoints", _PLACE)
_EXPERIENCES = f"SELECT {', '.join(ExperienceRow._fields)} FROM experiences"
_LABELS_OF = f"SELECT {', '.join(Label._fields)} FROM labels"


class SqliteMemory:
    """The part of the backend for snapshots, experiences, labels and checkpoints."""

    _connections: SqliteConnections

    def save_checkpoints(self, checkpoints: Collection[Checkpoint]) -> None:
        """Save where chains end."""
        rows = [(*checkpoint.head, checkpoint.created_at) for checkpoint in checkpoints]
        with SqliteTransaction(self._connections) as write:
            write.cursor.executemany(_SAVE_CHECKPOINT, rows)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a text under its digest; each text is saved once."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.execute(_SAVE_SNAPSHOT, snapshot)

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the text under a digest."""
        rows = self._fetch_memory(
            "SELECT digest, kind, text FROM snapshots WHERE digest = ?", digest
        )
        return Snapshot(*rows[0]) if rows else None

    def add_experience(self, experience: ExperienceRow, label: Label) -> None:
        """Store an experience together with its label."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.execute(_SAVE_EXPERIENCE, experience)
            write.cursor.execute(_SAVE_LABEL, label)
            write.cursor.execute(NEXT_VERSION, (experience.tenant,))

    def list_experiences(self, tenant: str, now: str) -> list[ExperienceRow]:
        """Return a tenant's experiences that have not expired, by memory id."""
        alive = "tenant = ? AND (expires_at IS NULL OR expires_at > ?)"
        rows = self._fetch_memory(f"{_EXPERIENCES} WHERE {alive} ORDER BY memory_id", tenant, now)
        return [ExperienceRow(*row) for row in rows]

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""
        rows = self._fetch_memory("SELECT version FROM memory_versions WHERE tenant = ?", tenant)
        return int(rows[0][0]) if rows else 0

    def forget_experiences(
        self, tenant: str, memory_ids: Collection[str] | None, before: str | None
    ) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""
        query = "DELETE FROM experiences WHERE tenant = ? AND"
        gone = 0
        with SqliteTransaction(self._connections) as write:
            for memory_id in memory_ids or ():
                found = write.cursor.execute(f"{query} memory_id = ?", (tenant, memory_id))
                gone += found.rowcount
            if before is not None:
                gone += write.cursor.execute(f"{query} expires_at < ?", (tenant, before)).rowcount
            if gone:
                write.cursor.execute(NEXT_VERSION, (tenant,))
        return gone

    def add_label(self, label: Label) -> None:
        """Store a label."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.execute(_SAVE_LABEL, label)

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        query = f"{_LABELS_OF} WHERE decision_id = ? ORDER BY created_at, label_id"
        return [Label(*row) for row in self._fetch_memory(query, decision_id)]

    def _fetch_memory(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(query, values).fetchall()


# ruff: noqa: S608 - statements are built from our own names; values are bound


# Decisions wait while a step is counted, so steps are short.
_STEP = 5000
_PAGE = 500
_BEHIND = """
    SELECT tenant, head.seq FROM chain_heads AS head
    LEFT JOIN tally_marks AS mark USING (tenant) WHERE head.seq > COALESCE(mark.seq, 0)
"""
_MARK = "SELECT seq FROM tally_marks WHERE tenant = ?"
_SET_MARK = """
    INSERT INTO tally_marks (tenant, seq) VALUES (?, ?)
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq
"""
_UNCOUNTED = "tenant = ? AND seq > ? AND seq <= ?"
_ADD = """
    INSERT INTO tallies (tenant, kind, hour, first, second, third, count)
    SELECT tenant, '{kind}', substr(created_at, 1, 13) AS hour,
           {first} AS first, {second} AS second, {third} AS third, COUNT(*)
    FROM decision_records {joined} WHERE {theirs} GROUP BY tenant, hour, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, first, second, third)
    DO UPDATE SET count = count + excluded.count
"""
_COUNT_STATEMENTS = (
    _ADD.format(
        kind="decision",
        first="verdict",
        second="decision_output",
        third="COALESCE(refusal_class, '')",
        joined="",
        theirs=_UNCOUNTED,
    ),
    _ADD.format(
        kind="reason",
        first="code.value",
        second="verdict",
        third="''",
        joined=", json_each(reason_codes) AS code",
        theirs=_UNCOUNTED,
    ),
    _ADD.format(
        kind="finding",
        first="COALESCE(finding.value ->> 'surface', '')",
        second="finding.value ->> 'code'",
        third="COALESCE(finding.value ->> 'action', 'block')",
        joined=", json_each(sealed, '$.findings') AS finding",
        theirs=f"{_UNCOUNTED} AND sealed IS NOT NULL",
    ),
)
_TALLIES = "SELECT kind, hour, first, second, third, {count} FROM tallies WHERE"
_KEY = ", ".join(ApiKey._fields)
_ADD_KEY = f"INSERT INTO api_keys ({_KEY}) VALUES ({', '.join('?' * len(ApiKey._fields))})"
_REVOKE = "UPDATE api_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL"
_LABELS_BY_KIND = f"SELECT label_id, {', '.join(Label._fields)} FROM labels WHERE"


class SqliteTallies:
    """The part of the backend for tallies, API keys and labels by kind."""

    _connections: SqliteConnections

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""
        for name, head in self._fetch_tallies(_BEHIND):
            if tenant in {None, name}:
                while self._count_some(name, head):
                    pass

    def _count_some(self, tenant: str, head: int) -> bool:
        """Count a bounded number of records; return whether there are more up to `head`."""
        with SqliteTransaction(self._connections) as write:
            marked = write.cursor.execute(_MARK, (tenant,)).fetchone()
            # Read the mark again under the lock: another process may have counted them.
            mark = int(marked[0]) if marked else 0
            last = min(mark + _STEP, head)
            if mark < last:
                for statement in _COUNT_STATEMENTS:
                    write.cursor.execute(statement, (tenant, mark, last))
                write.cursor.execute(_SET_MARK, (tenant, last))
        return last < head

    def read_tallies(self, tenant: str | None, first: str, beyond: str) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order."""
        period = "hour >= ? AND hour < ?"
        if tenant is not None:
            asked = f"{_TALLIES.format(count='count')} tenant = ? AND {period}"
            rows = self._fetch_tallies(f"{asked} ORDER BY hour, kind", tenant, first, beyond)
        else:
            asked = f"{_TALLIES.format(count='SUM(count)')} {period} GROUP BY 1, 2, 3, 4, 5"
            rows = self._fetch_tallies(f"{asked} ORDER BY hour, kind", first, beyond)
        return [TallyRow(*row) for row in rows]

    def add_key(self, key: ApiKey) -> None:
        """Store an API key."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.execute(_ADD_KEY, key)

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        rows = self._fetch_tallies(f"SELECT {_KEY} FROM api_keys WHERE digest = ?", digest)
        return ApiKey(*rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        rows = self._fetch_tallies(f"SELECT {_KEY} FROM api_keys ORDER BY created_at, key_id")
        return [ApiKey(*row) for row in rows]

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        with SqliteTransaction(self._connections) as write:
            return write.cursor.execute(_REVOKE, (now, key_id)).rowcount > 0

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""
        marks = ", ".join("?" * len(values))
        asked = f"{_LABELS_BY_KIND} kind = ? AND value IN ({marks}) AND created_at >= ?"
        given: list[object] = [kind, *values, since]
        if tenant is not None:
            asked, given = f"{asked} AND tenant = ?", [*given, tenant]
        order = f"ORDER BY created_at, label_id LIMIT {_PAGE}"
        rows = self._fetch_tallies(f"{asked} {order}", *given)
        while rows:
            yield from (Label(*row[1:]) for row in rows)
            place = (Label(*rows[-1][1:]).created_at, rows[-1][0])
            beyond = f"{asked} AND (created_at, label_id) > (?, ?) {order}"
            rows = self._fetch_tallies(beyond, *given, *place)

    def _fetch_tallies(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(query, values).fetchall()


# ruff: noqa: S608 - statements are built from our own names; values are bound


Durability = Literal["full", "normal"]

_MAX_RETIRED = 2000
# The plus keeps SQLite from using the tenant index, which is not selective enough.
_OF_SUBJECT = "+tenant = ? AND subject = ?"
_OLDEST = """
    SELECT seq, record_hash, created_at FROM decision_records
    WHERE tenant = ? ORDER BY seq LIMIT ?
"""
_SAVE_ANCHOR = """
    INSERT INTO chain_anchors (tenant, seq, record_hash, retired_before) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq,
        record_hash = excluded.record_hash, retired_before = excluded.retired_before
"""
_RETIRE = "DELETE FROM decision_records WHERE tenant = ? AND seq <= ?"
_ERASE = f"UPDATE decision_records SET sealed = NULL, subject = NULL WHERE {_OF_SUBJECT}"
_UNLEARN = f"""
    DELETE FROM experiences WHERE tenant = ? AND decision_id IN
    (SELECT decision_id FROM decision_records WHERE {_OF_SUBJECT})
"""
_TABLES = {
    "records": "decision_records",
    "tenants": "chain_heads",
    "checkpoints": "checkpoints",
    "snapshots": "snapshots",
    "experiences": "experiences",
    "labels": "labels",
}


class SqliteBackend(SqliteReading, SqliteMemory, SqliteTallies):
    """Decision records in the SQLite file at `path` (`:memory:`: gone when closed).

    Durability `full` survives a power cut. `normal` survives a crash of the process, and may lose
    the last writes before a power cut.

    Raises:
        StorageError: The file cannot be opened, or its schema is newer than this code.
    """

    def __init__(
        self, path: str, *, durability: Durability = "full", busy_timeout_s: float = 30.0
    ) -> None:
        if durability not in {"full", "normal"}:
            raise InputError(f"durability is `full` or `normal`, not `{durability}`")
        self._durability = durability
        super().__init__(
            SqliteConnections(path, synchronous=durability.upper(), busy_timeout_s=busy_timeout_s)
        )

    def transaction(self) -> SqliteTransaction:
        """Return one atomic write."""
        return SqliteTransaction(self._connections)

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete the sealed part, the subject and the experiences of a subject's records."""
        with self.transaction() as write:
            if write.cursor.execute(_UNLEARN, (tenant, tenant, subject)).rowcount:
                write.cursor.execute(NEXT_VERSION, (tenant,))
            erased = write.cursor.execute(_ERASE, (tenant, subject)).rowcount
        self._connections.empty_log()
        return erased

    def retire_records(self, tenant: str, before: str) -> int:
        """Delete records before a time and return how many; the chain stays verifiable."""
        retired = 0
        while count := self._retire_some(tenant, before):
            retired += count
        self._connections.empty_log()
        return retired

    def _retire_some(self, tenant: str, before: str) -> int:
        """Retire a bounded number, so that decisions do not wait long."""
        with self.transaction() as write:
            rows = write.cursor.execute(_OLDEST, (tenant, _MAX_RETIRED)).fetchall()
            count = next((i for i, row in enumerate(rows) if row[2] >= before), len(rows))
            if count:
                seq, record_hash, _ = rows[count - 1]
                write.cursor.execute(_SAVE_ANCHOR, (tenant, seq, record_hash, before))
                write.cursor.execute("INSERT INTO meta VALUES ('retiring', ?)", (tenant,))
                write.cursor.execute(_RETIRE, (tenant, seq))
                write.cursor.execute("DELETE FROM meta WHERE key = 'retiring'")
        return count

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""
        return {
            name: self._fetch_all(f"SELECT COUNT(*) FROM {table}")[0][0]
            for name, table in _TABLES.items()
        }

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""
        return {
            "kind": "sqlite",
            "place": self._connections.path,
            "schema_version": self._fetch_all("PRAGMA user_version")[0][0],
            "durability": self._durability,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def close(self) -> None:
        """Release all resources."""
        self._connections.close()
