"""Memory through the gate: what is learned, what it does later, and how it is forgotten."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support.gates import CORE, NOON, POLICY, Ticking, finding, grant, opened, refund, stored

from demur.canonical import canonical_bytes, digest_of_bytes
from demur.codes.loading import bundle_registry
from demur.codes.vocabulary import RefusalClass, Verdict
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.redaction import NO_REDACTION
from demur.memory.experience import ActionOutcome
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.rows import ExperienceRow
from demur.version import ENGINE_VERSION


def amounts(value: Any, currency: Any = "USD") -> dict[str, Any]:
    request = refund()
    request["action"]["amount"] = {"value": value, "currency": currency}
    return request


def is_canonical(record: DecisionRecord) -> bool:
    assert record.sealed is not None
    return all(
        canonical_bytes(json.loads(raw)) == raw for raw in (record.sealed, record.open_bytes())
    )


@pytest.mark.parametrize(
    "request_",
    [
        refund(),
        refund(1e-7),
        refund(1e300),
        refund(-20.5),
        refund("20"),
        refund("1e-9"),
        amounts(100, "EUR"),
        amounts(0.1, "EUR"),
        amounts(4e15, "EUR"),
        amounts(1.7e308, "EUR"),
        refund(context_ref={"context_id": "c", "n": 1e-9}),
        refund(evidence={"ticket_id": "é", "\U0001f600": 1, "\uffff": 2}),
        refund(evidence={"password": "hunter22", "ticket_id": 5}),
        refund(tenant={"id": "Zoë"}),
    ],
)
def test_both_halves_are_canonical(request_: dict[str, Any]) -> None:
    with opened() as gate:
        assert is_canonical(gate.decide(request_))
        assert is_canonical(
            gate.decide(
                request_,
                findings=[finding(evidence={"n": 1e-8, "m": 20.0})],
                grants=[grant({"action": "refund"})],
                accepted=["é"],
                signals={"s": 1e21},
            )
        )


def test_settings_of_memory_are_written_canonically_too() -> None:
    with opened(memory=MemorySettings(block=1.0, escalate=1e-6, allow=1.0)) as gate:
        gate.learn(gate.decide(refund()).decision_id, "failure")
        record = gate.decide(refund())

    assert record.determinism.memory_settings is not None
    assert is_canonical(record)


def test_a_record_names_engine_registry_and_policy_by_digest() -> None:
    with opened() as gate:
        record = gate.decide(refund())
        text = bundle_registry(gate.registry)

    assert record["determinism"] == {
        "engine_version": ENGINE_VERSION,
        "registry_version": gate.registry.label,
        "registry_digest": digest_of_bytes(text.encode()),
        "policy_digest": POLICY.digest,
    }
    assert record["policy"] == {
        "policy_id": "support",
        "policy_version": "1.0.0",
        "digest": POLICY.digest,
        "mode": "enforce",
    }


def test_the_seal_is_the_digest_of_the_sealed_half() -> None:
    with opened() as gate:
        record = gate.decide(refund())

    assert record.sealed is not None
    assert record.sealed_digest == digest_of_bytes(record.sealed)
    assert record.seal_holds


def test_the_same_request_twice_has_another_salt_and_so_another_seal() -> None:
    with opened() as gate:
        one, two = gate.decide(refund()), gate.decide(refund())

    assert one.sealed_digest != two.sealed_digest
    assert one.personal is not None
    assert two.personal is not None
    assert one.personal.salt != two.personal.salt
    assert one.personal.fingerprint != two.personal.fingerprint
    assert one.personal.inputs_digest == two.personal.inputs_digest


@pytest.mark.parametrize(
    ("amount", "column"),
    [
        ({"value": "1.000", "currency": "USD"}, {"value": None, "currency": "USD"}),
        ({"value": 20, "currency": "USD"}, {"value": 20, "currency": "USD"}),
        ({"value": 20.0, "currency": "USD"}, {"value": 20, "currency": "USD"}),
        ({"value": "20.50", "currency": "USD"}, {"value": 20.5, "currency": "USD"}),
        ({"value": 1e300, "currency": "USD"}, {"value": 1e300, "currency": "USD"}),
        ({"value": "much", "currency": "USD"}, {"value": None, "currency": "USD"}),
        ({"value": "inf", "currency": "USD"}, {"value": None, "currency": "USD"}),
        ({"value": True, "currency": 5}, {"value": None, "currency": None}),
        ({"value": [1]}, {"value": None, "currency": None}),
        ({}, {"value": None, "currency": None}),
        (None, None),
    ],
)
def test_the_amount_in_the_record_is_a_number_or_absent(amount: Any, column: Any) -> None:
    request = refund()
    request["action"]["amount"] = amount
    with opened() as gate:
        assert gate.decide(request)["amount"] == column


def test_a_derived_value_that_is_not_a_number_is_not_a_fact() -> None:
    with opened() as gate:
        record = gate.decide(amounts(1.7e308, "EUR"))

    assert record.reason_codes[0] == "EVIDENCE_INVALID"
    assert "amount_usd" not in record["facts"]
    assert record["invalid"] != []


def test_only_what_is_refused_or_granted_has_a_scope() -> None:
    with opened() as gate:
        assert gate.decide(refund())["scope"] == {}
        assert set(gate.decide(refund(400))["scope"]) == {"action", "tenant", "request"}
        granted = gate.decide(refund(), grants=[grant({"action": "refund"})])
        assert set(granted["scope"]) == {"action", "tenant", "request"}


def test_the_profile_is_on_record_also_if_nothing_was_removed() -> None:
    with opened(redaction=NO_REDACTION) as gate:
        assert gate.decide(refund())["redaction"] == {"profile": "off", "removed": []}


def test_links_to_elsewhere_are_kept() -> None:
    reference = {"context_id": "c1", "record_hash": "sha256:1"}
    with opened() as gate:
        record = gate.decide(refund(context_ref=reference, trace={"span_id": "s"}))

    assert record["context_ref"] == reference
    assert record["request"]["trace"] == {"span_id": "s"}


ON = MemorySettings()
ASKING = parse_policy(
    "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
    "- {id: R, stage: ESCALATIONS, if: {action_type: refund},"
    " then: {verdict: ESCALATE, reason_codes: [APPROVAL_REQUIRED]}}\n",
    registry=CORE,
)


def taught(
    gate: Gate, outcome: str = "failure", tenant: str = "default", **more: Any
) -> ExperienceRow:
    record = gate.decide(refund(), tenant=tenant)
    return gate.learn(record.decision_id, outcome, **more)


# What follows from it


def test_a_request_similar_to_a_failure_is_denied_with_the_score_in_the_record() -> None:
    with opened(memory=ON) as gate:
        before = gate.decide(refund())
        learned = taught(gate, note="it was a fraud")
        after = gate.decide(refund())

    assert before.verdict is Verdict.ALLOW
    assert before["risk_signals"] == {}
    assert before.determinism.memory_digest is None
    assert after.verdict is Verdict.DENY
    assert after.reason_codes == ("FAILURE_MEMORY_SIMILAR_BLOCK",)
    assert after.refusal_class is RefusalClass.WORKFLOW_BLOCK
    likeness = after["risk_signals"]["failure_similarity"]
    assert likeness == {
        "score": 1,
        "top_k": [
            {
                "memory_id": learned.memory_id,
                "label": "failure",
                "score": 1,
                "summary": "refund, severity 3: it was a fraud",
            }
        ],
    }
    assert after["risk_signals"]["success_similarity"] == {"score": 0, "top_k": []}
    assert after["risk_signals"]["uncertainty_score"] == 0
    assert "Similarity to labelled failures 1.00" in after.explanation.details


def test_a_request_less_similar_to_a_failure_is_escalated() -> None:
    other = refund(40, evidence={"ticket_id": "T-9", "chargeback_risk": 0.1})
    with opened(memory=MemorySettings(escalate=0.5)) as gate:
        taught(gate)
        after = gate.decide(other)

    assert after.verdict is Verdict.ESCALATE
    assert after.reason_codes == ("FAILURE_MEMORY_SIMILAR_ESCALATE",)
    assert 0.5 <= after["risk_signals"]["failure_similarity"]["score"] < 0.95


def test_a_request_unlike_any_failure_is_left_alone() -> None:
    with opened(memory=ON) as gate:
        taught(gate)
        after = gate.decide({"action": {"type": "reboot", "intent": "restart the printer"}})

    assert "MEMORY" not in "".join(after.reason_codes)


def test_a_mild_failure_escalates_at_most() -> None:
    with opened(memory=ON) as gate:
        taught(gate, severity=2)
        mild = gate.decide(refund())
        taught(gate, severity=5)
        grave = gate.decide(refund())

    assert mild.reason_codes == ("FAILURE_MEMORY_SIMILAR_ESCALATE",)
    assert grave.verdict is Verdict.DENY


def test_one_tenants_outcomes_move_nobody_elses_verdicts() -> None:
    with opened(memory=ON) as gate:
        taught(gate, tenant="acme")

        assert gate.decide(refund(), tenant="acme").verdict is Verdict.DENY
        assert gate.decide(refund(), tenant="globex").verdict is Verdict.ALLOW


def test_likeness_to_a_success_lifts_only_where_the_operator_says_so() -> None:
    for lift in (False, True):
        with opened(ASKING, memory=MemorySettings(lift=lift)) as gate:
            taught(gate, "success")
            after = gate.decide(refund())

        assert after.verdict is (Verdict.ALLOW if lift else Verdict.ESCALATE)
        if lift:
            assert after.reason_codes == ("SUCCESS_MEMORY_SIMILAR_ALLOW",)
            assert after.resolved_codes == ("APPROVAL_REQUIRED",)


def test_a_request_lifted_by_memory_needs_nothing_more() -> None:
    text = ASKING.text.replace("[APPROVAL_REQUIRED]", "[APPROVAL_REQUIRED], missing: [a reason]")
    with opened(parse_policy(text, registry=CORE), memory=MemorySettings(lift=True)) as gate:
        before = gate.decide(refund())
        gate.learn(before.decision_id, "success")
        after = gate.decide(refund())

    assert before.missing == ("a reason",)
    assert after.verdict is Verdict.ALLOW
    assert after.missing == ()


def test_a_failure_beats_a_success_that_is_just_as_alike() -> None:
    with opened(ASKING, memory=MemorySettings(lift=True)) as gate:
        taught(gate, "success")
        taught(gate, "failure")

        assert gate.decide(refund()).verdict is Verdict.DENY


def test_memory_cannot_lift_a_denial_of_the_policy() -> None:
    risky = refund(evidence={"ticket_id": "T", "chargeback_risk": 1})
    with opened(memory=MemorySettings(lift=True)) as gate:
        gate.learn(gate.decide(risky).decision_id, "success")

        assert gate.decide(risky).verdict is Verdict.DENY


def test_a_failure_counts_wherever_there_is_a_store() -> None:
    with Gate(POLICY, open_store(":memory:"), registry=CORE) as gate:
        first = gate.decide(refund())
        learned = gate.learn(first.decision_id, "failure")
        after = gate.decide(refund())

        assert (first.verdict, after.verdict) == (Verdict.ALLOW, Verdict.DENY)
        assert after.reason_codes == ("FAILURE_MEMORY_SIMILAR_BLOCK",)
        assert after.determinism.memory_digest is not None
        assert gate.describe_effect(learned).startswith("similar requests are denied")


def test_a_success_lifts_nothing_by_default() -> None:
    with opened(ASKING) as gate:
        first = gate.decide(refund())
        learned = gate.learn(first.decision_id, "success")
        after = gate.decide(refund())

        assert (first.verdict, after.verdict) == (Verdict.ESCALATE, Verdict.ESCALATE)
        assert gate.describe_effect(learned).startswith("stored without effect")


def test_memory_that_the_operator_turned_off_changes_nothing_and_learn_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with opened(memory=None) as gate:
        taught(gate)
        after = gate.decide(refund())

    assert after.verdict is Verdict.ALLOW
    assert after["risk_signals"] == {}
    assert after.determinism.memory_digest is None
    assert "memory is off in the settings, so this has no effect" in caplog.text


def test_a_tenant_without_labels_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashedProjection, "project", lambda *_: pytest.fail("projected"))
    with opened() as gate:
        record = gate.decide(refund())

    assert record.determinism.memory_digest is None
    assert record["risk_signals"] == {}


def test_the_record_names_the_snapshot_and_the_settings_that_it_was_held_against() -> None:
    with opened(memory=ON) as gate:
        taught(gate)
        one, two = gate.decide(refund()), gate.decide(refund())
        taught(gate)
        three = gate.decide(refund())

    assert one.determinism.memory_digest is not None
    assert one.determinism == two.determinism
    assert three.determinism.memory_digest != one.determinism.memory_digest
    assert one["determinism"]["memory_settings"] == ON.as_json()


# Forgetting


def test_a_forgotten_experience_no_longer_counts_and_its_label_stays() -> None:
    with opened(memory=ON) as gate:
        learned = taught(gate)
        assert gate.decide(refund()).verdict is Verdict.DENY

        assert gate.forget([learned.memory_id], tenant="globex") == 0
        assert gate.decide(refund()).verdict is Verdict.DENY
        assert gate.forget([learned.memory_id]) == 1
        assert gate.decide(refund()).verdict is Verdict.ALLOW
        assert [one.value for one in stored(gate).list_labels(learned.decision_id)] == ["failure"]


def test_an_experience_counts_until_it_expires() -> None:
    clock = Ticking()
    with opened(memory=ON, clock=clock) as gate:
        taught(gate, expires_at=NOON + timedelta(hours=1))
        clock.advance(minutes=59)
        assert gate.decide(refund()).verdict is Verdict.DENY
        clock.advance(minutes=1)

        assert gate.decide(refund()).verdict is Verdict.ALLOW


def test_erasing_a_subject_erases_what_was_learned_from_it() -> None:
    with opened(memory=ON) as gate:
        learned = taught(gate)
        stored(gate).erase_subject("default", "agent:billing", by="ops", reason="test")

        assert stored(gate).list_experiences("default", "2026-11-15T12:00:00.000Z") == []
        with pytest.raises(InputError, match="was erased: nothing can be learned"):
            gate.learn(learned.decision_id, "failure")


# What can be learned


def test_an_experience_is_stored_with_its_label() -> None:
    end = datetime(2027, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    with opened(memory=ON) as gate:
        learned = taught(
            gate, " Success".strip(), severity=1, note="fine", reviewer="ada", expires_at=end
        )
        [label] = stored(gate).list_labels(learned.decision_id)
        [kept] = stored(gate).list_experiences("default", learned.created_at)

    assert kept == learned
    assert learned.outcome is ActionOutcome.SUCCESS
    assert learned.expires_at == "2027-01-01T00:00:00.000Z"
    assert (label.value, label.note, label.by, label.kind) == ("success", "fine", "ada", "outcome")


@pytest.mark.parametrize(
    ("more", "kind", "problem"),
    [
        ({"outcome": "maybe"}, InputError, "unknown outcome `maybe`"),
        ({"severity": 0}, InputError, "from 1 to 5"),
        ({"severity": 6}, InputError, "from 1 to 5"),
        ({"severity": True}, InputError, "from 1 to 5"),
        ({"severity": "3"}, InputError, "from 1 to 5"),
        ({"note": "x" * 2001}, InputError, "at most 2000"),
        ({"note": 5}, InputTypeError, "a string"),
        ({"note": "\ud800"}, InputError, "surrogate"),
        ({"reviewer": 5}, InputTypeError, "a string"),
        ({"reviewer": "\ud800"}, InputError, "surrogate"),
        ({"expires_at": NOON}, InputError, "in the future"),
        ({"expires_at": NOON.replace(tzinfo=None)}, InputError, "a time zone"),
        ({"expires_at": "tomorrow"}, InputTypeError, "a datetime"),
    ],
)
def test_an_experience_that_cannot_be_learned_is_an_error_and_is_not_stored(
    more: dict[str, Any], kind: type[DemurError], problem: str
) -> None:
    with opened(memory=ON) as gate:
        record = gate.decide(refund())
        with pytest.raises(kind, match=problem):
            gate.learn(record.decision_id, **{"outcome": "failure", **more})

        assert stored(gate).count_rows()["experiences"] == 0
        assert stored(gate).count_rows()["labels"] == 0


def test_nothing_can_be_learned_from_a_decision_that_never_was() -> None:
    with opened() as gate, pytest.raises(InputError, match="there is no decision `01J`"):
        gate.learn("01J", "failure")
