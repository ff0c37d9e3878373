"""The protocol of a database that holds decision records, and its schema migrations.

Migrations are numbered SQL files, applied in order and never undone.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from demur.errors import DemurError
from demur.store.rows import (
    ApiKey,
    ChainHead,
    Checkpoint,
    ExperienceRow,
    Label,
    LinkedRow,
    RecordRow,
    Snapshot,
    TallyRow,
    UnlinkedRow,
)


class StorageError(DemurError):
    """Something could not be stored or read; nothing is stored partially.

    Backends raise it for every error of their database.
    """


class UnavailableError(StorageError):
    """The database cannot be used now: locked, full, lost or read-only.

    Unlike after an error about one row, retrying the rows of a batch one by one is useless.
    """


class RecordFilter(NamedTuple):
    """Which records to read. `since` is inclusive, `until` exclusive; None matches everything.

    `before` is the last decision id of the previous page, newest first. `unreviewed` matches
    records without a review label.
    """

    tenant: str | None = None
    verdict: str | None = None
    reason_code: str | None = None
    action_type: str | None = None
    since: str | None = None
    until: str | None = None
    subject: str | None = None
    decision_output: str | None = None
    refusal_class: str | None = None
    request_id: str | None = None
    before: str | None = None
    unreviewed: bool | None = None


class Transaction(Protocol):
    """One atomic write. It locks the heads of its tenants until it ends."""

    def lock_heads(self, tenants: Collection[str]) -> Mapping[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""

    def find_existing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""

    def insert_rows(self, rows: Sequence[tuple[UnlinkedRow, ChainHead, str]]) -> None:
        """Insert rows, each with the head before it and its own hash."""

    def set_heads(self, heads: Collection[ChainHead]) -> None:
        """Move the heads."""

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> None:
        """Mark rows whose callers got an error because storing was not confirmed in time."""


class Backend(Protocol):
    """A database that holds decision records."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return one write: committed durably on exit, rolled back on an error."""

    def get_record(self, decision_id: str) -> RecordRow | None:
        """Return one record."""

    def by_request(self, tenant: str, request_id: str) -> RecordRow | None:
        """Return the record of a request id."""

    def list_family(self, tenant: str, root_id: str) -> list[RecordRow]:
        """Return the record with that id and all that continue it, in the order of the chain."""

    def scan_records(
        self, record_filter: RecordFilter, *, newest_first: bool = False
    ) -> Iterator[RecordRow]:
        """Yield records in the order of time (decision ids grow with it), in bounded memory."""

    def read_chain(self, tenant: str, first: int, last: int | None) -> Iterator[RecordRow]:
        """Yield a tenant's records from seq `first` to `last`, in order, in bounded memory."""

    def read_linked(self, tenant: str, first: int, last: int | None) -> Iterator[LinkedRow]:
        """Yield the same records as `read_chain` with all columns, for an audit."""

    def find_ids(self, prefix: str, limit: int, tenant: str | None = None) -> list[str]:
        """Return the first decision ids (of a tenant) that begin with `prefix`, at most `limit`."""

    def all_heads(self) -> list[ChainHead]:
        """Return the head of every tenant, by name."""

    def list_tenants(self) -> list[str]:
        """Return every tenant that has a head or a record, by name."""

    def get_anchor(self, tenant: str) -> ChainHead:
        """Return the head that the oldest kept record follows: genesis if none was retired."""

    def save_checkpoints(self, checkpoints: Collection[Checkpoint]) -> None:
        """Save where chains end."""

    def list_checkpoints(self, tenant: str) -> list[Checkpoint]:
        """Return a tenant's checkpoints, oldest first."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a text under its digest; each text is saved once."""

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the text under a digest."""

    def add_experience(self, experience: ExperienceRow, label: Label) -> None:
        """Store an experience together with its label."""

    def list_experiences(self, tenant: str, now: str) -> list[ExperienceRow]:
        """Return a tenant's experiences that have not expired, by memory id."""

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""

    def forget_experiences(
        self, tenant: str, memory_ids: Collection[str] | None, before: str | None
    ) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""

    def add_label(self, label: Label) -> None:
        """Store a label."""

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""

    def read_tallies(self, tenant: str | None, first: str, beyond: str) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order."""

    def add_key(self, key: ApiKey) -> None:
        """Store an API key of the service."""

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete the sealed part, the subject and the experiences of a subject's records."""

    def retire_records(self, tenant: str, before: str) -> int:
        """Delete records before a time and return how many; the chain stays verifiable."""

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""

    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""

    def close(self) -> None:
        """Release all resources."""


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
