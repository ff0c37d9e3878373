"""Rows that stores keep, the same for SQLite and PostgreSQL."""

from typing import NamedTuple

__all__ = [
    "ApiKey",
    "Checkpoint",
    "ExperienceRow",
    "ChainHead",
    "Label",
    "LinkedRow",
    "RecordRow",
    "Snapshot",
    "UnlinkedRow",
]


class UnlinkedRow(NamedTuple):
    """A record as columns, before it has its place in the chain.

    `record` is the canonical JSON of the open part, `sealed` that of the sealed part. The other
    columns repeat fields for queries.
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


class ChainHead(NamedTuple):
    """The end of a tenant's chain."""

    tenant: str
    seq: int
    hash: str


class RecordRow(NamedTuple):
    """A stored record: the columns needed to read it back, and its place in the chain.

    `confirmed` is false if its caller got an error because storing was not confirmed in time.
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
    """All columns of a stored record and its link, for an audit."""

    row: UnlinkedRow
    seq: int
    previous: str
    hash: str
    confirmed: bool


class Checkpoint(NamedTuple):
    """The end of a tenant's chain at some time."""

    created_at: str
    head: ChainHead


class Snapshot(NamedTuple):
    """A text that records refer to by digest: a policy or a registry."""

    digest: str
    kind: str
    text: str


class ExperienceRow(NamedTuple):
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
    """A person's label on a decision. Experiences may be forgotten, labels stay."""

    decision_id: str
    tenant: str
    created_at: str
    kind: str
    value: str
    note: str
    by: str


class ApiKey(NamedTuple):
    """An API key of the service. Only the digest of the key is stored.

    `roles` are separated by spaces; a key with an empty tenant is valid for all tenants.
    """

    key_id: str
    tenant: str
    roles: str
    digest: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    note: str
