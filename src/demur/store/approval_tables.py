"""Tables of approvals: what waits for a person, who voted, and how it ended.

A row begins in the transaction of its record. Each vote and each change is one transaction with an
event link of the chain, so the table is a view of what the chain proves.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from demur.grants.person_keys import PERSON_PREFIX
from demur.store.backend import Execute, insert_statement
from demur.store.events import APPROVAL_CLOSED, APPROVAL_ESCALATED, APPROVAL_VOTE
from demur.store.grant_tables import ALL_TENANTS, GrantRow
from demur.store.people_tables import ADMIN, PeopleSql, Person, can_sign, lock_person
from demur.store.retention import EventAuthor
from demur.store.rows import ApprovalRow, ApprovalState, ApprovalVote


class VoteProblem(StrEnum):
    """Why a vote was not taken."""

    UNKNOWN = "unknown"
    NOT_ALLOWED = "not_allowed"
    CLOSED = "closed"
    EXPIRED = "expired"
    OTHER_GROUP = "other_group"
    VOTED_BEFORE = "voted_before"
    OWN_REQUEST = "own_request"
    ERASED = "erased"


class VoteResult(NamedTuple):
    """The row after a vote; `problem` says why the vote was not taken, and nothing changed."""

    row: ApprovalRow | None
    problem: VoteProblem | None = None


_RunQuery = Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]]


class _SignedGrant(msgspec.Struct):
    key_id: str


_DELETE_VOTE = """
    DELETE FROM approval_votes WHERE decision_id = :decision_id AND person = :person
"""
_SAVE_VOTE = insert_statement("approval_votes", ApprovalVote._fields)
_SAVE_GRANT = f"{insert_statement('grants', GrantRow._fields)} ON CONFLICT DO NOTHING"
_SELECT_ROWS = f"SELECT {', '.join(ApprovalRow._fields)} FROM approvals"
_SELECT_VOTES = f"""
    SELECT {", ".join(ApprovalVote._fields)} FROM approval_votes
    WHERE decision_id = :decision_id ORDER BY voted_at, person
"""
_SELECT_APPROVING = f"""
    SELECT {", ".join(f"vote.{name}" for name in ApprovalVote._fields)}, approvals.state
    FROM approval_votes AS vote JOIN approvals USING (decision_id) WHERE vote.vote = 'approve'
"""
# INVARIANT: of several who close a request at once, one does.
_CLOSE = """
    UPDATE approvals SET state = :state, closed_at = :closed_at, closed_by = :closed_by,
        note = :note, resolution_id = :resolution_id
    WHERE decision_id = :decision_id AND state = 'waiting'
"""
_MOVE = """
    UPDATE approvals SET group_name = :group_name
    WHERE decision_id = :decision_id AND state = 'waiting' AND group_name = :before
"""
_NOTIFY = """
    UPDATE approvals SET notified = :notice
    WHERE decision_id = :decision_id AND notified = :before
"""
_MAX_NAMED = 200
_OPEN_PAGE = 500


def _read_row(row: Sequence[Any]) -> ApprovalRow:
    read = ApprovalRow(*row)
    codes = msgspec.json.decode(row[3], type=tuple[str, ...])
    return read._replace(reason_codes=codes, kinds=tuple(row[4].split()))


def _read_vote(row: Sequence[Any]) -> ApprovalVote:
    *others, limits, digests, voted_at = row
    read_limits = msgspec.json.decode(limits, type=dict[str, Any])
    return ApprovalVote._make((*others, read_limits, tuple(digests.split()), voted_at))


class ApprovalSql(PeopleSql):
    """The statements that list approvals, take votes, and close them."""

    def list_approvals(
        self,
        tenant: str | None = None,
        state: str | None = None,
        groups: Collection[str] | None = None,
        start: str | None = None,
        limit: int = _OPEN_PAGE,
        *,
        oldest_first: bool = False,
    ) -> list[ApprovalRow]:
        """Return approvals, newest or oldest first, from behind the decision id `start` on.

        With `groups`, those that one of the groups decides, and those that any approver does.
        """
        tests = {"tenant": tenant, "state": state, "start": start}
        values: dict[str, Any] = {name: one for name, one in tests.items() if one is not None}
        behind = f"decision_id {'>' if oldest_first else '<'} :start"
        conditions = [behind if name == "start" else f"{name} = :{name}" for name in values]
        if groups is not None:
            conditions.append(_among("group_name", ("", *groups), values))
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        order = "decision_id" if oldest_first else "decision_id DESC"
        query = f"{_SELECT_ROWS} {where} ORDER BY {order} LIMIT :limit"
        return [_read_row(row) for row in self._run_query(query, {**values, "limit": limit})]

    def list_open_approvals(self, after: str = "") -> list[ApprovalRow]:
        """Return a page of what waits for a person or, approved, for its resolution."""
        query = f"""
            {_SELECT_ROWS} WHERE decision_id > :after AND (state = 'waiting'
            OR (state = 'approved' AND resolution_id IS NULL))
            ORDER BY decision_id LIMIT {_OPEN_PAGE}
        """
        return [_read_row(row) for row in self._run_query(query, {"after": after})]

    def list_closed_approvals(self, since: str) -> list[ApprovalRow]:
        """Return what was closed since a time, latest first, and at most one page of it."""
        query = f"""
            {_SELECT_ROWS} WHERE closed_at >= :since ORDER BY closed_at DESC LIMIT {_OPEN_PAGE}
        """
        return [_read_row(row) for row in self._run_query(query, {"since": since})]

    def count_waiting(
        self, tenant: str | None = None, groups: Collection[str] | None = None, now: str = ""
    ) -> int:
        """Return how many requests wait and have not expired at `now`."""
        values: dict[str, Any] = {"tenant": tenant, "now": now}
        mine = "" if groups is None else f"AND {_among('group_name', ('', *groups), values)}"
        query = f"""
            SELECT COUNT(*) FROM approvals WHERE state = 'waiting' AND expires_at > :now
            AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) {mine}
        """
        return int(self._run_query(query, values)[0][0])

    def get_approval(self, decision_id: str, tenant: str | None = None) -> ApprovalRow | None:
        """Return the approval of a decision (of that tenant), or None if nobody is asked."""
        rows = self.find_approvals([decision_id])
        return rows[0] if rows and tenant in {None, rows[0].tenant} else None

    def find_approvals(self, decision_ids: Collection[str]) -> list[ApprovalRow]:
        """Return the approvals of decisions, in no order."""
        listed, found = list(dict.fromkeys(decision_ids)), []
        for start in range(0, len(listed), _MAX_NAMED):
            values: dict[str, Any] = {}
            test = _among("decision_id", listed[start : start + _MAX_NAMED], values)
            found += self._run_query(f"{_SELECT_ROWS} WHERE {test}", values)
        return [_read_row(row) for row in found]

    def list_votes(self, decision_id: str) -> list[ApprovalVote]:
        """Return the votes on a decision, oldest first."""
        rows = self._run_query(_SELECT_VOTES, {"decision_id": decision_id})
        return [_read_vote(row) for row in rows]

    def count_votes(self, decision_ids: Collection[str], now: str) -> dict[str, int]:
        """Return how many people approved each of the decisions; others are left out.

        While a request waits, only those count whose yes still holds at `now`.
        """
        return Counter(vote.decision_id for vote in self.find_approving_votes(decision_ids, now))

    def find_approving_votes(self, decision_ids: Collection[str], now: str) -> list[ApprovalVote]:
        """Return the votes that approve decisions and, while those wait, still hold at `now`."""
        listed, found = list(dict.fromkeys(decision_ids)), []
        for start in range(0, len(listed), _MAX_NAMED):
            values: dict[str, Any] = {}
            test = _among("decision_id", listed[start : start + _MAX_NAMED], values)
            rows = self._run_query(f"{_SELECT_APPROVING} AND {test}", values)
            waiting = {one[0] for one in rows if one[-1] == ApprovalState.WAITING}
            votes = [_read_vote(row[:-1]) for row in rows]
            open_votes = [vote for vote in votes if vote.decision_id in waiting]
            lapsed = self._find_lapsed(self._run_query, open_votes, now)
            logins = {vote.person.removeprefix(PERSON_PREFIX) for vote in open_votes}
            known = map(self.get_person, sorted(logins))
            people = {one.login for one in known if one is not None and can_sign(one)}
            found += [
                vote
                for vote in votes
                if vote.decision_id not in waiting
                or (
                    vote.person.removeprefix(PERSON_PREFIX) in people
                    and lapsed.isdisjoint(vote.grant_digests)
                )
            ]
        return found

    def add_vote(self, vote: ApprovalVote, grants: Sequence[GrantRow] = ()) -> VoteResult:
        """Store a vote, and close the request if it decides: one transaction with its events.

        `grants` are those that the vote gives. Nothing is stored if the vote cannot be taken.

        Raises:
            InputError: The person or the note cannot stand in the chain.
        """
        reason = vote.note or f"{vote.vote} without a note"
        author = EventAuthor.check(vote.person, reason, vote.voted_at)
        place = {"decision_id": vote.decision_id, "tenant": vote.tenant}
        select = f"{_SELECT_ROWS} WHERE decision_id = :decision_id AND tenant = :tenant"
        with self._open_write() as execute:
            # The head is locked first, as by decisions, so that votes come one after the other.
            self._lock_head(execute, vote.tenant)
            found = execute(f"{select} {self.dialect.for_update}", place).fetchone()
            row = None if found is None else _read_row(found)
            votes = [_read_vote(one) for one in execute(_SELECT_VOTES, place).fetchall()]
            people = self._lock_voters(execute, [*votes, vote])
            lapsed = self._find_lapsed(
                lambda query, values: execute(query, values).fetchall(), votes, vote.voted_at
            )
            standing = [one for one in votes if lapsed.isdisjoint(one.grant_digests)]
            problem = _vote_problem(row, vote, standing, people.get(vote.person))
            if row is None or problem is not None:
                return VoteResult(row, problem)
            # Of two votes of one person, the later one stays here; the chain has both.
            execute(_DELETE_VOTE, vote.to_columns())
            execute(_SAVE_VOTE, vote.to_columns())
            for grant in grants:
                execute(_SAVE_GRANT, grant._asdict())
            # INVARIANT: the yes of a person counts only as long as they may approve.
            # It counts no longer than its grants do, which the resolution needs.
            given = sum(one.vote == "approve" and one.person in people for one in (*standing, vote))
            what = {
                "decision": vote.decision_id,
                "vote": vote.vote,
                "given": given,
                "needed": row.needed,
                "limits": dict(vote.limits),
                "grants": list(vote.grant_digests),
            }
            self._add_event(execute, vote.tenant, APPROVAL_VOTE, what, author)
            state = ApprovalState.DECLINED if vote.vote == "decline" else ApprovalState.APPROVED
            if vote.vote == "approve" and given < row.needed:
                return VoteResult(row)
            return VoteResult(self._close(execute, row, state, vote.note, author))

    def _lock_voters(self, execute: Execute, votes: Collection[ApprovalVote]) -> dict[str, Person]:
        """Return who of the voters may approve now; nobody can change them during this write."""
        people = {}
        # In order, so that two votes cannot wait for each other.
        for name in sorted({vote.person for vote in votes}):
            login = name.removeprefix(PERSON_PREFIX)
            person = lock_person(execute, login, self.dialect.for_update)
            if name.startswith(PERSON_PREFIX) and person is not None and can_sign(person):
                people[name] = person
        return people

    def _find_lapsed(
        self, run_query: _RunQuery, votes: Collection[ApprovalVote], now: str
    ) -> frozenset[str]:
        """Return digests of grants that expired, were revoked, or whose key was retired."""
        digests = {one for vote in votes for one in vote.grant_digests}
        if not digests:
            return frozenset()
        values: dict[str, Any] = {"every": ALL_TENANTS}
        query = f"""
            SELECT digest, expires_at, signed_grant, EXISTS (
                SELECT 1 FROM grant_revocations AS revoked
                WHERE revoked.tenant IN (grants.tenant, :every)
                AND revoked.grant_id = grants.grant_id
            ) FROM grants WHERE {_among("digest", digests, values)}
        """
        rows = run_query(query, values)
        keys = {row[0]: msgspec.json.decode(row[2], type=_SignedGrant).key_id for row in rows}
        named: dict[str, Any] = {}
        retired = f"""
            SELECT key_id FROM person_keys
            WHERE retired_at IS NOT NULL AND {_among("key_id", {*keys.values()}, named)}
        """
        gone = {row[0] for row in run_query(retired, named)} if keys else set()
        return frozenset(
            digest
            for digest, expires_at, _, revoked in rows
            if revoked or expires_at <= now or keys[digest] in gone
        )

    def close_approval(self, row: ApprovalRow, *, now: str, by: str, reason: str) -> bool:
        """Close a request that nobody decided in time; return whether this call did."""
        author = EventAuthor.check(by, reason, now)
        with self._open_write() as execute:
            self._lock_head(execute, row.tenant)
            closed = self._close(execute, row, ApprovalState.EXPIRED, reason, author)
        return closed is not row

    def move_approval(
        self, row: ApprovalRow, group: str, *, now: str, by: str, reason: str
    ) -> bool:
        """Have another group decide; return whether this call moved the request."""
        author = EventAuthor.check(by, reason, now)
        values = {"decision_id": row.decision_id, "group_name": group, "before": row.group_name}
        with self._open_write() as execute:
            self._lock_head(execute, row.tenant)
            if execute(_MOVE, values).rowcount <= 0:
                return False
            what = {"decision": row.decision_id, "from": row.group_name, "to": group}
            self._add_event(execute, row.tenant, APPROVAL_ESCALATED, what, author)
        return True

    def claim_notice(self, row: ApprovalRow, notice: str) -> bool:
        """Note that a notice goes out; return False if another process sends it already."""
        values = {"decision_id": row.decision_id, "notice": notice, "before": row.notified}
        with self._open_write() as execute:
            return bool(execute(_NOTIFY, values).rowcount > 0)

    def _close(
        self,
        execute: Execute,
        row: ApprovalRow,
        state: ApprovalState,
        note: str,
        author: EventAuthor,
    ) -> ApprovalRow:
        """Close a waiting row and say so in the chain; return the row as it is if it was closed."""
        closed = row._replace(
            state=str(state), closed_at=author.now, closed_by=author.by, note=note
        )
        if execute(_CLOSE, closed.to_columns()).rowcount <= 0:
            return row
        what = {"decision": row.decision_id, "state": str(state)}
        self._add_event(execute, row.tenant, APPROVAL_CLOSED, what, author)
        return closed

    def _add_event(
        self,
        execute: Execute,
        tenant: str,
        kind: str,
        what: Mapping[str, Any],
        author: EventAuthor,
    ) -> None:
        self._append(execute, self._lock_head(execute, tenant), kind, what, author)


def _vote_problem(
    row: ApprovalRow | None,
    vote: ApprovalVote,
    votes: Sequence[ApprovalVote],
    person: Person | None,
) -> VoteProblem | None:
    """Return why a vote cannot be taken, or None if it can; without a person, nobody may."""
    if row is None or (person is not None and person.tenant not in {"", row.tenant}):
        return VoteProblem.UNKNOWN
    if person is None:
        return VoteProblem.NOT_ALLOWED
    groups = {"", *person.groups.split()}
    checks = (
        # INVARIANT: a vote that is sent again changes nothing, and says so.
        (any(one.person == vote.person for one in votes), VoteProblem.VOTED_BEFORE),
        (row.state != ApprovalState.WAITING, VoteProblem.CLOSED),
        (row.expires_at <= vote.voted_at, VoteProblem.EXPIRED),
        (person.role != ADMIN and row.group_name not in groups, VoteProblem.OTHER_GROUP),
    )
    return next((problem for failed, problem in checks if failed), None)


def _among(column: str, names: Collection[str], values: dict[str, Any]) -> str:
    """Return the test that a column is one of the names, whose values are added."""
    named = {f"{column}_{number}": name for number, name in enumerate(names)}
    values.update(named)
    return f"{column} IN ({', '.join(f':{name}' for name in named)})"
