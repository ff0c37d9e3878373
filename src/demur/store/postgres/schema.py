"""Migrate a PostgreSQL database; any number of processes may do so at once."""

from demur.store.backend import StorageError
from demur.store.migrate import load_migrations, pending_migrations
from demur.store.postgres.connection import Connection

__all__ = ["run_migrations", "schema_version"]

_STEPS = load_migrations("postgres")
# An advisory lock; its number is "demur" in hexadecimal.
_LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(x'64656d7572'::bigint)"
_META = "CREATE TABLE IF NOT EXISTS meta (key text NOT NULL PRIMARY KEY, value text NOT NULL)"
_NOTE = """
    INSERT INTO meta (key, value) VALUES ('schema_version', %s)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
"""


def run_migrations(connection: Connection, where: str) -> None:
    """Apply the migrations that the database lacks.

    Raises:
        StorageError: The database is newer than this code, or cannot hold all text.
    """
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise StorageError(
            "the database cannot hold all text",
            where=where,
            help="create it with `ENCODING 'UTF8' TEMPLATE template0`",
        )
    if not pending_migrations(_STEPS, schema_version(connection), where):
        return
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        connection.execute(_LOCK_SCHEMA)
        # Another process may have migrated meanwhile. Create and read the table to see it: the
        # catalogue may still show the state before the wait.
        connection.execute(_META)
        for step in pending_migrations(_STEPS, _noted_version(connection), where):
            connection.execute(step.sql.encode())
            connection.execute(_NOTE, [str(step.version)])


def schema_version(connection: Connection) -> int:
    """Return the version of the schema; 0 if there is none yet."""
    found = connection.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()
    return _noted_version(connection) if found == (True,) else 0


def _noted_version(connection: Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return 0 if row is None else int(row[0])
