"""Snapshots, experiences, labels and checkpoints in SQLite."""
# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections.abc import Collection, Sequence
from typing import Any

from demur.store.rows import Checkpoint, ExperienceRow, Label, Snapshot
from demur.store.sqlite.connections import SqliteConnections
from demur.store.sqlite.transaction import SqliteTransaction

__all__ = ["NEXT_VERSION", "SqliteMemory"]

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
