"""Errors, filters, transactions and dialects of a store, and the migrations of its schema.

Migrations are numbered SQL files, applied in order and never undone.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from demur.errors import DemurError
from demur.store.rows import ApprovalRow, ChainHead, ChainPlace, ResolvedApproval, UnlinkedRow


class StorageError(DemurError):
    """demur could not store or read something; it stores nothing partially.

    Backends raise it for every error of their database.
    """


class UnavailableError(StorageError):
    """The database is unusable now: locked, full, lost or read-only.

    Unlike after an error about one row, retrying the rows of a batch one by one is useless.
    """


class UnansweredError(UnavailableError):
    """The database did not answer in time, so asking it again would wait as long again."""


class RecordFilter(NamedTuple):
    """Which records to read. `since` is inclusive, `until` exclusive; None matches everything.

    `before` is the last decision id of the previous page, newest first, and `after` that of the
    previous page, oldest first. `unreviewed` matches
    records without a review label. `text` matches records by their words, see `demur.store.search`.
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
    after: str | None = None
    unreviewed: bool | None = None
    min_amount: float | None = None
    max_amount: float | None = None
    currency: str | None = None
    outcome: str | None = None
    text: str | None = None


NO_APPROVALS: Mapping[str, ApprovalRow] = {}


class Transaction(Protocol):
    """One atomic write. It locks the heads of its tenants until it ends."""

    def lock_heads(self, tenants: Collection[str]) -> Mapping[str, ChainHead]:
        """Return the locked head of each tenant; a new tenant's is its genesis."""

    def find_existing(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the decision id of each (tenant, request_id) that is stored already."""

    def append_rows(
        self, rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow] = NO_APPROVALS
    ) -> list[ChainPlace]:
        """Link each row to the end of its chain, in order, and return their places.

        `opened` are requests for approval that begin with some of the rows, by decision id.
        """

    def lock_uses(self, digests: Sequence[str]) -> Mapping[str, int]:
        """Return how often each grant was used, locked; the digests are sorted."""

    def set_uses(self, uses: Mapping[str, int]) -> None:
        """Store how often grants were used."""

    def save_grants(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Store signed grants, each once."""

    def resolve_approvals(self, resolved: Sequence[ResolvedApproval]) -> None:
        """End the requests that a resolution answers, and link it."""


class Dialect(NamedTuple):
    """Where the SQL of the databases differs. Statements name their values `:name`."""

    page: int  # rows that are read at once
    step: int  # records that are counted at once; writers wait meanwhile
    index_step: int  # records whose words are indexed at once
    halves: str  # both halves of a record, as bytes
    event: str  # the event of a link, as bytes
    now: str  # the time of the database, as records write it
    tenant: str  # the tenant, without use of its index
    has_code: str
    has_subject: str
    hour: str
    minute: str
    code_value: str
    code_rows: str  # a row for each reason code of a record
    excerpt: str  # the sealed part as bytes, if it may hold an excerpt
    finding: str
    findings: str  # a row for each finding of a record
    for_update: str
    begin_erase: str
    begin_retire: str
    end_retire: str


# Executes one statement of a write, and returns its cursor.
Execute = Callable[[str, Mapping[str, Any]], Any]


def insert_statement(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a row of named values."""
    values = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - our own names


SAVE_APPROVAL = f"{insert_statement('approvals', ApprovalRow._fields)} ON CONFLICT DO NOTHING"
RESOLVE_APPROVAL = """
    UPDATE approvals SET resolution_id = :resolution_id,
        closed_at = COALESCE(closed_at, :closed_at),
        closed_by = CASE WHEN state = 'waiting' THEN :closed_by ELSE closed_by END,
        state = 'approved'
    WHERE decision_id = :decision_id AND state IN ('waiting', 'approved')
        AND resolution_id IS NULL
"""

# The step from which on retiring and erasing are links of the chain.
EVENTS_VERSION = 3
_MIGRATION_NAME = re.compile(r"(\d{4})_\w+\.sql")


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    sql: str


def load_migrations(kind: str) -> tuple[Migration, ...]:
    """Return all steps for a kind of database, oldest first."""
    folder = files("demur.store") / "migrations" / kind
    found = ((_MIGRATION_NAME.fullmatch(file.name), file) for file in folder.iterdir())
    steps = [(int(match[1]), file.read_text(encoding="utf-8")) for match, file in found if match]
    return tuple(Migration(*step) for step in sorted(steps))


def pending_migrations(steps: Sequence[Migration], current: int, where: str) -> list[Migration]:
    """Return the steps that a database at version `current` still needs.

    Raises:
        StorageError: The database is newer than this code.
    """
    newest = steps[-1].version
    if current > newest:
        problem = f"schema version {current} is newer than this demur knows ({newest})"
        raise StorageError(problem, where=where, help="upgrade demur; a schema never goes back")
    return [step for step in steps if step.version > current]
