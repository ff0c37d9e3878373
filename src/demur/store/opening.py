"""Open a store by its URL, at once or at its first use, or one for dry runs."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, cast
from urllib.parse import unquote

from demur.errors import InputError, MissingExtraError
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError, UnavailableError
from demur.store.grant_tables import NO_GRANTS, RecordGrants
from demur.store.linking import UNGRANTED
from demur.store.rows import Snapshot
from demur.store.sql import Backend
from demur.store.sqlite import Durability, SqliteBackend
from demur.store.sqlite_connections import MEMORY
from demur.store.store import Store, StoredRecord

# An attempt to connect that takes this long waits for a host that does not answer.
_SLOW_S = 0.5
_PAUSE_S = 5.0
DEFAULT_DEADLINE_S = 5.0


def open_store(
    url: str | Path,
    *,
    durability: Durability = "full",
    deadline_s: float | None = DEFAULT_DEADLINE_S,
    busy_timeout_s: float = 30.0,
    defer: bool = False,
) -> Store:
    """Return the store at a path, `sqlite:///path`, `:memory:` or `postgresql://...`.

    A decision that is not confirmed within `deadline_s`, by default five seconds, is an
    `UnavailableError`; None waits as long as the database does.

    With `defer`, a database that cannot be reached now is opened at its next use. Until then each
    use raises `UnavailableError`, so a gate abstains with STORAGE_UNAVAILABLE.

    Raises:
        StorageError: demur cannot open it.
        InputError: The URL is empty, or has an unknown scheme.
        MissingExtraError: The PostgreSQL driver is missing.
    """
    address = os.fspath(url)
    if not address:
        raise InputError("the path of the store is empty", help="like demur.db")
    if deadline_s is not None and not deadline_s > 0:
        raise InputError(f"a deadline is above 0, not {deadline_s}", where="deadline_s")
    settings: dict[str, Any] = {"durability": durability, "busy_timeout_s": busy_timeout_s}
    scheme, separator, rest = address.partition("://")
    if scheme in {"postgresql", "postgres"} and separator:
        try:
            postgres: Any = import_module("demur.store.postgres")
        except ImportError as error:
            problem = "PostgreSQL needs the `psycopg` package"
            raise MissingExtraError(problem, help="pip install 'demur[postgres]'") from error
        opening = partial(postgres.open_postgres, address, deadline_s=deadline_s, **settings)
    elif separator and scheme != "sqlite":
        help_text = "use a path, sqlite:/// or postgresql://"
        raise InputError(f"no store is known for `{scheme}://`", help=help_text)
    else:
        path = unquote(rest.removeprefix("/")) or MEMORY if separator else address
        # Only a file or a server can hang.
        deadline_s = None if path == MEMORY else deadline_s
        if os.path.isdir(path):  # noqa: PTH112 - never raises
            problem = "the store cannot be opened: this is a folder"
            raise StorageError(problem, where=path, help="name a file in it, like demur.db")
        opening = partial(SqliteBackend, path, **settings)
    try:
        backend: Backend = opening()
    except UnavailableError as error:
        if not defer or not _is_outage(error):
            raise
        backend = cast("Backend", DeferredBackend(opening))
    return Store(backend, deadline_s=deadline_s)


def _is_outage(error: UnavailableError) -> bool:
    """Return whether waiting may help; a file that is no database stays one."""
    return getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_NOTADB"


class DeferredBackend:
    """A database that could not be reached yet, and that is opened at its next use.

    Every method and attribute is that of the database, once it is open. After an attempt that took
    long, further uses fail at once for a few seconds, so that callers do not queue up behind it.
    """

    def __init__(
        self, opening: Callable[[], Backend], *, clock_s: Callable[[], float] = monotonic
    ) -> None:
        self._opening = opening
        self._elapsed = clock_s
        self._lock = Lock()
        self._backend: Backend | None = None
        self._failure: tuple[UnavailableError, float] | None = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._backend is None:
                self._backend = self._open_backend()
        return getattr(self._backend, name)

    def _open_backend(self) -> Backend:
        began = self._elapsed()
        if self._failure is not None and began < self._failure[1]:
            error = self._failure[0]
            raise UnavailableError(error.problem, where=error.where, help=error.help) from error
        try:
            return self._opening()
        except UnavailableError as error:
            ended = self._elapsed()
            pause_s = _PAUSE_S if ended - began >= _SLOW_S else 0.0
            self._failure = (error, ended + pause_s)
            raise

    def close(self) -> None:
        """Close the database, if it was opened."""
        if self._backend is not None:
            self._backend.close()


class DryRunStore(Store):
    """A store that reads earlier records and discards new ones."""

    def put(
        self,
        record: DecisionRecord,
        snapshots: Sequence[Snapshot] = (),
        grants: RecordGrants = NO_GRANTS,
    ) -> StoredRecord:
        """Return what storing the record would have returned."""
        del snapshots, grants
        request_id = record.request_id
        first = None if request_id is None else self.by_request(record.tenant, request_id)
        return StoredRecord(record) if first is None else StoredRecord(first, duplicate=True)

    def put_many(
        self,
        records: Sequence[DecisionRecord],
        snapshots: Sequence[Snapshot] = (),
        grants: Mapping[str, RecordGrants] = UNGRANTED,
    ) -> list[StoredRecord]:
        """Return what storing the records would have returned."""
        del grants
        return [self.put(record, snapshots) for record in records]
