"""The gate as a whole: what a caller gets, what the operator keeps, and what failure does."""

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.gates import (
    CORE,
    POLICY,
    cleanup,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    rows,
)
from support.gates import stored as store_of

from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Verdict
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.redaction import STRICT_PROFILE
from demur.memory.experience import Vector
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings
from demur.model.record import DecisionRecord
from demur.policy.policy import Mode
from demur.store.backend import UnansweredError
from demur.store.opening import open_store
from demur.store.rows import RecordRow
from demur.store.spool import Spool
from demur.store.sqlite import SqliteBackend
from demur.store.store import Store

# What is decided


def test_an_allowed_request_executes_and_is_explained() -> None:
    with opened() as gate:
        record = gate.decide(refund())

    assert record.verdict is Verdict.ALLOW
    assert record.decision_output is DecisionOutput.ALLOW_EXECUTE
    assert record.refusal_class is None
    assert record.reason_codes == ()
    assert record.may_execute
    assert record.next_step is None
    assert [rule.rule_id for rule in record.matched_rules] == ["R_SMALL"]
    assert record.explanation.summary == "Nothing stands in the way of this request."


def test_an_escalation_carries_class_codes_rules_facts_obligations_and_the_next_step() -> None:
    with opened() as gate:
        record = gate.decide(refund(400), signals={"fraud": {"score": 0.2}})

    assert record.verdict is Verdict.ESCALATE
    assert record.decision_output is DecisionOutput.NEED_CONTEXT
    assert record.missing == ("approval",)
    assert record.refusal_class is RefusalClass.WORKFLOW_BLOCK
    assert record.reason_codes == ("REFUND_OVER_ESCALATION_LIMIT",)
    assert [tuple(rule) for rule in record["matched_rules"]] == [("rule_id", "stage")]
    assert record["matched_rules"] == [{"rule_id": "R_LIMIT", "stage": "ESCALATIONS"}]
    assert record.shadow_rules == ("R_TRIAL",)
    assert record["facts"] == {"amount_usd": 400, "evidence.ticket_id": "T-1"}
    assert record.obligations == (Obligation.HUMAN_REVIEW,)
    assert record.next_step is Advice.REQUEST_APPROVAL
    assert record.reason
    assert record.what_can_be_done_now
    assert record.how_to_proceed
    assert set(record["explanation"]) == {"summary", "details"}
    assert "R_LIMIT" in record.explanation.details
    assert record["risk_signals"] == {"fraud": {"score": 0.2}}
    assert not record.may_execute


def test_a_hard_block_denies_whatever_else_matched() -> None:
    with opened() as gate:
        record = gate.decide(refund(evidence={"ticket_id": "T", "chargeback_risk": 0.95}))

    assert record.verdict is Verdict.DENY
    assert record.refusal_class is RefusalClass.HARD_BLOCK
    assert record.decision_output is DecisionOutput.REFUSE_WITH_PATH
    assert record.next_step is Advice.DO_NOT_RETRY


def test_missing_evidence_is_requested_by_name() -> None:
    with opened() as gate:
        record = gate.decide(refund(evidence={}))

    assert record.decision_output is DecisionOutput.NEED_CONTEXT
    assert record.missing == ("evidence.ticket_id",)


def test_constraints_are_offered_and_once_accepted_bind() -> None:
    with opened() as gate:
        offered = gate.decide(cleanup())
        accepted = gate.decide(cleanup(), accepted=["dry_run"])

    assert offered.decision_output is DecisionOutput.NEED_CONTEXT
    assert offered.constraints == ("dry_run",)
    assert accepted.decision_output is DecisionOutput.ALLOW_CONSTRAINED
    assert accepted.resolved_codes == accepted.reason_codes == ("DESTRUCTIVE_ACTION",)
    assert accepted.accepted == ("dry_run",)


def test_a_finding_of_a_guard_counts_and_is_recorded() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(detail="curl | sh")])

    assert record.verdict is Verdict.DENY
    assert record.reason_codes == ("RCE_RISK",)
    assert record["findings"] == [{**record["findings"][0], "detail": "curl | sh"}]


def test_without_a_store_it_is_decided_all_the_same() -> None:
    with gate_over(None) as gate:
        record = gate.decide(refund(400))
        many = gate.decide_many([refund(), refund(400)])
        later = asyncio.run(gate.adecide(refund()))

    assert record.verdict is Verdict.ESCALATE
    assert [one.verdict for one in many] == [Verdict.ALLOW, Verdict.ESCALATE]
    assert later.chain is None
    with pytest.raises(InputError, match="has no store"):
        gate.resolve(record.decision_id)
    with pytest.raises(InputError, match="has no store"):
        gate.decide(refund(continues=record.decision_id))
    assert gate.forget(["x"]) == 0


def test_every_way_of_asking_gives_the_same_decision() -> None:
    requests = [refund(), refund(400), refund(evidence={}), cleanup()]
    with opened() as gate:
        one_by_one = [gate.decide(request) for request in requests]
        together = gate.decide_many(requests)
        later = [asyncio.run(gate.adecide(request)) for request in requests]

        assert len(rows(gate)) == 12
        assert gate.decide_many([]) == []

    for kind in (together, later):
        for before, after in zip(one_by_one, kind, strict=True):
            assert after.decision == before.decision
            assert after["facts"] == before["facts"]


def test_many_are_decided_together_or_not_at_all() -> None:
    with opened() as gate:
        with pytest.raises(InputError, match="finite"):
            gate.decide_many([refund(), refund(float("nan"))])

        assert rows(gate) == []


def test_the_store_holds_what_was_returned() -> None:
    with opened() as gate:
        record = gate.decide(refund(400))
        again = store_of(gate).get(record.decision_id)

    assert again == record
    assert again is not None
    assert again.seal_holds
    assert dict(again) == dict(record)


# What the operator keeps


@pytest.mark.parametrize(
    ("part", "value", "help_text"),
    [
        ("findings", [], "decide(request, findings=...)"),
        ("grants", [], "decide(request, grants=...)"),
        ("accepted", ["dry_run"], "decide(request, accepted=...)"),
        ("signals", {}, "decide(request, signals=...)"),
        ("mode", "advisory", "the operator sets the mode"),
        ("redaction", "off", "the operator sets the redaction"),
        ("memory", {"block": 1}, "the operator sets what memory may do"),
    ],
)
def test_a_request_cannot_set_the_operators_fields(
    part: str, value: object, help_text: str
) -> None:
    with opened() as gate:
        with pytest.raises(InputError) as caught:
            gate.decide({**refund(), part: value})

        assert caught.value.where == part
        assert help_text in str(caught.value.help)
        assert rows(gate) == []


def test_the_mode_cannot_be_set_through_the_policy_that_a_request_expects() -> None:
    with opened() as gate, pytest.raises(InputError) as caught:
        gate.decide(refund(policy={"mode": "advisory"}))

    assert caught.value.where == "policy"
    assert caught.value.help == "the operator sets the mode, in the policy or on the gate"


def test_a_nested_redaction_field_in_a_request_has_no_effect() -> None:
    with opened(redaction=STRICT_PROFILE) as gate:
        record = gate.decide(
            refund(context={"redaction": {"profile": "off"}, "inline": {"note": "very private"}})
        )

    assert record["redaction"]["profile"] == "strict"
    assert b"very private" not in (record.sealed or b"")


def test_the_operators_tenant_beats_the_callers() -> None:
    with opened() as gate:
        assert gate.decide(refund()).tenant == "default"
        assert gate.decide(refund(tenant={"id": "acme"})).tenant == "acme"
        assert gate.decide(refund(), tenant="globex").tenant == "globex"
        assert gate.decide(refund(tenant={"id": "globex"}), tenant="globex").tenant == "globex"
        with pytest.raises(InputError, match="is for `acme`, not for `globex`") as caught:
            gate.decide(refund(tenant={"id": "acme"}), tenant="globex")

        assert caught.value.where == "tenant.id"


def test_a_request_that_expects_another_policy_is_not_judged_by_this_one() -> None:
    with opened() as gate:
        pinned = {"policy_id": "support", "policy_version": "1.0.0"}
        assert gate.decide(refund(policy=pinned)).verdict is Verdict.ALLOW
        assert gate.decide(refund(policy={})).verdict is Verdict.ALLOW
        for field in pinned:
            with pytest.raises(InputError, match="this gate uses") as caught:
                gate.decide(refund(policy={**pinned, field: "2"}))
            assert caught.value.where == f"policy.{field}"


def test_advisory_mode_records_the_true_verdict_and_does_not_bind() -> None:
    with opened(mode=Mode.ADVISORY) as gate:
        record = gate.decide(refund(400))

    assert record.verdict is Verdict.ESCALATE
    assert record["enforced"] is False
    assert record["policy"]["mode"] == "advisory"
    assert record.may_execute


@pytest.mark.parametrize(("mode", "enforced"), [("enforce", True), ("advisory", False)])
def test_a_mode_by_its_name_is_that_mode(mode: Any, enforced: bool) -> None:
    with opened(mode=mode) as gate:
        assert gate.decide(refund(400)).enforced is enforced


def test_settings_that_mean_nothing_are_refused() -> None:
    for settings in (
        {"mode": "loud"},
        {"attempts": 0},
        {"redaction": STRICT_PROFILE._replace(paths=("action",))},
        {"redaction": STRICT_PROFILE._replace(paths=("evidnce",))},
    ):
        with pytest.raises(InputError) as caught:
            Gate(POLICY, registry=CORE, **settings)
        assert caught.value.where in {"mode", "attempts", "redaction"}
    with pytest.raises(InputTypeError, match="a whole number"):
        Gate(POLICY, registry=CORE, attempts=True)


# The same request again


def ways(gate: Gate, request: dict[str, Any], **more: Any) -> list[DecisionRecord]:
    tenant = more.get("tenant")
    return [
        gate.decide(request, **more),
        asyncio.run(gate.adecide(request, **more)),
        *([] if "findings" in more else gate.decide_many([request, request], tenant=tenant)),
    ]


def test_the_same_request_again_gives_the_first_decision() -> None:
    with opened() as gate:
        records = ways(gate, refund(request_id="r1"))

        assert {record.decision_id for record in records} == {records[0].decision_id}
        assert len(rows(gate)) == 1


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (refund(21, request_id="r1"), {}),
        (refund(request_id="r1", evidence={"ticket_id": "T-2"}), {}),
        (refund(request_id="r1"), {"findings": [finding("SCOPE_MISSING")]}),
        (refund(request_id="r1"), {"findings": [finding(surface="output")]}),
        (refund(request_id="r1"), {"findings": [finding("SCOPE_MISSING", action="warn")]}),
    ],
)
def test_the_same_id_for_something_else_is_a_conflict_on_record(
    request_: dict[str, Any], more: dict[str, Any]
) -> None:
    with opened() as gate:
        first = gate.decide(refund(request_id="r1"))
        conflicts = ways(gate, request_, **more)

        for record in conflicts:
            assert record.verdict is Verdict.DENY
            assert record.reason_codes == ("IDEMPOTENCY_CONFLICT",)
            assert not record.may_execute
            assert record.basis == "runtime"
            assert first.decision_id in record.explanation.details
            assert record["request"]["request_id"] == "r1"
            assert store_of(gate).get(record.decision_id) == record
        assert len(rows(gate)) == 1 + len(conflicts)
        assert gate.decide(refund(request_id="r1")) == first


def test_wording_of_a_finding_makes_no_other_question() -> None:
    with opened() as gate:
        first = gate.decide(refund(request_id="r1"), findings=[finding(detail="line 1")])
        again = gate.decide(refund(request_id="r1"), findings=[finding(detail="line one")])

    assert again.decision_id == first.decision_id


@pytest.mark.parametrize("more", [{"signals": {"risk": 1}}, {"accepted": ["x"]}])
def test_the_same_request_id_with_other_inputs_is_a_conflict(more: dict[str, Any]) -> None:
    with opened() as gate:
        gate.decide(refund(request_id="r1"))

        assert gate.decide(refund(request_id="r1"), **more).reason_codes == (
            "IDEMPOTENCY_CONFLICT",
        )


def test_tenants_do_not_share_request_ids() -> None:
    with opened() as gate:
        one = gate.decide(refund(20, request_id="r1"), tenant="acme")
        two = gate.decide(refund(30, request_id="r1"), tenant="globex")

        assert one.verdict is two.verdict is Verdict.ALLOW
        assert len(rows(gate)) == 2


def test_a_request_after_its_subject_was_erased_is_not_answered_by_what_is_gone() -> None:
    with opened() as gate:
        gate.decide(refund(request_id="r1"))
        assert (
            store_of(gate).erase_subject("default", "agent:billing", by="ops", reason="test") == 1
        )

        assert gate.decide(refund(request_id="r1")).reason_codes == ("IDEMPOTENCY_CONFLICT",)


def test_64_threads_with_one_request_make_one_record(tmp_path: Path) -> None:
    store = open_store(tmp_path / "demur.db", durability="normal")
    with gate_over(store) as gate, ThreadPoolExecutor(64) as pool:
        made = list(pool.map(lambda _: gate.decide(refund(request_id="r1")), range(64)))

        assert len(rows(gate)) == 1
    assert {record.decision_id for record in made} == {made[0].decision_id}


def test_64_tasks_with_one_request_make_one_record(tmp_path: Path) -> None:
    async def ask(gate: Gate) -> list[DecisionRecord]:
        return list(
            await asyncio.gather(*(gate.adecide(refund(request_id="r1")) for _ in range(64)))
        )

    store = open_store(tmp_path / "demur.db", durability="normal")
    with gate_over(store, memory=MemorySettings()) as gate:
        made = asyncio.run(ask(gate))

        assert len(rows(gate)) == 1
    assert {record.decision_id for record in made} == {made[0].decision_id}


# Failures


def broken_store(path: Path) -> Any:
    store = open_store(path, busy_timeout_s=0.01)
    store.backend.close()
    return store


def test_a_store_that_cannot_be_reached_refuses_spools_and_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[DecisionRecord] = []
    spool = Spool(tmp_path / "spool.jsonl")
    gate = gate_over(broken_store(tmp_path / "demur.db"), spool=spool, sinks=[told.append])
    with gate, caplog.at_level(logging.ERROR, "demur"):
        records = [
            gate.decide(refund(request_id="r1")),
            asyncio.run(gate.adecide(refund())),
            *gate.decide_many([refund(), refund(400)]),
        ]

    for record in records:
        assert record.verdict is Verdict.ABSTAIN
        assert record.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert record.next_step is Advice.RETRY_LATER
        assert not record.may_execute
        assert record.basis == "runtime"
    assert told == records
    spooled = spool.read()
    assert spooled.unreadable == ()
    assert [one.decision_id for one in spooled.records] == [one.decision_id for one in records]


def test_a_spool_that_cannot_be_written_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "nowhere" / "spool.jsonl")
    with gate_over(broken_store(tmp_path / "demur.db"), spool=spool) as gate:
        record = gate.decide(refund())

    assert record.reason_codes == ("STORAGE_UNAVAILABLE",)
    assert "cannot spool" in caplog.text


@pytest.mark.parametrize("how", ["decide", "adecide", "decide_many"])
def test_a_store_that_does_not_answer_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    waits: list[str] = []

    def wait_in_vain(*_: object) -> None:
        waits.append(how)
        raise UnansweredError("no answer")

    spool = Spool(tmp_path / "spool.jsonl")
    with gate_over(open_store(tmp_path / "demur.db"), spool=spool) as gate:
        for name in ("memory_version", "put", "aput", "put_many"):
            monkeypatch.setattr(Store, name, wait_in_vain)
        if how == "decide":
            records = [gate.decide(refund())]
        elif how == "adecide":
            records = [asyncio.run(gate.adecide(refund()))]
        else:
            records = gate.decide_many([refund(), refund(), refund()])

    assert len(waits) == 1
    assert {record.reason_codes for record in records} == {("STORAGE_UNAVAILABLE",)}
    assert len(spool.read().records) == len(records)


def test_once_the_store_is_back_the_same_request_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    with gate_over(open_store(path, busy_timeout_s=0.01)) as gate:
        gate.decide(refund())
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        refused = gate.decide(refund(request_id="r1"))
        lock.execute("ROLLBACK")
        lock.close()

        assert refused.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert gate.decide(refund(request_id="r1")).verdict is Verdict.ALLOW


def test_memory_that_cannot_be_read_refuses_and_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    with gate_over(open_store(path), memory=MemorySettings()) as gate:
        with sqlite3.connect(path) as other:
            other.execute("ALTER TABLE experiences RENAME TO elsewhere")
        other.close()
        refused = gate.decide(refund(request_id="r1"))

        assert refused.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert rows(gate) == [refused]


class Falling(HashedProjection):
    """A projection that works until it does not."""

    fails = False

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector, or fail."""
        if self.fails:
            message = f"cannot embed {facts['action']['intent']}"
            raise RuntimeError(message)
        return super().project(facts)


def test_an_error_within_is_an_abstention_on_record_that_quotes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    projection = Falling()
    request = refund(request_id="r1")
    request["action"]["intent"] = "my secret wish"
    with opened(memory=MemorySettings(), projection=projection) as gate:
        first = gate.decide(refund())
        gate.learn(first.decision_id, "failure")
        projection.fails = True
        refused = [gate.decide(request), asyncio.run(gate.adecide(request))]
        many = gate.decide_many([request, refund(400)])
        projection.fails = False
        later = gate.decide(request)

        assert len(rows(gate)) == 6
        for record in [*refused, *many]:
            assert record.verdict is Verdict.ABSTAIN
            assert record.reason_codes == ("INTERNAL_ERROR",)
            assert record.basis == "runtime"
            assert store_of(gate).get(record.decision_id) == record
    assert "RuntimeError" in caplog.text
    assert "secret wish" not in caplog.text
    assert later.basis == "request"


def test_a_code_that_the_registry_lost_is_an_abstention() -> None:
    class Forgetful(type(CORE)):  # type: ignore[misc]
        def __getitem__(self, code: str) -> Any:
            if code == "REFUND_OVER_ESCALATION_LIMIT":
                raise ZeroDivisionError
            return super().__getitem__(code)

    with opened(registry=Forgetful(*CORE.documents)) as gate:
        assert gate.decide(refund()).verdict is Verdict.ALLOW
        assert gate.decide(refund(400)).reason_codes == ("INTERNAL_ERROR",)


def test_a_stored_record_that_was_changed_is_neither_continued_nor_returned(
    tmp_path: Path,
) -> None:
    path = tmp_path / "demur.db"
    with gate_over(open_store(path)) as gate:
        first = gate.decide(refund(400, request_id="r1"))
        other = sqlite3.connect(path)
        other.execute("DROP TRIGGER IF EXISTS decision_records_frozen")
        triggers = other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            other.execute(f'DROP TRIGGER "{name}"')
        other.execute("UPDATE decision_records SET sealed = ?", (b'{"request":5}',))
        other.commit()
        other.close()

        again = gate.decide(refund(400, request_id="r1"))
        assert again.reason_codes == ("IDEMPOTENCY_CONFLICT",)
        follow_up = gate.decide(refund(400, continues=first.decision_id))
        assert follow_up.reason_codes == ("STORAGE_UNAVAILABLE",)
        with pytest.raises(DemurError, match="not what was decided on"):
            gate.resolve(first.decision_id)


class Slow(SqliteBackend):
    """A database that takes its time to answer."""

    def get_record(self, decision_id: str) -> RecordRow | None:
        """Return one record, late."""
        time.sleep(0.1)
        return super().get_record(decision_id)

    def memory_version(self, tenant: str) -> int:
        """Return the version, late."""
        time.sleep(0.1)
        return super().memory_version(tenant)


class SlowSpool(Spool):
    """A spool on a disk that takes its time."""

    def add(self, record: DecisionRecord) -> str:
        """Append a record, late."""
        time.sleep(0.1)
        return super().add(record)


async def counted(asking: Awaitable[DecisionRecord]) -> tuple[DecisionRecord, int]:
    """Return a decision, and how often others had their turn until it was there."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.005)
            turns += 1

    others = asyncio.create_task(take_turns())
    record = await asking
    others.cancel()
    return record, turns


def test_nobody_waits_for_the_store_on_the_event_loop(tmp_path: Path) -> None:
    path = str(tmp_path / "demur.db")
    with gate_over(Store(Slow(path)), memory=MemorySettings()) as gate:
        _, turns = asyncio.run(counted(gate.adecide(refund(request_id="r1"))))
        assert turns >= 3
        first = rows(gate)[0]
        _, turns = asyncio.run(counted(gate.adecide(refund(continues=first.decision_id))))
        assert turns >= 3
        conflict, turns = asyncio.run(counted(gate.adecide(refund(21, request_id="r1"))))
        assert conflict.reason_codes == ("IDEMPOTENCY_CONFLICT",)
        assert turns >= 3


def test_nobody_waits_for_the_spool_on_the_event_loop(tmp_path: Path) -> None:
    spool = SlowSpool(tmp_path / "spool.jsonl")
    with gate_over(broken_store(tmp_path / "demur.db"), spool=spool) as gate:
        record, turns = asyncio.run(counted(gate.adecide(refund())))

    assert record.reason_codes == ("STORAGE_UNAVAILABLE",)
    assert turns >= 3


# Frozen


def test_changing_the_request_after_the_decision_does_not_change_the_record() -> None:
    request = refund(context_ref={"context_id": "c1", "parts": [1]})
    with opened() as gate:
        record = gate.decide(request)
        before = json.dumps(dict(record))
        request["action"]["amount"]["value"] = 10**6
        request["context_ref"]["parts"].append(2)
        request["evidence"].clear()

        assert json.dumps(dict(record)) == before
        assert json.dumps(dict(rows(gate)[0])) == before


def test_a_record_in_hand_cannot_change_what_the_gate_does_next() -> None:
    with opened(memory=MemorySettings()) as gate:
        gate.learn(gate.decide(refund(400)).decision_id, "failure")
        first = gate.decide(refund(400))
        for key in first:
            value = first[key]
            if isinstance(value, dict | list):
                value.clear()
        settings = first.determinism.memory_settings
        assert settings is not None
        with pytest.raises(TypeError, match="a record is immutable"):
            settings["block"] = 2  # type: ignore[index]
        second = gate.decide(refund(400))

    ids = {"decision_id", "chain", "sealed_digest"}
    assert {k: v for k, v in first.items() if k not in ids} == {
        k: v for k, v in second.items() if k not in ids
    }


def test_closing_the_gate_closes_its_store(tmp_path: Path) -> None:
    gate = gate_over(open_store(tmp_path / "demur.db"))
    gate.close()

    assert gate.decide(refund()).reason_codes == ("STORAGE_UNAVAILABLE",)


def test_a_gate_without_keys_trusts_no_grant() -> None:
    with opened(keys=None) as gate:
        record = gate.decide(refund(400), grants=[grant({"action": "refund"})])

    assert [one.why for one in record.ignored_grants] == ["unknown_key"]
    assert [one["grant_id"] for one in record["grants"]] == ["g1"]


def test_an_advisory_decision_does_not_answer_an_enforcing_gate() -> None:
    with opened(mode="advisory") as gate:
        asked = {**refund(400), "request_id": "r-1"}
        first = gate.decide(asked)
        binding = gate_over(store_of(gate), entropy=lambda size: bytes(range(size)))
        again = binding.decide(asked)

    assert first.may_execute
    assert not again.may_execute
    assert again.reason_codes == ("IDEMPOTENCY_CONFLICT",)


def broken(_: DecisionRecord) -> None:
    message = "the sink is full"
    raise OSError(message)


def test_every_sink_is_notified_even_after_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[DecisionRecord] = []
    with (
        opened(sinks=[told.append, broken, told.append]) as gate,
        caplog.at_level(logging.ERROR, "demur"),
    ):
        record = gate.decide(refund())

    assert told == [record, record]
    assert record.decision_id in caplog.text


def test_a_sink_that_fails_changes_no_decision() -> None:
    with opened(sinks=[broken]) as gate:
        assert gate.decide(refund()).verdict is Verdict.ALLOW


def test_sinks_hear_of_what_was_stored() -> None:
    told: list[DecisionRecord] = []
    with opened(sinks=[told.append]) as gate:
        made = [gate.decide(refund()), *gate.decide_many([refund(), refund(400)])]

    assert told == made
    assert all(record.chain is not None for record in told)
