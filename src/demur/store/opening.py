"""Open a store by its URL."""

import os
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import unquote

from demur.errors import InputError, MissingExtraError
from demur.store.backend import Backend
from demur.store.sqlite_backend import Durability, SqliteBackend
from demur.store.sqlite_connections import MEMORY
from demur.store.store import Store

__all__ = ["open_store"]


class _OpenPostgres(Protocol):
    def __call__(self, url: str, *, durability: Durability, busy_timeout_s: float) -> Backend: ...


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
    scheme, separator, rest = address.partition("://")
    backend: Backend
    if scheme in {"postgresql", "postgres"} and separator:
        backend = _load_postgres()(address, durability=durability, busy_timeout_s=busy_timeout_s)
    elif separator and scheme != "sqlite":
        raise InputError(
            f"no store is known for `{scheme}://`", help="use a path, sqlite:/// or postgresql://"
        )
    else:
        path = unquote(rest.removeprefix("/")) or MEMORY if separator else address
        backend = SqliteBackend(path, durability=durability, busy_timeout_s=busy_timeout_s)
    return Store(backend, deadline_s=deadline_s)


def _load_postgres() -> _OpenPostgres:
    try:
        module = import_module("demur.store.postgres_backend")
    except ImportError as error:
        raise MissingExtraError(
            "PostgreSQL needs the `psycopg` package", help="pip install 'demur[postgres]'"
        ) from error
    return cast("_OpenPostgres", module.open_postgres)
