"""Let go of records: retire old ones, and erase what came from a person.

Both happen in one transaction with an event link that says who did it, why, and to what. The rest
of the chain stays verifiable, and what was let go is named in it.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from demur.store.backend import Execute, insert_statement
from demur.store.events import ERASE, RETIRE, ChainEvent, EventRow, check_author, link_event
from demur.store.rows import GENESIS, ChainHead, genesis_head
from demur.store.search import SearchSql

# So many go at once, so that decisions do not wait long; each batch has its event.
_MAX_RETIRED = 2000
_MAX_ERASED = 500
_SCAN_PAGE = 5000
_EVENT_PAGE = 500
_MAX_SEQ = 2**63 - 1
_ADOPTED_BY = "demur"
_ADOPTED_REASON = "let go before events were links of the chain"

_BEGIN_HEAD = """
    INSERT INTO chain_heads (tenant, seq, record_hash) VALUES (:tenant, 0, :genesis)
    ON CONFLICT DO NOTHING
"""
_SELECT_HEAD = "SELECT seq, record_hash FROM chain_heads WHERE tenant = :tenant"
_SET_HEAD = "UPDATE chain_heads SET seq = :seq, record_hash = :hash WHERE tenant = :tenant"
_INSERT_EVENT = insert_statement("chain_events", EventRow._fields)
_SELECT_EVENTS = """
    SELECT {columns} FROM chain_events WHERE tenant = :tenant AND seq BETWEEN :first AND :last
    ORDER BY seq LIMIT :limit
"""
_SELECT_EVENT_HASHES = """
    SELECT seq, event_hash FROM chain_events
    WHERE tenant = :tenant AND seq > :first AND seq < :last ORDER BY seq
"""
_SELECT_ANCHOR = "SELECT tenant, seq, record_hash FROM chain_anchors WHERE tenant = :tenant"
_SELECT_LAST_OLD = """
    SELECT MAX(seq) FROM decision_records WHERE tenant = :tenant AND created_at < :before
"""
_SELECT_TIMES = """
    SELECT seq, created_at < :before, created_at > :now FROM decision_records
    WHERE tenant = :tenant AND seq > :after AND seq <= :last ORDER BY seq LIMIT :limit
"""
_SELECT_OLDEST = """
    SELECT seq, record_hash FROM decision_records
    WHERE tenant = :tenant AND seq <= :last ORDER BY seq LIMIT :limit
"""
_SAVE_ANCHOR = """
    INSERT INTO chain_anchors (tenant, seq, record_hash, retired_before)
    VALUES (:tenant, :seq, :record_hash, :before)
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq,
        record_hash = excluded.record_hash, retired_before = excluded.retired_before
    WHERE chain_anchors.seq < excluded.seq
"""
_DELETE_RETIRED = "DELETE FROM decision_records WHERE tenant = :tenant AND seq <= :seq"
_DELETE_EXPIRED = "DELETE FROM grants WHERE tenant = :tenant AND expires_at < :before"
_DELETE_GRANTS = """
    DELETE FROM grants WHERE {theirs} OR (tenant = :tenant AND granted_to IN
        (SELECT subject FROM decision_records WHERE {theirs}))
"""
_DELETE_RETIRED_GRANTS = """
    DELETE FROM grants WHERE tenant = :tenant AND decision_id IN
    (SELECT decision_id FROM decision_records WHERE tenant = :tenant AND seq <= :seq)
"""
_DELETE_RETIRED_APPROVALS = tuple(
    f"""
    DELETE FROM {table} WHERE decision_id IN
    (SELECT decision_id FROM decision_records WHERE tenant = :tenant AND seq <= :seq)
    """
    for table in ("approvals", "approval_votes")
)
# Nobody can approve what was erased, and notes may name people.
_CLOSE_ERASED = """
    UPDATE approvals SET note = '',
        closed_at = COALESCE(closed_at, :now),
        state = CASE WHEN state = 'waiting' OR (state = 'approved' AND resolution_id IS NULL)
            THEN 'expired' ELSE state END
    WHERE {theirs}
"""
_CLEAR_VOTES = """
    UPDATE approval_votes SET note = '', limits = '{{}}'
    WHERE decision_id IN (SELECT decision_id FROM approvals WHERE {theirs})
"""
_NEXT_MEMORY = """
    UPDATE memory_versions SET version = version + 1 WHERE tenant = :tenant
"""


class EventAuthor(NamedTuple):
    """Who made an event, why, and when; without a time, it is that of the database."""

    by: str
    reason: str
    now: str | None

    @classmethod
    def check(cls, by: str, reason: str, now: str | None) -> Self:
        """Return the author of an event.

        Raises:
            InputError: It does not say who and why.
        """
        check_author(by, reason)
        return cls(by, reason, now)


class RetirePlan(NamedTuple):
    """What retiring takes: the records up to the place `last`, `records` of them.

    `later` of them carry a time that is not before the one asked for: their clock was ahead.
    """

    last: int
    records: int
    later: int


class RetentionSql(SearchSql):
    """The statements that append events, retire records and erase their sealed parts."""

    # -- events ----------------------------------------------------------------------------

    def read_events(self, tenant: str, first: int = 1) -> Iterator[EventRow]:
        """Yield a tenant's events from seq `first` on, in order, in bounded memory."""
        names = (self.dialect.event if name == "event" else name for name in EventRow._fields)
        query = _SELECT_EVENTS.format(columns=", ".join(names))
        while True:
            # Always bounded: a corrupt seq that is no number sorts after all numbers.
            values = {"tenant": tenant, "first": first, "last": _MAX_SEQ, "limit": _EVENT_PAGE}
            rows = [EventRow(*row) for row in self._run_query(query, values)]
            yield from rows
            if len(rows) < _EVENT_PAGE:
                return
            first = rows[-1].seq + 1

    def append_event(
        self,
        tenant: str,
        kind: str,
        what: Mapping[str, Any],
        *,
        by: str,
        reason: str,
        now: str | None = None,
    ) -> EventRow:
        """Append an event of any kind to a tenant's chain, and return it with its place.

        Without `now`, it carries the time of the database.

        Raises:
            InputError: It does not say who did it and why.
        """
        author = EventAuthor.check(by, reason, now)
        with self._open_write() as execute:
            return self._append(execute, self._lock_head(execute, tenant), kind, what, author)

    def _append(
        self,
        execute: Execute,
        head: ChainHead,
        kind: str,
        what: Mapping[str, Any],
        author: EventAuthor,
    ) -> EventRow:
        """Append an event in a write that holds the head."""
        by, reason, now = author
        if now is None:
            now = str(execute(f"SELECT {self.dialect.now}", {}).fetchone()[0])
        event = ChainEvent(
            kind=kind, tenant=head.tenant, created_at=now, by=by, reason=reason, what=what
        )
        row = link_event(head, event)
        # INVARIANT: an event never counts as a decision.
        execute(_INSERT_EVENT, {**row._asdict(), "event": row.event.decode()})
        execute(_SET_HEAD, row.head._asdict())
        return row

    def _lock_head(self, execute: Execute, tenant: str) -> ChainHead:
        execute(_BEGIN_HEAD, {"tenant": tenant, "genesis": GENESIS})
        query = f"{_SELECT_HEAD} {self.dialect.for_update}"
        return ChainHead(tenant, *execute(query, {"tenant": tenant}).fetchone())

    # -- retiring --------------------------------------------------------------------------

    def get_anchor(self, tenant: str) -> ChainHead:
        """Return the head that the oldest kept record follows: genesis if none was retired."""
        rows = self._run_query(_SELECT_ANCHOR, {"tenant": tenant})
        return ChainHead(*rows[0]) if rows else genesis_head(tenant)

    def plan_retirement(self, tenant: str, before: str, now: str | None = None) -> RetirePlan:
        """Return what retiring the records before a time takes.

        A chain is retired from its beginning, up to the place at which the fewest records stand on
        the wrong side of the time. So one record from a clock that was ahead or behind neither
        keeps the older ones nor takes younger ones along. A record that is dated after `now` says
        nothing.
        """
        if now is None:
            now = str(self._run_query(f"SELECT {self.dialect.now}", {})[0][0])
        times: dict[str, Any] = {"tenant": tenant, "before": before}
        bound = self._run_query(_SELECT_LAST_OLD, times)[0][0]
        plan = RetirePlan(0, 0, 0)
        seen = later = balance = best = after = 0
        while bound is not None:
            page = {**times, "now": now, "after": after, "last": bound, "limit": _SCAN_PAGE}
            rows = self._run_query(_SELECT_TIMES, page)
            for after, is_old, is_ahead in rows:
                seen += 1
                later += not is_old
                balance += 1 if is_old else 0 if is_ahead else -1
                if balance > best:
                    best, plan = balance, RetirePlan(after, seen, later)
            if len(rows) < _SCAN_PAGE:
                break
        return plan

    def retire_records(
        self, tenant: str, before: str, *, by: str, reason: str, now: str | None = None
    ) -> int:
        """Delete the records that `plan_retirement` names, and return how many.

        Raises:
            InputError: It is not said who retires them and why.
        """
        author = EventAuthor.check(by, reason, now)
        last = self.plan_retirement(tenant, before, now).last
        retired = 0
        while count := self._retire_batch(tenant, last, before, author):
            retired += count
        self._forget_deleted()
        return retired

    def _retire_batch(self, tenant: str, last: int, before: str, author: EventAuthor) -> int:
        limits = {"tenant": tenant, "last": last, "limit": _MAX_RETIRED}
        with self._open_write() as execute:
            head = self._lock_head(execute, tenant)
            rows = execute(_SELECT_OLDEST, limits).fetchall()
            if not rows:
                return 0
            seq, record_hash = rows[-1]
            found = execute(_SELECT_ANCHOR, {"tenant": tenant}).fetchone()
            first = 1 if found is None else found[1] + 1
            place = {"tenant": tenant, "first": first - 1, "last": seq}
            kept = execute(_SELECT_EVENT_HASHES, place).fetchall()
            # INVARIANT: what was let go is named by a link of the chain.
            what = {
                "first": first,
                "last": seq,
                "hash": record_hash,
                "before": before,
                "records": len(rows),
                "events": [{"seq": one, "hash": own_hash} for one, own_hash in kept],
            }
            self._append(execute, head, RETIRE, what, author)
            anchor = {"tenant": tenant, "seq": seq, "record_hash": record_hash, "before": before}
            execute(_SAVE_ANCHOR, anchor)
            for statement in (_DELETE_RETIRED_GRANTS, *_DELETE_RETIRED_APPROVALS):
                execute(statement, {"tenant": tenant, "seq": seq})
            retired = {"tenant": tenant, "seq": seq}
            self._forget_words(execute, tenant, "tenant = :tenant AND seq <= :seq", retired)
            execute(self.dialect.begin_retire, {})
            execute(_DELETE_RETIRED, {"tenant": tenant, "seq": seq})
            execute(_DELETE_EXPIRED, {"tenant": tenant, "before": before})
            if self.dialect.end_retire:
                execute(self.dialect.end_retire, {})
        return len(rows)

    # -- erasing ---------------------------------------------------------------------------

    def erase_subject(
        self, tenant: str, subject: str, *, by: str, reason: str, now: str | None = None
    ) -> int:
        """Erase the sealed part of a subject's records; return how many.

        Raises:
            InputError: It is not said who erases them and why.
        """
        query = f"""
            SELECT decision_id FROM decision_records
            WHERE {self.dialect.tenant} = :tenant AND {self.dialect.has_subject}
            AND sealed IS NOT NULL ORDER BY decision_id LIMIT {_MAX_ERASED}
        """
        erased = 0
        while rows := self._run_query(query, {"tenant": tenant, "subject": subject}):
            ids = [row[0] for row in rows]
            erased += self.erase_records(tenant, ids, by=by, reason=reason, now=now)
        return erased

    def erase_records(
        self,
        tenant: str,
        decision_ids: Sequence[str],
        *,
        by: str,
        reason: str,
        now: str | None = None,
    ) -> int:
        """Erase the sealed part of records, with their grants, experiences and notes of labels.

        Return of how many.

        Raises:
            InputError: It is not said who erases them and why.
        """
        author = EventAuthor.check(by, reason, now)
        erased = 0
        for start in range(0, len(decision_ids), _MAX_ERASED):
            batch = decision_ids[start : start + _MAX_ERASED]
            erased += self._erase_batch(tenant, batch, author)
        if erased:
            self._forget_deleted()
        return erased

    def _erase_batch(self, tenant: str, decision_ids: Collection[str], author: EventAuthor) -> int:
        named = {f"id_{number}": one for number, one in enumerate(decision_ids)}
        values = {"tenant": tenant, **named}
        theirs = f"""
            {self.dialect.tenant} = :tenant
            AND decision_id IN ({", ".join(f":{name}" for name in named)})
        """
        select = f"""
            SELECT decision_id FROM decision_records WHERE {theirs} AND sealed IS NOT NULL
            ORDER BY seq {self.dialect.for_update}
        """
        erase = f"UPDATE decision_records SET sealed = NULL, subject = NULL WHERE {theirs}"
        with self._open_write() as execute:
            if self.dialect.begin_erase:
                execute(self.dialect.begin_erase, {})
            head = self._lock_head(execute, tenant)
            erased = [row[0] for row in execute(select, values).fetchall()]
            if erased:
                event = self._append(execute, head, ERASE, {"decisions": erased}, author)
                # Signed grants name people as well.
                execute(_DELETE_GRANTS.format(theirs=theirs), values)
                execute(erase, values)
                self._renew_words(execute, tenant, theirs, values)
                execute(f"DELETE FROM grants WHERE {theirs}", values)
                execute(f"UPDATE labels SET note = '' WHERE {theirs}", values)
                execute(_CLOSE_ERASED.format(theirs=theirs), {**values, "now": event.created_at})
                execute(_CLEAR_VOTES.format(theirs=theirs), values)
                if execute(f"DELETE FROM experiences WHERE {theirs}", values).rowcount:
                    self._change_memory(execute, tenant)
        return len(erased)

    def _change_memory(self, execute: Execute, tenant: str) -> None:
        """Say that the experiences of a tenant changed."""
        execute(_NEXT_MEMORY, {"tenant": tenant})

    def _forget_deleted(self) -> None:
        """Remove deleted data from where the database may still keep it."""


def adopt_let_go(execute: Execute, now: str) -> None:
    """Append events for what was retired and erased before there were events.

    It runs once, in the transaction that creates their table.
    """
    what: dict[str, Any]
    for tenant, seq, record_hash, before in execute(
        "SELECT tenant, seq, record_hash, retired_before FROM chain_anchors ORDER BY tenant", {}
    ).fetchall():
        what = {"first": 1, "last": seq, "hash": record_hash, "before": before, "adopted": True}
        _adopt(execute, tenant, RETIRE, what, now)
    erased: dict[str, list[str]] = {}
    for tenant, decision_id in execute(
        "SELECT tenant, decision_id FROM decision_records WHERE sealed IS NULL"
        " ORDER BY tenant, seq",
        {},
    ).fetchall():
        erased.setdefault(tenant, []).append(decision_id)
    for tenant, ids in erased.items():
        for start in range(0, len(ids), _MAX_ERASED):
            what = {"decisions": ids[start : start + _MAX_ERASED], "adopted": True}
            _adopt(execute, tenant, ERASE, what, now)


def _adopt(execute: Execute, tenant: str, kind: str, what: Mapping[str, Any], now: str) -> None:
    found = execute(_SELECT_HEAD, {"tenant": tenant}).fetchone()
    if found is None:
        # A chain without its head is broken; an audit says so.
        return
    event = ChainEvent(
        kind=kind,
        tenant=tenant,
        created_at=now,
        by=_ADOPTED_BY,
        reason=_ADOPTED_REASON,
        what=what,
    )
    row = link_event(ChainHead(tenant, *found), event)
    execute(_INSERT_EVENT, {**row._asdict(), "event": row.event.decode()})
    execute(_SET_HEAD, row.head._asdict())
