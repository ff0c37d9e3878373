"""Verify a chain: compute every link again and compare every column with its record.

A chain proves that nothing in it was changed, reordered or left out. What was retired or erased is
named by an event link; without one it is missing. A cut at its end shows against known ends: the
stored head, checkpoints, and heads exported to a place that the owner of the database cannot write
to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from demur.errors import InputError
from demur.store.backend import StorageError
from demur.store.events import (
    ERASE,
    RETIRE,
    ChainEvent,
    EventRow,
    erased_decisions,
    erased_others,
    kept_events,
    read_event,
    retired_head,
)
from demur.store.linking import build_row, row_to_record
from demur.store.rows import (
    ChainHead,
    Checkpoint,
    LinkedRow,
    RecordRow,
    UnlinkedRow,
    genesis_head,
    link_hash,
)
from demur.store.sql import Backend


class ChainBreak(NamedTuple):
    """The first invalid place of a tenant's chain; no id if its record is missing."""

    tenant: str
    seq: int
    decision_id: str | None
    problem: str


class LetGo(NamedTuple):
    """What one event let go: `records` that were retired up to the place `last`, or erased.

    `seq` is the place of the event. `adopted` says that it happened before there were events; then
    it is not known how many were retired. `others` counts grants, experiences and notes that were
    erased because they held an identifier, by kind.
    """

    kind: str
    seq: int
    created_at: str
    by: str
    reason: str
    records: int | None
    last: int | None = None
    adopted: bool = False
    others: Mapping[str, int] = {}


class ChainSummary(NamedTuple):
    """One tenant's chain: the places that are kept, what was read, and what was let go."""

    tenant: str
    begins: int
    ends: int
    records: int
    events: int
    erased: int
    let_go: tuple[LetGo, ...]


class ChainVerification(NamedTuple):
    """The result of a verification: what was read, and at most one break per tenant.

    `records` are decisions; `events` are the other links. `unchecked` counts anchored heads whose
    places were retired since.
    """

    tenants: int
    records: int
    erased: int
    unconfirmed: int
    breaks: tuple[ChainBreak, ...]
    events: int = 0
    chains: tuple[ChainSummary, ...] = ()
    unchecked: int = 0

    @property
    def holds(self) -> bool:
        """Whether all chains are intact."""
        return not self.breaks


class _KnownEnd(NamedTuple):
    """A known end of a chain, and its source."""

    head: ChainHead
    source: str
    may_be_retired: bool = False


class _SeqRange(NamedTuple):
    first: int
    last: int | None

    def includes(self, seq: int) -> bool:
        return self.last is None or seq <= self.last


class _VerificationCounts:
    """Counts of the links read so far."""

    def __init__(self) -> None:
        self.records = self.erased = self.unconfirmed = self.events = 0

    def add(self, linked: LinkedRow | EventRow) -> None:
        if isinstance(linked, EventRow):
            self.events += 1
            return
        self.records += 1
        self.erased += linked.row.sealed is None
        self.unconfirmed += not linked.confirmed


class _Journal:
    """All events of a tenant, each checked against its own hash."""

    def __init__(self, rows: Iterable[EventRow]) -> None:
        self.newest = 0
        self.rows: list[EventRow] = []
        self.events: dict[int, ChainEvent] = {}
        self.erased: dict[str, int] = {}
        self.broken: ChainBreak | None = None
        for row in rows:
            self.newest = max(self.newest, row.seq)
            try:
                event = read_event(row)
            except InputError as error:
                problem = f"event: {error.problem}"
                self.broken = self.broken or ChainBreak(row.tenant, row.seq, None, problem)
                continue
            self.rows.append(row)
            self.events[row.seq] = event
            self.erased |= dict.fromkeys(erased_decisions(event), row.seq)

    def find_break(self, anchor: ChainHead) -> ChainBreak | None:
        """Return a break if the beginning of the chain and the events do not agree."""
        retired = [(seq, retired_head(event)) for seq, event in self.events.items()]
        heads = [(seq, head) for seq, head in retired if head is not None]
        if anchor.seq and not any(head == anchor and seq > anchor.seq for seq, head in heads):
            problem = "the beginning is missing: no event retired the records up to here"
            return ChainBreak(anchor.tenant, anchor.seq, None, problem)
        for seq, head in heads:
            if head.seq > anchor.seq:
                problem = f"the event at {seq} retired the records up to here, and they are back"
                return ChainBreak(anchor.tenant, head.seq, None, problem)
        return self._find_unnamed(anchor)

    def _find_unnamed(self, anchor: ChainHead) -> ChainBreak | None:
        """Return a break if an event before the beginning was added, changed or removed."""
        # Newest first: an event is named by a later one that is itself in the chain.
        named: dict[int, str] = {}
        for row in reversed(self.rows):
            if row.seq <= anchor.seq and named.pop(row.seq, None) != row.event_hash:
                problem = "event: no later event names it as kept"
                return ChainBreak(anchor.tenant, row.seq, None, problem)
            named |= kept_events(self.events[row.seq])
        for seq in sorted(named):
            return ChainBreak(anchor.tenant, seq, None, "event: is missing")
        return None

    @property
    def known_hashes(self) -> Mapping[int, str]:
        """The hashes that are still known of places before the beginning."""
        heads = filter(None, map(retired_head, self.events.values()))
        return {
            **{head.seq: head.hash for head in heads},
            **{row.seq: row.event_hash for row in self.rows},
        }

    def list_let_go(self) -> Iterator[LetGo]:
        for seq, event in self.events.items():
            if event.kind in {RETIRE, ERASE}:
                head, what = retired_head(event), event.what
                count = what.get("records") if head else len(erased_decisions(event))
                records = count if isinstance(count, int) else None
                last, adopted = (head.seq if head else None), bool(what.get("adopted"))
                about = (event.created_at, event.by, event.reason, records, last, adopted)
                yield LetGo(event.kind, seq, *about, erased_others(event))


def verify_chain(
    backend: Backend,
    tenant: str | None = None,
    *,
    first: int = 1,
    last: int | None = None,
    heads: Iterable[ChainHead] = (),
    anchored: Iterable[Checkpoint] = (),
) -> ChainVerification:
    """Verify the chains of one tenant or of all, from seq `first` to `last`.

    `heads` are ends that were exported before; each must be in its chain. `anchored` are those of
    anchors; one whose place was retired since proves nothing any more, and is no break.
    """
    exported = [_KnownEnd(head, "an exported head") for head in heads]
    exported += [_KnownEnd(end.head, f"the anchor of {end.created_at}", True) for end in anchored]
    known_tenants = (end.head.tenant for end in exported)
    names = {tenant} if tenant is not None else {*backend.list_tenants(), *known_tenants}
    stored = {head.tenant: head for head in backend.all_heads()}
    chains, breaks, unconfirmed, unchecked = [], [], 0, 0
    for name in sorted(names):
        known = [end for end in exported if end.head.tenant == name]
        head = stored.get(name, genesis_head(name))
        walk = _ChainWalk(backend, head, known, _SeqRange(first, last))
        chains.append(walk.summary)
        breaks += [] if walk.broken is None else [walk.broken]
        unconfirmed += walk.counts.unconfirmed
        unchecked += walk.count_unchecked()
    records, erased, events = (
        sum(getattr(chain, field) for chain in chains) for field in ("records", "erased", "events")
    )
    return ChainVerification(
        len(names), records, erased, unconfirmed, tuple(breaks), events, tuple(chains), unchecked
    )


class _ChainWalk:
    """Walks one tenant's chain, and holds its first break."""

    def __init__(
        self, backend: Backend, stored: ChainHead, exported: list[_KnownEnd], part: _SeqRange
    ) -> None:
        self._backend, self._tenant, self._part = backend, stored.tenant, part
        self._exported = exported
        kept = backend.list_checkpoints(self._tenant)
        noted = [_KnownEnd(head, f"the checkpoint of {created_at}") for created_at, head in kept]
        self._known = [_KnownEnd(stored, "the stored head"), *exported, *noted]
        self._ends: dict[int, list[_KnownEnd]] = {}
        for end in self._known:
            self._ends.setdefault(end.head.seq, []).append(end)
        self._start_walk()
        while self.broken is not None and self._was_let_go():
            # Records were let go meanwhile, so they only seem to be missing: start again.
            self._start_walk()

    @property
    def summary(self) -> ChainSummary:
        """What was read, and what was let go."""
        counts = self.counts
        numbers = (counts.records, counts.events, counts.erased)
        let_go = tuple(self._journal.list_let_go())
        return ChainSummary(self._tenant, self._anchor.seq + 1, self._head.seq, *numbers, let_go)

    def _was_let_go(self) -> bool:
        return any(self._backend.read_events(self._tenant, self._journal.newest + 1))

    def count_unchecked(self) -> int:
        """Return how many anchored heads stand before the beginning, where nothing shows them."""
        known, begin = self._journal.known_hashes, self._anchor.seq
        ends = (end.head.seq for end in self._exported if end.may_be_retired)
        return sum(seq < begin and seq not in known for seq in ends)

    def _start_walk(self) -> None:
        self.counts = _VerificationCounts()
        self._anchor = self._head = self._backend.get_anchor(self._tenant)
        self._journal = _Journal(self._backend.read_events(self._tenant))
        self.broken = (
            self._journal.broken
            or self._journal.find_break(self._anchor)
            or self._find_early_record()
            or self._move_to_part()
            or _retired_break(self._exported, self._anchor, self._journal.known_hashes)
            or _find_contradiction(self._ends, self._head, None)
            or self._walk_links()
            or _check_end(self._backend, self._head, self._known, self._part)
        )

    def _find_early_record(self) -> ChainBreak | None:
        """Return a break if a record stands before the beginning of the chain."""
        for row in self._backend.read_chain(self._tenant, -_MAX_SEQ, self._anchor.seq):
            problem = f"stands before the beginning of the chain, after {self._anchor.seq}"
            return ChainBreak(self._tenant, row.seq, row.decision_id, problem)
        return None

    def _move_to_part(self) -> ChainBreak | None:
        """Start at the first place to verify, which follows a link that is taken as it is."""
        place = self._part.first - 1
        if place <= self._anchor.seq:
            return None
        row = next(self._backend.read_chain(self._tenant, place, place), None)
        events = (row.head for row in self._journal.rows if row.seq == place)
        head = next(events, None) if row is None else ChainHead(self._tenant, row.seq, row.hash)
        if head is None:
            return ChainBreak(self._tenant, place, None, "is missing")
        self._head = head
        return None

    def _walk_links(self) -> ChainBreak | None:
        first, part = self._head.seq + 1, self._part
        sources: list[Iterable[LinkedRow | EventRow]] = [
            self._backend.read_linked(self._tenant, first, part.last),
            [row for row in self._journal.rows if row.seq >= first and part.includes(row.seq)],
        ]
        for linked in merge(*sources, key=attrgetter("seq")):
            decision_id = linked.row.decision_id if isinstance(linked, LinkedRow) else None
            problem = self._find_problem(linked)
            if problem is not None:
                return problem
            self.counts.add(linked)
            own_hash = linked.hash if isinstance(linked, LinkedRow) else linked.event_hash
            self._head = ChainHead(self._tenant, linked.seq, own_hash)
            found = _find_contradiction(self._ends, self._head, decision_id)
            if found is not None:
                return found
        return None

    def _find_problem(self, linked: LinkedRow | EventRow) -> ChainBreak | None:
        """Return what is wrong with a link that should follow the head."""
        if linked.seq != self._head.seq + 1:
            return _wrong_place(linked, self._head)
        if isinstance(linked, EventRow):
            if linked.previous_hash == self._head.hash:
                return None
            return ChainBreak(self._tenant, linked.seq, None, f"event: {_NOT_NEXT}")
        return _check_record(linked, self._head, self._journal.erased.get(linked.row.decision_id))


_MAX_SEQ = 2**63 - 1
_NOT_NEXT = "does not follow the link before it"


def _wrong_place(linked: LinkedRow | EventRow, head: ChainHead) -> ChainBreak:
    if linked.seq > head.seq:
        return ChainBreak(head.tenant, head.seq + 1, None, f"is missing: {linked.seq} comes next")
    return ChainBreak(head.tenant, linked.seq, None, "a record and an event stand at one place")


def _retired_break(
    exported: Iterable[_KnownEnd], anchor: ChainHead, known: Mapping[int, str]
) -> ChainBreak | None:
    """Return a break if an end before the beginning is wrong, or cannot be checked any more."""
    for end in exported:
        seq = end.head.seq
        if seq >= anchor.seq:
            continue
        if known.get(seq, end.head.hash) != end.head.hash:
            return ChainBreak(anchor.tenant, seq, None, f"{end.source} has another hash")
        if not end.may_be_retired:
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


def _check_record(linked: LinkedRow, head: ChainHead, erased_at: int | None) -> ChainBreak | None:
    """Return what is wrong with a record that follows `head`; an event may have erased it."""
    problem = _broken_link(linked, head) or _broken_record(linked)
    if problem is None and linked.row.sealed is None and (erased_at or 0) <= linked.seq:
        problem = "the sealed part is missing: no event erased it"
    if problem is None and linked.row.sealed is not None and erased_at is not None:
        problem = f"the event at {erased_at} erased the sealed part, and it is back"
    if problem is None:
        return None
    return ChainBreak(head.tenant, linked.seq, linked.row.decision_id, problem)


def _broken_link(linked: LinkedRow, head: ChainHead) -> str | None:
    if linked.previous != head.hash:
        return _NOT_NEXT
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
