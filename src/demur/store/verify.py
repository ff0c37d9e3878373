"""Verify a chain: compute every link again and compare every column with its record.

A chain proves that nothing in it was changed, reordered or left out. A cut at its end shows against
known ends: the stored head, checkpoints, and heads exported to a place that the owner of the
database cannot write to.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from demur.errors import InputError
from demur.store.backend import StorageError
from demur.store.rows import ChainHead, LinkedRow, RecordRow, UnlinkedRow, genesis_head, link_hash
from demur.store.sql import Backend
from demur.store.store import build_row, row_to_record


class ChainBreak(NamedTuple):
    """The first invalid place of a tenant's chain; no id if its record is missing."""

    tenant: str
    seq: int
    decision_id: str | None
    problem: str


class ChainVerification(NamedTuple):
    """The result of a verification: what was read, and at most one break per tenant."""

    tenants: int
    records: int
    erased: int
    unconfirmed: int
    breaks: tuple[ChainBreak, ...]

    @property
    def holds(self) -> bool:
        """Whether all chains are intact."""
        return not self.breaks


class _KnownEnd(NamedTuple):
    """A known end of a chain, and its source."""

    head: ChainHead
    source: str


class _SeqRange(NamedTuple):
    first: int
    last: int | None

    def includes(self, seq: int) -> bool:
        return self.last is None or seq <= self.last


class _VerificationCounts:
    """Counts of the records read so far."""

    def __init__(self) -> None:
        self.records = self.erased = self.unconfirmed = 0

    def add(self, linked: LinkedRow) -> None:
        self.records += 1
        self.erased += linked.row.sealed is None
        self.unconfirmed += not linked.confirmed


def verify_chain(
    backend: Backend,
    tenant: str | None = None,
    *,
    first: int = 1,
    last: int | None = None,
    heads: Iterable[ChainHead] = (),
) -> ChainVerification:
    """Verify the chains of one tenant or of all, from seq `first` to `last`.

    `heads` are ends that were exported before; each must be in its chain.
    """
    exported = [_KnownEnd(head, "an exported head") for head in heads]
    known_tenants = (end.head.tenant for end in exported)
    names = {tenant} if tenant is not None else {*backend.list_tenants(), *known_tenants}
    stored = {head.tenant: head for head in backend.all_heads()}
    counts = _VerificationCounts()
    breaks = []
    for name in sorted(names):
        known = [end for end in exported if end.head.tenant == name]
        head = stored.get(name, genesis_head(name))
        found = _verify_tenant(backend, head, known, _SeqRange(first, last), counts)
        breaks += [] if found is None else [found]
    totals = (counts.records, counts.erased, counts.unconfirmed)
    return ChainVerification(len(names), *totals, tuple(breaks))


def _verify_tenant(
    backend: Backend,
    stored: ChainHead,
    exported: list[_KnownEnd],
    part: _SeqRange,
    counts: _VerificationCounts,
) -> ChainBreak | None:
    """Return the first break of one tenant's chain."""
    tenant = stored.tenant
    kept = backend.list_checkpoints(tenant)
    noted = [_KnownEnd(head, f"the checkpoint of {created_at}") for created_at, head in kept]
    known = [_KnownEnd(stored, "the stored head"), *exported, *noted]
    ends: dict[int, list[_KnownEnd]] = {}
    for end in known:
        ends.setdefault(end.head.seq, []).append(end)
    anchor = backend.get_anchor(tenant)
    head = anchor
    if part.first > anchor.seq + 1:
        before = next(backend.read_chain(tenant, part.first - 1, part.first - 1), None)
        if before is None:
            return ChainBreak(tenant, part.first - 1, None, "is missing")
        head = ChainHead(tenant, before.seq, before.hash)
    found = _retired_break(exported, anchor) or _find_contradiction(ends, head, None)
    for linked in backend.read_linked(tenant, head.seq + 1, part.last):
        found = found or _check_record(linked, head)
        if found is not None:
            break
        counts.add(linked)
        head = ChainHead(tenant, linked.seq, linked.hash)
        found = _find_contradiction(ends, head, linked.row.decision_id)
    if found is not None and backend.get_anchor(tenant) != anchor:
        # Records were retired meanwhile, so they only seem to be missing: start again.
        return _verify_tenant(backend, stored, exported, part, counts)
    return found or _check_end(backend, head, known, part)


def _retired_break(exported: Iterable[_KnownEnd], anchor: ChainHead) -> ChainBreak | None:
    """Return a break if an exported end was retired and cannot be checked any more."""
    for end in exported:
        if end.head.seq < anchor.seq:
            problem = f"{end.source} cannot be checked: the chain now begins after {anchor.seq}"
            return ChainBreak(anchor.tenant, end.head.seq, None, problem)
    return None


def _find_contradiction(
    ends: Mapping[int, Iterable[_KnownEnd]], head: ChainHead, decision_id: str | None
) -> ChainBreak | None:
    """Return a break if a known end at this place has another hash."""
    for end in ends.get(head.seq, ()):
        if end.head.hash != head.hash:
            return ChainBreak(head.tenant, head.seq, decision_id, f"{end.source} has another hash")
    return None


def _check_end(
    backend: Backend, head: ChainHead, known: Sequence[_KnownEnd], part: _SeqRange
) -> ChainBreak | None:
    """Return a break if the chain ends before or after its known ends."""
    for end in known:
        if end.head.seq > head.seq and part.includes(end.head.seq):
            problem = f"truncated: {end.source} is at {end.head.seq}"
            return ChainBreak(head.tenant, head.seq + 1, None, problem)
    if part.last is not None or known[0].head.seq >= head.seq:
        return None
    # Read the head again: records may have been added meanwhile.
    heads = {one.tenant: one for one in backend.all_heads()}
    stored = heads.get(head.tenant, genesis_head(head.tenant))
    if stored.seq < head.seq:
        problem = f"the stored head is behind, at {stored.seq}"
        return ChainBreak(head.tenant, stored.seq + 1, None, problem)
    return None


def _check_record(linked: LinkedRow, head: ChainHead) -> ChainBreak | None:
    """Return what is wrong with a record that should follow `head`."""
    if linked.seq != head.seq + 1:
        return ChainBreak(head.tenant, head.seq + 1, None, f"is missing: {linked.seq} comes next")
    problem = _broken_link(linked, head) or _broken_record(linked)
    if problem is None:
        return None
    return ChainBreak(head.tenant, linked.seq, linked.row.decision_id, problem)


def _broken_link(linked: LinkedRow, head: ChainHead) -> str | None:
    if linked.previous != head.hash:
        return "does not follow the record before it"
    try:
        own_hash = link_hash(head, linked.row.decision_id, linked.row.record)
    except UnicodeEncodeError:
        own_hash = ""
    return None if linked.hash == own_hash else "hash differs: the record or its id was changed"


def _broken_record(linked: LinkedRow) -> str | None:
    row, link = linked.row, (linked.seq, linked.previous, linked.hash)
    try:
        parts = (row.decision_id, row.tenant, row.record, row.sealed)
        record = row_to_record(RecordRow(*parts, *link))
    except StorageError as error:
        return error.problem
    if not record.seal_holds:
        return "the seal does not hold: the sealed part was changed"
    pairs = zip(UnlinkedRow._fields, build_row(record, row.record), row, strict=True)
    wrong = [f"`{name}`" for name, expected, stored in pairs if expected != stored]
    return f"column differs from the record: {', '.join(wrong)}" if wrong else None


HEADS_SCHEMA = "chain_heads.v1"


class _HeadEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: str
    seq: Annotated[int, msgspec.Meta(ge=0)]
    hash: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


class _HeadsDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: Literal["chain_heads.v1"]
    created_at: str
    heads: tuple[_HeadEntry, ...]


def heads_document(heads: Iterable[ChainHead], created_at: str) -> dict[str, Any]:
    """Return heads as plain JSON, for a file outside the store."""
    plain = [head._asdict() for head in heads]
    return {"schema_version": HEADS_SCHEMA, "created_at": created_at, "heads": plain}


def read_heads(document: object) -> list[ChainHead]:
    """Return the heads in a document that `heads_document` made.

    Raises:
        InputError: It is no document of heads.
    """
    try:
        read = msgspec.convert(document, _HeadsDocument)
    except msgspec.ValidationError as error:
        raise InputError(f"no exported heads: {error}") from error
    return [ChainHead(head.tenant, head.seq, head.hash) for head in read.heads]
