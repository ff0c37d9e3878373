"""Verify a chain: compute every link again and compare every column with its record.

A chain proves that nothing in it was changed, reordered or left out. A cut at its end shows
against known ends: the stored head, checkpoints, and heads exported to a place that the owner of
the database cannot write to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from demur.store.backend import Backend, StorageError
from demur.store.chain import genesis, link_hash
from demur.store.columns import Columns, columns_of, record_of
from demur.store.rows import Head, LinkedRow, RecordRow

__all__ = ["Break", "Verification", "verify_chain"]


class Break(NamedTuple):
    """The first invalid place of a tenant's chain; no id if its record is missing."""

    tenant: str
    seq: int
    decision_id: str | None
    problem: str


class Verification(NamedTuple):
    """The result of a verification: what was read, and at most one break per tenant."""

    tenants: int
    records: int
    erased: int
    unconfirmed: int
    breaks: tuple[Break, ...]

    @property
    def holds(self) -> bool:
        """Whether all chains are intact."""
        return not self.breaks


class _Known(NamedTuple):
    """A known end of a chain, and its source."""

    head: Head
    source: str


class _Range(NamedTuple):
    first: int
    last: int | None

    def reaches(self, seq: int) -> bool:
        return self.last is None or seq <= self.last


class _Counts:
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
    heads: Iterable[Head] = (),
) -> Verification:
    """Verify the chains of one tenant or of all, from seq `first` to `last`.

    `heads` are ends that were exported before; each must be in its chain.
    """
    exported = [_Known(head, "an exported head") for head in heads]
    names = {tenant} if tenant is not None else {*backend.tenants(), *_tenants(exported)}
    stored = {head.tenant: head for head in backend.all_heads()}
    counts = _Counts()
    breaks = []
    for name in sorted(names):
        known = [end for end in exported if end.head.tenant == name]
        head = stored.get(name, genesis(name))
        found = _verify(backend, head, known, _Range(first, last), counts)
        breaks += [] if found is None else [found]
    return Verification(
        len(names), counts.records, counts.erased, counts.unconfirmed, tuple(breaks)
    )


def _tenants(known: Iterable[_Known]) -> Iterator[str]:
    return (end.head.tenant for end in known)


def _verify(
    backend: Backend, stored: Head, exported: list[_Known], part: _Range, counts: _Counts
) -> Break | None:
    """Return the first break of one tenant's chain."""
    tenant = stored.tenant
    kept = backend.checkpoints(tenant)
    noted = [_Known(head, f"the checkpoint of {created_at}") for created_at, head in kept]
    known = [_Known(stored, "the stored head"), *exported, *noted]
    ends: dict[int, list[_Known]] = {}
    for end in known:
        ends.setdefault(end.head.seq, []).append(end)
    anchor = backend.anchor(tenant)
    head = anchor
    if part.first > anchor.seq + 1:
        before = next(backend.chain(tenant, part.first - 1, part.first - 1), None)
        if before is None:
            return Break(tenant, part.first - 1, None, "is missing")
        head = Head(tenant, before.seq, before.hash)
    found = _retired(exported, anchor) or _contradiction(ends, head, None)
    for linked in backend.linked(tenant, head.seq + 1, part.last):
        found = found or _problem(linked, head)
        if found is not None:
            break
        counts.add(linked)
        head = Head(tenant, linked.seq, linked.hash)
        found = _contradiction(ends, head, linked.row.decision_id)
    if found is not None and backend.anchor(tenant) != anchor:
        # Records were retired meanwhile, so they only seem to be missing: start again.
        return _verify(backend, stored, exported, part, counts)
    return found or _end(backend, head, known, part)


def _retired(exported: Iterable[_Known], anchor: Head) -> Break | None:
    """Return a break if an exported end was retired and cannot be checked any more."""
    for end in exported:
        if end.head.seq < anchor.seq:
            problem = f"{end.source} cannot be checked: the chain now begins after {anchor.seq}"
            return Break(anchor.tenant, end.head.seq, None, problem)
    return None


def _contradiction(
    ends: Mapping[int, Iterable[_Known]], head: Head, decision_id: str | None
) -> Break | None:
    """Return a break if a known end at this place has another hash."""
    for end in ends.get(head.seq, ()):
        if end.head.hash != head.hash:
            return Break(head.tenant, head.seq, decision_id, f"{end.source} has another hash")
    return None


def _end(backend: Backend, head: Head, known: Sequence[_Known], part: _Range) -> Break | None:
    """Return a break if the chain ends before or after its known ends."""
    for end in known:
        if end.head.seq > head.seq and part.reaches(end.head.seq):
            problem = f"truncated: {end.source} is at {end.head.seq}"
            return Break(head.tenant, head.seq + 1, None, problem)
    if part.last is not None or known[0].head.seq >= head.seq:
        return None
    # Read the head again: records may have been added meanwhile.
    stored = next((h for h in backend.all_heads() if h.tenant == head.tenant), genesis(head.tenant))
    if stored.seq < head.seq:
        problem = f"the stored head is behind, at {stored.seq}"
        return Break(head.tenant, stored.seq + 1, None, problem)
    return None


def _problem(linked: LinkedRow, head: Head) -> Break | None:
    """Return what is wrong with a record that should follow `head`."""
    if linked.seq != head.seq + 1:
        return Break(head.tenant, head.seq + 1, None, f"is missing: {linked.seq} comes next")
    problem = _broken_link(linked, head) or _broken_record(linked)
    if problem is None:
        return None
    return Break(head.tenant, linked.seq, linked.row.decision_id, problem)


def _broken_link(linked: LinkedRow, head: Head) -> str | None:
    if linked.previous != head.hash:
        return "does not follow the record before it"
    try:
        own_hash = link_hash(head, linked.row.decision_id, linked.row.record)
    except UnicodeEncodeError:
        own_hash = ""
    return None if linked.hash == own_hash else "hash differs: the record or its id was changed"


def _broken_record(linked: LinkedRow) -> str | None:
    row = linked.row
    link = (linked.seq, linked.previous, linked.hash)
    try:
        record = record_of(RecordRow(row.decision_id, row.tenant, row.record, row.sealed, *link))
    except StorageError as error:
        return error.problem
    if not record.seal_holds:
        return "the seal does not hold: the sealed part was changed"
    pairs = zip(Columns._fields, columns_of(record), row, strict=False)
    wrong = [f"`{name}`" for name, wanted, stored in pairs if wanted != stored]
    return f"column differs from the record: {', '.join(wrong)}" if wrong else None
