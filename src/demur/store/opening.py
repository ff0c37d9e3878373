"""Open a store by its URL, or one for dry runs."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from demur.errors import InputError, MissingExtraError
from demur.model.record import DecisionRecord
from demur.store.rows import Snapshot
from demur.store.sqlite import MEMORY, Durability, SqliteBackend
from demur.store.store import Store, StoredRecord


def open_store(
    url: str | Path,
    *,
    durability: Durability = "full",
    deadline_s: float | None = None,
    busy_timeout_s: float = 30.0,
) -> Store:
    """Return the store at a path, `sqlite:///path`, `:memory:` or `postgresql://...`.

    Raises:
        StorageError: It cannot be opened.
        InputError: The URL has an unknown scheme.
        MissingExtraError: The PostgreSQL driver is not installed.
    """
    address = os.fspath(url)
    settings: dict[str, Any] = {"durability": durability, "busy_timeout_s": busy_timeout_s}
    scheme, separator, rest = address.partition("://")
    if scheme in {"postgresql", "postgres"} and separator:
        try:
            postgres: Any = import_module("demur.store.postgres")
        except ImportError as error:
            problem = "PostgreSQL needs the `psycopg` package"
            raise MissingExtraError(problem, help="pip install 'demur[postgres]'") from error
        backend = postgres.open_postgres(address, **settings)
    elif separator and scheme != "sqlite":
        help_text = "use a path, sqlite:/// or postgresql://"
        raise InputError(f"no store is known for `{scheme}://`", help=help_text)
    else:
        path = unquote(rest.removeprefix("/")) or MEMORY if separator else address
        backend = SqliteBackend(path, **settings)
    return Store(backend, deadline_s=deadline_s)


class DryRunStore(Store):
    """A store that reads earlier records and discards new ones."""

    def put(self, record: DecisionRecord, snapshots: Sequence[Snapshot] = ()) -> StoredRecord:
        """Return what storing the record would have returned."""
        del snapshots
        request_id = record.request_id
        first = None if request_id is None else self.by_request(record.tenant, request_id)
        return StoredRecord(record) if first is None else StoredRecord(first, duplicate=True)

    def put_many(
        self, records: Sequence[DecisionRecord], snapshots: Sequence[Snapshot] = ()
    ) -> list[StoredRecord]:
        """Return what storing the records would have returned."""
        return [self.put(record, snapshots) for record in records]
