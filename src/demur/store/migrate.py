"""Schema migrations: numbered SQL files, applied in order, never undone."""

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from demur.store.backend import StorageError

__all__ = ["Migration", "load_migrations", "pending_migrations"]

_NAME = re.compile(r"(\d{4})_\w+\.sql")


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    sql: str


def load_migrations(kind: str) -> tuple[Migration, ...]:
    """Return all steps for a kind of database, oldest first."""
    folder = files("demur.store") / kind / "migrations"
    found = [(_NAME.fullmatch(file.name), file) for file in folder.iterdir()]
    return tuple(
        sorted(
            Migration(int(match[1]), file.read_text(encoding="utf-8"))
            for match, file in found
            if match
        )
    )


def pending_migrations(steps: Sequence[Migration], current: int, where: str) -> list[Migration]:
    """Return the steps that a database at version `current` still needs.

    Raises:
        StorageError: The database is newer than this code.
    """
    newest = steps[-1].version
    if current > newest:
        raise StorageError(
            f"schema version {current} is newer than this demur knows ({newest})",
            where=where,
            help="upgrade demur; a schema never goes back",
        )
    return [step for step in steps if step.version > current]
