"""Snapshots, experiences, labels and checkpoints in PostgreSQL."""

from collections.abc import Collection, Sequence

from demur.store.postgres.connection import Connection, PostgresConnections
from demur.store.rows import Checkpoint, ExperienceRow, Label, Snapshot

__all__ = ["PostgresMemory", "bump_memory_version"]


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
