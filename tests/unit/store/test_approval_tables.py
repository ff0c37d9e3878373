"""What waits for a person, on each backend: rows, votes, races, erasure and retention."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from support.people import add_person
from support.store_records import decision_id, make_record, moment

from demur.errors import InputError
from demur.store.approval_tables import VoteProblem, VoteResult
from demur.store.events import ChainEvent, read_event
from demur.store.grant_tables import RecordGrants
from demur.store.linking import record_to_row, store_batch
from demur.store.people_tables import PersonChange
from demur.store.postgres import open_postgres
from demur.store.rows import ApprovalRow, ApprovalVote, ResolvedApproval
from demur.store.sql import Backend
from demur.store.sqlite import SqliteBackend
from demur.store.store import Store
from demur.store.verify import verify_chain

Opener = Callable[[], Backend]
LATE = "2028-11-20T00:00:00.000Z"


@pytest.fixture(params=["sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "sqlite":
        return lambda: SqliteBackend(str(tmp_path / "store.db"))
    url = request.getfixturevalue("postgres_url")
    return lambda: open_postgres(url, timeout_s=10)


@pytest.fixture
def backend(opener: Opener) -> Iterator[Backend]:
    opened = opener()
    yield opened
    opened.close()


def approval(number: int, **fields: Any) -> ApprovalRow:
    row = ApprovalRow(
        decision_id=decision_id(number),
        tenant="acme",
        action_type="refund",
        reason_codes=("REFUND_OVER_ESCALATION_LIMIT",),
        kinds=("approval",),
        needed=1,
        requested_at=moment(number),
        expires_at=LATE,
    )
    return row._replace(**fields)


def open_rows(backend: Backend, *rows: ApprovalRow) -> None:
    """Store a record for each row, with its request for approval, and people who decide."""
    for login in ("ada", "bo", "cy"):
        add_person(Store(backend), login, tenant="acme", groups="leads")
    records = [
        make_record(int(row.decision_id[3:]), tenant=row.tenant, decision_id=row.decision_id)
        for row in rows
    ]
    grants = {row.decision_id: RecordGrants(opens=row) for row in rows}
    store_batch(backend, list(map(record_to_row, records)), grants=grants)


def vote(number: int, person: str = "person:ada", **fields: Any) -> ApprovalVote:
    made = ApprovalVote(
        decision_id=decision_id(number),
        tenant="acme",
        person=person,
        vote="approve",
        note="the ticket is there",
        limits={"valid_s": 3600},
        grant_digests=("sha256:1",),
        voted_at=moment(30),
    )
    return made._replace(**fields)


def events(backend: Backend) -> list[ChainEvent]:
    found = [read_event(row) for row in backend.read_events("acme")]
    return [one for one in found if one.kind.startswith("approval_")]


def courses(backend: Backend) -> list[tuple[str, str, Any]]:
    return [
        (one.kind, one.by, one.what.get("state") or one.what.get("given"))
        for one in events(backend)
    ]


def test_a_row_begins_with_its_record(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2, tenant="globex"), approval(3, group_name="leads"))

    assert backend.get_approval(decision_id(1)) == approval(1)
    assert backend.get_approval(decision_id(1), "globex") is None
    assert backend.get_approval("none") is None
    assert [row.decision_id for row in backend.list_approvals("acme")] == [
        decision_id(3),
        decision_id(1),
    ]
    assert backend.list_approvals("acme", groups=["desk"]) == [approval(1)]
    assert len(backend.list_approvals("acme", "waiting", ["leads"])) == 2
    assert backend.list_approvals(start=decision_id(2)) == [approval(1)]
    assert backend.list_approvals("acme", start=decision_id(1), oldest_first=True) == [
        approval(3, group_name="leads")
    ]
    assert backend.list_approvals("acme", oldest_first=True)[0] == approval(1)
    assert backend.list_approvals(state="approved") == []
    assert backend.list_approvals("acme", "' OR 1=1 --", ["'; DROP TABLE approvals; --"]) == []
    assert backend.count_waiting() == 3
    assert backend.count_waiting("acme") == 2
    assert backend.count_waiting("acme", ["desk"]) == 1
    assert backend.count_waiting("acme", now=LATE) == 0


def test_a_repeated_request_begins_nothing(backend: Backend) -> None:
    record = make_record(1, request_id="r-1")
    row = approval(1, decision_id=record.decision_id, tenant=record.tenant)
    grants = {row.decision_id: RecordGrants(opens=row)}
    store_batch(backend, [record_to_row(record)], grants=grants)
    again = make_record(2, request_id="r-1")
    other = row._replace(decision_id=again.decision_id)
    store_batch(
        backend, [record_to_row(again)], grants={again.decision_id: RecordGrants(opens=other)}
    )

    assert len(backend.list_approvals()) == 1


def test_one_vote_approves_and_is_an_event(backend: Backend) -> None:
    open_rows(backend, approval(1))
    result = backend.add_vote(vote(1))

    closed = backend.get_approval(decision_id(1))
    assert result == VoteResult(closed)
    assert closed is not None
    assert (closed.state, closed.closed_by, closed.closed_at) == (
        "approved",
        "person:ada",
        moment(30),
    )
    assert backend.list_votes(decision_id(1)) == [vote(1)]
    assert backend.count_votes([decision_id(1), decision_id(2)], moment(31)) == {decision_id(1): 1}
    assert courses(backend) == [
        ("approval_vote", "person:ada", 1),
        ("approval_closed", "person:ada", "approved"),
    ]
    assert events(backend)[0].reason == "the ticket is there"
    assert verify_chain(backend).breaks == ()


def test_two_people_are_needed_where_two_are_needed(backend: Backend) -> None:
    """INVARIANT: a vote that is sent again changes nothing, and says so."""
    open_rows(backend, approval(1, needed=2))
    first = backend.add_vote(vote(1))
    again = backend.add_vote(vote(1, voted_at=moment(31)))
    assert first.row is not None
    assert (first.row.state, first.problem) == ("waiting", None)
    assert again.problem is VoteProblem.VOTED_BEFORE

    second = backend.add_vote(vote(1, "person:bo"))
    assert second.row is not None
    assert (second.row.state, second.row.closed_by) == ("approved", "person:bo")
    assert [one.what.get("given") for one in events(backend)] == [1, 2, None]


def change(backend: Backend, login: str, **what: Any) -> None:
    said = {"by": "admin", "reason": "a change", "now": moment(30)}
    backend.change_person(login, PersonChange(**what), **said)


@pytest.mark.parametrize("what", [{"role": "reviewer"}, {"disabled": True}])
def test_the_yes_of_a_person_who_lost_the_role_no_longer_counts(
    backend: Backend, what: dict[str, Any]
) -> None:
    """INVARIANT: the yes of a person counts only as long as they may approve."""
    open_rows(backend, approval(1, needed=2))
    backend.add_vote(vote(1))
    change(backend, "ada", **what)
    second = backend.add_vote(vote(1, "person:bo"))
    assert second.row is not None
    assert second.row.state == "waiting"
    assert backend.add_vote(vote(1, voted_at=moment(31))).problem is VoteProblem.NOT_ALLOWED

    third = backend.add_vote(vote(1, "person:cy"))
    assert third.row is not None
    assert third.row.state == "approved"
    assert [one.what.get("given") for one in events(backend)] == [1, 1, 2, None]


def test_a_person_who_says_no_closes_it(backend: Backend) -> None:
    open_rows(backend, approval(1, needed=2))
    backend.add_vote(vote(1))
    no = vote(1, "person:bo", vote="decline", note="not that one", grant_digests=(), limits={})
    result = backend.add_vote(no)

    assert result.row is not None
    assert (result.row.state, result.row.note) == ("declined", "not that one")
    late = backend.add_vote(vote(1, "person:cy"))
    assert late.problem is VoteProblem.CLOSED
    assert len(backend.list_votes(decision_id(1))) == 2
    assert courses(backend)[-1] == ("approval_closed", "person:bo", "declined")


def test_votes_that_cannot_be_taken_change_nothing(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2, group_name="leads", expires_at=moment(31)))
    late = vote(2, voted_at=moment(31))
    store = Store(backend)
    add_person(store, "root", "admin", tenant="")
    add_person(store, "reader", "reader", tenant="acme")
    add_person(store, "desk", tenant="acme", groups="desk")
    add_person(store, "elsewhere", tenant="globex", groups="leads")

    assert backend.add_vote(vote(1, tenant="globex")).problem is VoteProblem.UNKNOWN
    assert backend.add_vote(vote(3)).problem is VoteProblem.UNKNOWN
    assert backend.add_vote(vote(2, "person:desk")).problem is VoteProblem.OTHER_GROUP
    assert backend.add_vote(vote(2, "person:elsewhere")).problem is VoteProblem.UNKNOWN
    for name in ("person:reader", "person:nobody", "ada", "user:ada", "person:' OR 1=1 --"):
        assert backend.add_vote(vote(2, name)).problem is VoteProblem.NOT_ALLOWED
    assert backend.add_vote(late).problem is VoteProblem.EXPIRED
    for bad in (vote(1, ""), vote(1, note="two\nlines"), vote(1, note="x" * 1001)):
        with pytest.raises(InputError):
            backend.add_vote(bad)
    assert backend.list_votes(decision_id(1)) == []
    assert events(backend) == []
    assert backend.add_vote(vote(2, "person:root")).problem is None


@pytest.mark.parametrize("other", ["approve", "decline"])
def test_of_two_people_at_once_one_decides(opener: Opener, other: str) -> None:
    """INVARIANT: of several who close a request at once, one does."""
    with closing(opener()) as first, closing(opener()) as second:
        open_rows(first, approval(1))
        check_race(first, second, other)


def check_race(first: Backend, second: Backend, other: str) -> None:
    barrier = Barrier(2)
    votes = (vote(1), vote(1, "person:bo", vote=other))

    def cast(pair: tuple[Backend, ApprovalVote]) -> VoteResult:
        barrier.wait()
        return pair[0].add_vote(pair[1])

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(cast, zip((first, second), votes, strict=True)))
    assert sorted(str(one.problem) for one in results) == ["None", "closed"]
    winner = next(one.row for one in results if one.problem is None)
    assert first.get_approval(decision_id(1)) == winner
    assert [kind for kind, _, _ in courses(first)] == ["approval_vote", "approval_closed"]
    assert verify_chain(first).breaks == ()


def test_a_request_expires_once_and_moves_from_where_it_stood(backend: Backend) -> None:
    row = approval(1, group_name="desk")
    open_rows(backend, row)
    said = {"now": moment(40), "by": "demur", "reason": "nobody decided in time"}

    assert backend.move_approval(row, "leads", **said) is True
    assert backend.move_approval(row, "leads", **said) is False
    moved = backend.get_approval(decision_id(1))
    assert moved == row._replace(group_name="leads")
    assert backend.list_open_approvals() == [moved]
    assert backend.close_approval(moved, **said) is True
    assert backend.close_approval(moved, **said) is False
    assert backend.list_open_approvals() == []
    assert [one.kind for one in events(backend)] == ["approval_escalated", "approval_closed"]


def test_a_notice_is_claimed_by_one_process(backend: Backend) -> None:
    open_rows(backend, approval(1))

    assert backend.claim_notice(approval(1), "opened") is True
    assert backend.claim_notice(approval(1), "opened") is False
    assert backend.claim_notice(approval(1, notified="opened"), "leads") is True


def test_a_resolution_ends_the_request_in_its_own_transaction(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2), approval(3))
    backend.add_vote(vote(2))
    backend.add_vote(vote(3, vote="decline"))
    for number, resolution in ((1, 4), (2, 5), (3, 6), (2, 7)):
        one = ResolvedApproval(
            decision_id(number), decision_id(resolution), moment(50), "user:mary"
        )
        record = make_record(resolution, tenant="acme")
        grants = {record.decision_id: RecordGrants(resolves=one)}
        store_batch(backend, [record_to_row(record)], grants=grants)

    ends = [
        (row.state, row.closed_by, row.resolution_id) for row in reversed(backend.list_approvals())
    ]
    assert ends == [
        ("approved", "user:mary", decision_id(4)),
        ("approved", "person:ada", decision_id(5)),
        ("declined", "person:ada", None),
    ]


def test_erasing_ends_what_waits_and_clears_what_was_noted(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2), approval(3))
    backend.add_vote(vote(2, note="it is for Hana Ito"))
    ids = [decision_id(1), decision_id(2)]
    backend.erase_records("acme", ids, by="dpo", reason="asked for it")

    first, second, third = (backend.get_approval(decision_id(number)) for number in (1, 2, 3))
    assert first is not None
    assert second is not None
    # The second was approved, and its resolution was not made yet: now nobody can make it.
    assert (first.state, second.state) == ("expired", "expired")
    assert second.note == ""
    assert backend.list_votes(decision_id(2)) == [vote(2, note="", limits={})]
    assert third == approval(3)
    assert backend.add_vote(vote(1)).problem is VoteProblem.CLOSED


def test_retiring_takes_requests_and_votes_along(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2))
    backend.add_vote(vote(1))
    backend.retire_records("acme", moment(2), by="ops", reason="old")

    assert [row.decision_id for row in backend.list_approvals()] == [decision_id(2)]
    assert backend.list_votes(decision_id(1)) == []
    assert verify_chain(backend).breaks == ()


def test_what_was_closed_lately_is_listed(backend: Backend) -> None:
    open_rows(backend, approval(1), approval(2))
    assert backend.list_closed_approvals("") == []
    assert backend.close_approval(approval(1), now=moment(40), by="demur", reason="too late")

    assert [row.decision_id for row in backend.list_closed_approvals(moment(40))] == [
        decision_id(1)
    ]
    assert backend.list_closed_approvals(moment(41)) == []
