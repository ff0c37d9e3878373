"""Rows that stores keep, the same for SQLite and PostgreSQL; hourly tallies; the hash chain.

Each link of a tenant's chain covers its record and all records before it. Tallies are plain counts
for dashboards and alerts; nothing in them says whose decision it was.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from demur.errors import InputError


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


class ChainPlace(NamedTuple):
    """The place of a row in its chain: the head before it, and its own hash.

    If its request was stored before, `first` is the decision id of that record, and the row
    itself is not stored. Nor is it if grants that it uses are `used_up`.
    """

    previous: ChainHead
    hash: str
    first: str | None = None
    used_up: bool = False


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


class RecordMatch(NamedTuple):
    """What counting and sorting need of a record."""

    decision_id: str
    created_at: str
    verdict: str
    decision_output: str
    amount_value: float | None


class MatchPage(NamedTuple):
    """The matches among a number of records in order; `last` is the id of the last one read.

    `is_last` says that there are no more records.
    """

    rows: list[RecordMatch]
    last: str
    is_last: bool


class RecordMatches(NamedTuple):
    """Records that match a filter, in order.

    `is_complete` is false if only the first records were looked at. `waiting` is the number of
    records that are not indexed yet.
    """

    rows: list[RecordMatch]
    is_complete: bool
    waiting: int = 0


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


REVIEW = "review"
REVIEW_VALUES = ("good", "false_refusal", "missed_harm")
# The value of a later label that takes back the reviews before it.
WITHDRAWN = "withdrawn"


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
    """An API key of the service. The store keeps only the digest of the key.

    `roles` are separated by spaces; a key with an empty tenant is valid for all tenants.
    `subjects` are those that its holder may name, one a line; `*` is any.
    """

    key_id: str
    tenant: str
    roles: str
    digest: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    note: str
    subjects: str = ""


# How long before its expiry a key is warned of.
KEY_EXPIRY_NOTICE = timedelta(days=14)


class LoginSession(NamedTuple):
    """A login to the dashboard. Only the digest of the session is stored.

    `key_id` is that of the key, or `person:LOGIN`. The session of a person counts as long as the
    person has the same `generation`.
    """

    digest: str
    key_id: str
    created_at: str
    expires_at: str
    person: str = ""
    generation: int = 0


class ApprovalState(StrEnum):
    """Where a request for approval stands. Only `waiting` changes, and once."""

    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"


class ApprovalRow(NamedTuple):
    """A refused decision that people can lift. `needed` different people must approve it.

    `kinds` are the kinds of grants that lift its codes. `group_name` is the group that decides;
    empty: any approver. `resolution_id` is the decision that came of it. `notified` names the last
    notice that was sent.
    """

    decision_id: str
    tenant: str
    action_type: str
    reason_codes: tuple[str, ...]
    kinds: tuple[str, ...]
    needed: int
    requested_at: str
    expires_at: str
    group_name: str = ""
    state: str = ApprovalState.WAITING
    closed_at: str | None = None
    closed_by: str = ""
    note: str = ""
    resolution_id: str | None = None
    notified: str = ""

    def to_columns(self) -> dict[str, Any]:
        """Return the values of its columns."""
        codes = msgspec.json.encode(self.reason_codes).decode()
        return {**self._asdict(), "reason_codes": codes, "kinds": " ".join(self.kinds)}


class ApprovalVote(NamedTuple):
    """One person's vote. `limits` are those of the grants with these digests."""

    decision_id: str
    tenant: str
    person: str
    vote: Literal["approve", "decline"]
    note: str
    limits: Mapping[str, Any]
    grant_digests: tuple[str, ...]
    voted_at: str

    def to_columns(self) -> dict[str, Any]:
        """Return the values of its columns."""
        limits = msgspec.json.encode(self.limits, order="sorted").decode()
        return {**self._asdict(), "limits": limits, "grant_digests": " ".join(self.grant_digests)}


class ResolvedApproval(NamedTuple):
    """A resolution that ends a request for approval, in the transaction of its record."""

    decision_id: str
    resolution_id: str
    closed_at: str
    closed_by: str


_HOUR_FORMAT = "%Y-%m-%dT%H"


class TallyRow(NamedTuple):
    """A stored tally; the meaning of `first` to `third` depends on its kind."""

    kind: str
    hour: str
    first: str
    second: str
    third: str
    number: int


class DecisionTally(NamedTuple):
    """The number of decisions of an hour by outcome; no class is an empty text."""

    hour: str
    verdict: str
    decision_output: str
    refusal_class: str
    number: int


class ReasonTally(NamedTuple):
    """The number of decisions of an hour by reason and verdict."""

    hour: str
    reason_code: str
    verdict: str
    number: int


class FindingTally(NamedTuple):
    """The number of findings of an hour by surface, code and action."""

    hour: str
    surface: str
    code: str
    action: str
    number: int


class Tallies(NamedTuple):
    """All counts of a period, by hour."""

    decisions: tuple[DecisionTally, ...]
    reasons: tuple[ReasonTally, ...]
    findings: tuple[FindingTally, ...]


def hour_of(moment: datetime) -> str:
    """Return the hour of a moment in the format of tallies.

    Raises:
        InputError: The moment has no time zone.
    """
    if moment.tzinfo is None:
        raise InputError("a moment needs a time zone", help="like datetime.now(UTC)")
    return moment.astimezone(UTC).strftime(_HOUR_FORMAT)


def hours_back(now: datetime, hours: int) -> datetime:
    """Return the start of the last `hours` hours, the current one included."""
    running = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return running - timedelta(hours=hours - 1)


def hours_between(since: datetime, until: datetime) -> tuple[str, str]:
    """Return the first hour of a period and the one after its last."""
    last = until.astimezone(UTC)
    whole = last.replace(minute=0, second=0, microsecond=0)
    return hour_of(since), hour_of(until if whole == last else whole + timedelta(hours=1))


def group_tallies(rows: Iterable[TallyRow]) -> Tallies:
    """Return stored counts grouped by kind."""
    listed = list(rows)
    return Tallies(
        tuple(DecisionTally(*row[1:]) for row in listed if row.kind == "decision"),
        tuple(ReasonTally(*row[1:4], row.number) for row in listed if row.kind == "reason"),
        tuple(FindingTally(*row[1:]) for row in listed if row.kind == "finding"),
    )


GENESIS = "sha256:" + "0" * 64
_CHAIN_DOMAIN = b"demur chain.v1\n"


def genesis_head(tenant: str) -> ChainHead:
    """Return the head of a chain that has no records yet."""
    return ChainHead(tenant, 0, GENESIS)


def link_hash(head: ChainHead, decision_id: str, record: bytes) -> str:
    """Return the hash of the link that follows `head` and covers `record`.

    It also covers tenant, place and id, so that a link is valid at its own place only.
    """
    place = f"{head.tenant}\n{head.seq + 1}\n{decision_id}\n{head.hash}\n"
    return f"sha256:{hashlib.sha256(_CHAIN_DOMAIN + place.encode() + record).hexdigest()}"
