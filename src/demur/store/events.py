"""Event links: what was done to a chain, by whom and why, in the chain itself.

An event has a place in its tenant's chain like a record, and is no decision. Its hash has a domain
of its own. Retiring and erasing are events; any other kind may use the same form.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.model.record import ChainLink, freeze_json
from demur.store.rows import ChainHead

RETIRE = "retire"
ERASE = "erase"
# What an erasure may take besides the sealed parts of records.
OTHER_KINDS = ("grants", "experiences", "notes", "approvals", "votes")
APPROVAL_VOTE = "approval_vote"
APPROVAL_CLOSED = "approval_closed"
APPROVAL_ESCALATED = "approval_escalated"
APPROVAL_EVENTS = (APPROVAL_VOTE, APPROVAL_CLOSED, APPROVAL_ESCALATED)
MAX_AUTHOR_LENGTH = 200
MAX_REASON_LENGTH = 1000
_EVENT_DOMAIN = b"demur event.v1\n"
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError, InputError)


class ChainEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event: its kind, who did it, when, why, and to what.

    `what` of `retire`: the places `first` to `last`, the `hash` of the last, how many `records`
    went, the time `before` which they were made, and the `events` among them, which stay. `what` of
    `erase`: the ids of the `decisions`, and the numbers of `grants`, `experiences`, `notes`,
    `approvals` and `votes` that were erased because they held an identifier. `adopted` marks what
    happened before there were events.
    """

    kind: str
    tenant: str
    created_at: str
    by: str
    reason: str
    what: Mapping[str, Any]
    schema_version: Literal["chain_event.v1"] = "chain_event.v1"

    def __post_init__(self) -> None:
        force_setattr(self, "what", freeze_json(self.what))

    def to_bytes(self) -> bytes:
        """Return the canonical bytes that the chain covers."""
        return canonical_bytes(msgspec.to_builtins(self))


class EventRow(NamedTuple):
    """An event as columns, with its place. `event` is its canonical JSON."""

    tenant: str
    seq: int
    created_at: str
    kind: str
    by: str
    reason: str
    event: bytes
    previous_hash: str
    event_hash: str

    @property
    def head(self) -> ChainHead:
        """The head of the chain once this event is its last link."""
        return ChainHead(self.tenant, self.seq, self.event_hash)


_decode_event = msgspec.json.Decoder(ChainEvent).decode


def event_hash(head: ChainHead, event: bytes) -> str:
    """Return the hash of the event link that follows `head`."""
    # INVARIANT: no event has the hash of a record, and no record that of an event.
    place = f"{head.tenant}\n{head.seq + 1}\n{head.hash}\n"
    return f"sha256:{hashlib.sha256(_EVENT_DOMAIN + place.encode() + event).hexdigest()}"


def link_event(head: ChainHead, event: ChainEvent) -> EventRow:
    """Return the row of an event that follows `head`."""
    raw = event.to_bytes()
    fields = (event.created_at, event.kind, event.by, event.reason, raw)
    return EventRow(head.tenant, head.seq + 1, *fields, head.hash, event_hash(head, raw))


def check_author(by: str, reason: str) -> None:
    """Refuse an event that does not say who and why.

    Raises:
        InputError: One of them is empty, too long, or holds a control character.
    """
    limits = (("by", by, MAX_AUTHOR_LENGTH), ("reason", reason, MAX_REASON_LENGTH))
    for name, text, limit in limits:
        if not text.strip():
            problem = "an event of the chain says who did it and why"
            raise InputError(problem, where=name, help="name a person or a job, and the reason")
        if len(text) > limit or not text.isprintable():
            problem = f"one line of at most {limit} characters is needed"
            raise InputError(problem, where=name)


def read_event(row: EventRow) -> ChainEvent:
    """Return the event in a row, checked against its hash and its columns.

    Raises:
        InputError: It was changed.
    """
    try:
        own_hash = event_hash(ChainHead(row.tenant, row.seq - 1, row.previous_hash), row.event)
    except UnicodeEncodeError:
        own_hash = ""
    if own_hash != row.event_hash:
        raise InputError("hash differs: somebody changed the event")
    try:
        event = _decode_event(row.event)
        exact = event.to_bytes() == row.event
    except _UNREADABLE as error:
        raise InputError(f"not an event: {error}") from error
    columns = (event.tenant, event.created_at, event.kind, event.by, event.reason)
    stored = (row.tenant, row.created_at, row.kind, row.by, row.reason)
    if not exact or columns != stored:
        raise InputError("column differs from the event")
    return event


def erased_decisions(event: ChainEvent) -> Sequence[str]:
    """Return the ids of the decisions that an event erased."""
    ids = _read_list(event, "decisions") if event.kind == ERASE else ()
    return tuple(one for one in ids if isinstance(one, str))


def erased_others(event: ChainEvent) -> dict[str, int]:
    """Return what an event erased besides the sealed parts of records: numbers by kind."""
    named = {kind: event.what.get(kind) for kind in OTHER_KINDS} if event.kind == ERASE else {}
    return {kind: number for kind, number in named.items() if type(number) is int}


def concerns_decisions(event: ChainEvent, decision_ids: Collection[str | None]) -> bool:
    """Return whether an event erased one of the decisions, or is of the approval of one."""
    if event.kind in APPROVAL_EVENTS:
        return event.what.get("decision") in decision_ids
    return not {*decision_ids}.isdisjoint(erased_decisions(event))


def _read_list(event: ChainEvent, name: str) -> Sequence[Any]:
    """Return a list in an event; anybody who can write to the store can append another shape."""
    found = event.what.get(name)
    return found if isinstance(found, list | tuple) else ()


def retired_head(event: ChainEvent) -> ChainHead | None:
    """Return the last link that an event retired, or None if it retired nothing."""
    last, own_hash = event.what.get("last"), event.what.get("hash")
    if event.kind != RETIRE or not isinstance(last, int) or not isinstance(own_hash, str):
        return None
    return ChainHead(event.tenant, last, own_hash)


def kept_events(event: ChainEvent) -> Mapping[int, str]:
    """Return the hashes of the events that stand among the places that an event retired."""
    listed = _read_list(event, "events") if event.kind == RETIRE else ()
    pairs = ((one.get("seq"), one.get("hash")) for one in listed if isinstance(one, Mapping))
    return {seq: str(own_hash) for seq, own_hash in pairs if isinstance(seq, int)}


class _LinkedEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event with its place, as JSON; its other columns follow from it."""

    event: ChainEvent
    chain: ChainLink


_decode_linked = msgspec.json.Decoder(tuple[_LinkedEvent, ...]).decode


def encode_events(rows: Iterable[EventRow]) -> bytes:
    """Return events with their places as canonical JSON."""
    linked = [
        {
            "event": msgspec.json.decode(row.event),
            "chain": {"seq": row.seq, "previous": row.previous_hash, "hash": row.event_hash},
        }
        for row in rows
    ]
    return canonical_bytes(linked)


def decode_events(raw: bytes) -> tuple[EventRow, ...]:
    """Return the events in a document that `encode_events` made; `read_event` checks each.

    Raises:
        InputError: It is no list of events.
    """
    try:
        linked = _decode_linked(raw)
    except _UNREADABLE as error:
        raise InputError(f"not a list of events: {error}") from error
    return tuple(
        EventRow(
            one.event.tenant,
            one.chain.seq,
            one.event.created_at,
            one.event.kind,
            one.event.by,
            one.event.reason,
            one.event.to_bytes(),
            one.chain.previous,
            one.chain.hash,
        )
        for one in linked
    )
