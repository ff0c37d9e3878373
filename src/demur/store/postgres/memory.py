"""Snapshots, experiences, labels and checkpoints in PostgreSQL."""

from collections.abc import Collection, Sequence

from demur.store.postgres.connection import Connection, Connections
from demur.store.rows import Checkpoint, Experience, Label, Snapshot

__all__ = ["PostgresMemory", "moved"]


def _insert(table: str, columns: Sequence[str]) -> str:
    places = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 - our own names


_KEPT_ONCE = "ON CONFLICT DO NOTHING"
_PLACE = ("created_at", "tenant", "seq", "record_hash")
_CHECKPOINT = f"{_insert('checkpoints', _PLACE)} {_KEPT_ONCE}"
_SAVE_SNAPSHOT = f"{_insert('snapshots', Snapshot._fields)} {_KEPT_ONCE}"
_SNAPSHOT = "SELECT digest, kind, text FROM snapshots WHERE digest = %s"
_EXPERIENCE = (
    f"{_insert('experiences', Experience._fields)} ON CONFLICT (tenant, memory_id) DO UPDATE SET "
    + ", ".join(f"{name} = EXCLUDED.{name}" for name in Experience._fields)
)
_LABEL = _insert("labels", Label._fields)
_EXPERIENCES = f"""
    SELECT {", ".join(Experience._fields)} FROM experiences
    WHERE tenant = %s AND (expires_at IS NULL OR expires_at > %s) ORDER BY memory_id
"""  # noqa: S608 - our own names
_VERSION = "SELECT version FROM memory_versions WHERE tenant = %s"
_MOVED = """
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

    _connections: Connections

    def save_checkpoints(self, checkpoints: Collection[Checkpoint]) -> None:
        """Save where chains end."""
        rows = [(checkpoint.created_at, *checkpoint.head) for checkpoint in checkpoints]
        with self._connections.write() as connection, connection.transaction():
            connection.cursor().executemany(_CHECKPOINT.encode(), rows)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a text under its digest; each text is saved once."""
        with self._connections.write() as connection:
            connection.execute(_SAVE_SNAPSHOT.encode(), snapshot)

    def snapshot(self, digest: str) -> Snapshot | None:
        """Return the text under a digest."""
        with self._connections.read() as connection:
            found = connection.execute(_SNAPSHOT, [digest]).fetchone()
        return None if found is None else Snapshot(*found)

    def add_experience(self, experience: Experience, label: Label) -> None:
        """Store an experience together with its label."""
        with self._connections.write() as connection, connection.transaction():
            connection.execute(_EXPERIENCE.encode(), experience)
            connection.execute(_LABEL.encode(), label)
            moved(connection, experience.tenant)

    def experiences(self, tenant: str, now: str) -> list[Experience]:
        """Return a tenant's experiences that have not expired, by memory id."""
        with self._connections.read() as connection:
            found = connection.execute(_EXPERIENCES.encode(), [tenant, now])
            return [Experience(*row) for row in found]

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""
        with self._connections.read() as connection:
            found = connection.execute(_VERSION, [tenant]).fetchone()
        return 0 if found is None else int(found[0])

    def forget(self, tenant: str, memory_ids: Collection[str] | None, before: str | None) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""
        given = [tenant, list(memory_ids or ()), before]
        with self._connections.write() as connection, connection.transaction():
            count = connection.execute(_FORGET, given).rowcount
            if count:
                moved(connection, tenant)
        return count

    def add_label(self, label: Label) -> None:
        """Store a label."""
        with self._connections.write() as connection:
            connection.execute(_LABEL.encode(), label)

    def labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        with self._connections.read() as connection:
            return [Label(*row) for row in connection.execute(_LABELS.encode(), [decision_id])]


def moved(connection: Connection, tenant: str) -> None:
    """Note that a tenant's experiences changed."""
    connection.execute(_MOVED, [tenant])
