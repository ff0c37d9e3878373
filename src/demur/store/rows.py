"""Rows: what the stores keep, the same for SQLite and PostgreSQL."""

from typing import NamedTuple

__all__ = [
    "ApiKey",
    "Checkpoint",
    "Experience",
    "Head",
    "Label",
    "LinkedRow",
    "RecordRow",
    "Snapshot",
    "UnlinkedRow",
]


class UnlinkedRow(NamedTuple):
    """A record as columns, before it has its place in the chain.

    `record` is the canonical JSON of the open part, `sealed` that of the personal part.
    The other columns repeat what people query.
    """

    decision_id: str
    created_at: str
    tenant: str
    request_id: str | None
    root_id: str | None
    subject: str | None
    verdict: str
    decision_output: str
    refusal_class: str | None
    action_type: str
    amount_value: float | None
    amount_currency: str | None
    reason_codes: tuple[str, ...]
    policy_digest: str
    registry_digest: str
    record: bytes
    sealed: bytes | None


class Head(NamedTuple):
    """The end of a tenant's chain."""

    tenant: str
    seq: int
    hash: str


class RecordRow(NamedTuple):
    """A stored record: its columns that are needed to read it back, and its place in the chain.

    `confirmed` is false if its caller was told that storing it could not be confirmed in time.
    """

    decision_id: str
    tenant: str
    record: bytes
    sealed: bytes | None
    seq: int
    previous: str
    hash: str
    confirmed: bool = True


class LinkedRow(NamedTuple):
    """Everything that is stored of a record: all columns and the link, as an audit reads it."""

    row: UnlinkedRow
    seq: int
    previous: str
    hash: str
    confirmed: bool


class Checkpoint(NamedTuple):
    """Where a tenant's chain ended at some time."""

    created_at: str
    head: Head


class Snapshot(NamedTuple):
    """A text that records refer to by digest: a policy or a registry."""

    digest: str
    kind: str
    text: str


class Experience(NamedTuple):
    """A labelled outcome that later decisions are compared with. `vector` is its projection."""

    memory_id: str
    tenant: str
    decision_id: str
    outcome: str
    severity: int
    note: str
    action_type: str
    projection: str
    vector: bytes
    created_at: str
    expires_at: str | None


class Label(NamedTuple):
    """Who said what about a decision, for the audit; experiences may be forgotten, labels stay."""

    decision_id: str
    tenant: str
    created_at: str
    kind: str
    value: str
    note: str
    by: str


class ApiKey(NamedTuple):
    """A key of the service. Only the digest of what its holder sends is kept.

    `roles` are words with spaces between them; a key without a tenant is for all of them.
    """

    key_id: str
    tenant: str
    roles: str
    digest: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    note: str
