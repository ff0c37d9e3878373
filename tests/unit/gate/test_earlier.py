from datetime import timedelta
from typing import Any

import pytest
from gates import KEY, NOON, Ticking, cleanup, grant, opened, refund, rows, stored

from demur.classification.keys import KeyRing, SigningKey
from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord

INCOMPLETE: dict[str, Any] = {"evidence": {}}


def attempt(gate: Gate, before: DecisionRecord | None = None) -> DecisionRecord:
    link = {} if before is None else {"continues": before.decision_id}
    return gate.decide(refund(**INCOMPLETE, **link))


# Attempts


def test_attempts_are_counted_and_after_the_last_nothing_is_asked_for() -> None:
    with opened(attempts=3) as gate:
        first = attempt(gate)
        second = attempt(gate, first)
        third = attempt(gate, second)
        fourth = attempt(gate, third)

    assert [one.attempt for one in (first, second, third, fourth)] == [1, 2, 3, 4]
    assert [one.attempts_left for one in (first, second, third, fourth)] == [
        True,
        True,
        False,
        False,
    ]
    assert second.decision_output is DecisionOutput.NEED_CONTEXT
    assert third.decision_output is fourth.decision_output is DecisionOutput.REFUSE_WITH_PATH
    assert {one.root_id for one in (second, third, fourth)} == {first.decision_id}


def test_continuing_the_first_decision_again_and_again_gains_nothing() -> None:
    with opened(attempts=3) as gate:
        first = attempt(gate)
        attempt(gate, first)
        third = attempt(gate, first)

    assert third.attempt == 3
    assert third.decision_output is DecisionOutput.REFUSE_WITH_PATH


def test_with_one_attempt_the_first_is_the_last() -> None:
    with opened(attempts=1) as gate:
        only = attempt(gate)

    assert not only.attempts_left
    assert only.decision_output is DecisionOutput.REFUSE_WITH_PATH


def test_what_was_missing_passes_once_it_is_supplied() -> None:
    with opened() as gate:
        first = attempt(gate)
        after = gate.decide(refund(continues=first.decision_id))

    assert after.verdict is Verdict.ALLOW
    assert after.continues == first.decision_id


def test_constraints_are_accepted_in_a_continuation() -> None:
    with opened() as gate:
        first = gate.decide(cleanup())
        after = gate.decide(cleanup(continues=first.decision_id), accepted=["dry_run"])

    assert after.decision_output is DecisionOutput.ALLOW_CONSTRAINED


# Who may continue


@pytest.mark.parametrize(
    "subject", [None, {"type": "agent", "id": "other"}, {"id": "billing"}, {"type": "agent"}]
)
def test_only_who_asked_first_can_continue(subject: dict[str, str] | None) -> None:
    with opened() as gate:
        first = attempt(gate)
        with pytest.raises(InputError, match="only the first requester") as caught:
            gate.decide(refund(subject=subject, continues=first.decision_id))

        assert caught.value.where == "continues"
        assert len(rows(gate)) == 1


def test_another_tenants_decision_is_as_unknown_as_none() -> None:
    with opened() as gate:
        first = gate.decide(refund(**INCOMPLETE), tenant="acme")
        for link, tenant in ((first.decision_id, "globex"), ("01J", "acme"), ("%", "acme")):
            with pytest.raises(InputError, match="there is no decision") as caught:
                gate.decide(refund(continues=link), tenant=tenant)
            assert caught.value.where == "continues"
        with pytest.raises(InputError, match="there is no decision"):
            gate.resolve(first.decision_id, tenant="globex")
        with pytest.raises(InputError, match="there is no decision"):
            gate.learn(first.decision_id, "failure", tenant="globex")


def test_what_was_erased_can_be_neither_continued_nor_resolved() -> None:
    with opened() as gate:
        first = attempt(gate)
        stored(gate).erase_subject("default", "agent:billing")
        with pytest.raises(InputError, match="erased and cannot be continued"):
            attempt(gate, first)
        with pytest.raises(InputError, match="erased and cannot be resolved"):
            gate.resolve(first.decision_id)


# Approval


def escalated(gate: Gate, value: int = 400) -> DecisionRecord:
    record = gate.decide(refund(value, request_id=f"r{value}"))
    assert record.verdict is Verdict.ESCALATE
    return record


def test_an_approval_lifts_what_it_is_for_and_the_same_request_passes() -> None:
    with opened() as gate:
        first = escalated(gate)
        resolved = gate.resolve(first.decision_id, grants=[grant(first["scope"])])
        again = gate.decide(refund(400, request_id="r2", continues=first.decision_id))

        assert stored(gate).get(resolved.decision_id) == resolved
    assert resolved.verdict is again.verdict is Verdict.ALLOW
    assert resolved.lifted_by == again.lifted_by == ("g1",)
    assert resolved.resolved_codes == again.resolved_codes == ("REFUND_OVER_ESCALATION_LIMIT",)
    assert resolved.basis == "resolution"
    assert resolved.continues == resolved.root_id == first.decision_id
    assert "grants that count: g1" in resolved.explanation.details
    assert again.basis == "request"
    # A resolution is no attempt of the one who asked.
    assert again.attempt == 2


@pytest.mark.parametrize(
    "changed",
    [
        refund(401),
        refund(400, evidence={"ticket_id": "T-2"}),
        {**refund(400), "action": {**refund(400)["action"], "type": "refund ", "intent": "x"}},
    ],
)
def test_an_approval_of_one_request_does_not_reach_a_changed_one(
    changed: dict[str, Any],
) -> None:
    with opened() as gate:
        first = escalated(gate)
        gate.resolve(first.decision_id, grants=[grant(first["scope"])])
        after = gate.decide({**changed, "request_id": "r2", "continues": first.decision_id})

    assert after.verdict is Verdict.ESCALATE
    assert [one.why for one in after.ignored_grants] == ["out_of_scope"]


def test_a_grant_may_come_with_the_request_itself() -> None:
    with opened() as gate:
        record = gate.decide(refund(400), grants=[grant({"action": "refund"})])

    assert record.verdict is Verdict.ALLOW
    assert record.lifted_by == ("g1",)


MALLORY = SigningKey.from_randomness(b"m" * 32, key_id="k2", holder="user:mallory")
SELF = SigningKey.from_randomness(b"s" * 32, key_id="k3", holder="agent:billing")


def self_granted() -> Any:
    honest = grant({"action": "refund"}, granted_to="user:mary2")
    values = {name: getattr(honest, name) for name in honest.__struct_fields__}
    forged = type(honest)(
        **{
            **values,
            "granted_by": "agent:billing",
            "granted_to": "agent:billing",
            "key_id": "k3",
            "signature": "",
        }
    )
    return type(honest)(
        **{
            **{name: getattr(forged, name) for name in forged.__struct_fields__},
            "signature": SELF.sign(forged.signed_bytes()),
        }
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (grant({"action": "refund"}, expires_at=NOON - timedelta(minutes=1)), "expired"),
        (grant({"action": "refund"}, not_before=NOON + timedelta(minutes=1)), "not_yet_valid"),
        (grant({"action": "refund"}, granted_to="agent:other"), "other_requester"),
        (grant({"action": "purchase"}), "out_of_scope"),
        (grant({"action": "refund", "planet": "mars"}), "out_of_scope"),
        (grant({"action": "refund"}, kind="quota"), "lifts_nothing"),
        (grant({"action": "refund"}, codes=["APPROVAL_REQUIRED"]), "lifts_nothing"),
        (grant({"action": "refund"}, grant_id="revoked"), "revoked"),
        (self_granted(), "granted_to_self"),
    ],
)
def test_a_grant_that_does_not_count_is_ignored_with_the_reason_on_record(
    given: Any, why: str
) -> None:
    ring = KeyRing([KEY.trusted_key(), SELF.trusted_key()])
    with opened(keys=ring, revoked=["revoked"]) as gate:
        first = escalated(gate)
        resolved = gate.resolve(first.decision_id, grants=[given])
        direct = gate.decide(refund(400), grants=[given])

        for record in (resolved, direct):
            assert record.verdict is Verdict.ESCALATE
            assert [(one.grant_id, one.why) for one in record.ignored_grants] == [
                (given.grant_id, why)
            ]
            kept = stored(gate).get(record.decision_id)
            assert kept is not None
            assert kept["grants"] == record["grants"]


def test_a_signature_of_nobody_known_lifts_nothing() -> None:
    forged = grant({"action": "refund"})
    with opened(keys=KeyRing([MALLORY.trusted_key()])) as gate:
        record = gate.decide(refund(400), grants=[forged])

    assert [one.why for one in record.ignored_grants] == ["unknown_key"]


def test_a_hard_block_stays_whoever_grants() -> None:
    with opened() as gate:
        first = gate.decide(refund(evidence={"ticket_id": "T", "chargeback_risk": 1}))
        after = gate.resolve(
            first.decision_id, grants=[grant(first["scope"])], accepted=["anything"]
        )

    assert after.verdict is Verdict.DENY
    assert after.reason_codes == ("CHARGEBACK_RISK_BLOCK",)
    assert [one.why for one in after.ignored_grants] == ["lifts_nothing"]


def test_an_approval_ends_when_it_says() -> None:
    clock = Ticking()
    with opened(clock=clock) as gate:
        first = escalated(gate)
        gate.resolve(first.decision_id, grants=[grant(first["scope"])])
        clock.advance(hours=2)
        after = gate.decide(refund(400, continues=first.decision_id))

    assert after.verdict is Verdict.ESCALATE
    assert [one.why for one in after.ignored_grants] == ["expired"]


def test_a_grant_that_comes_again_is_the_newer_one() -> None:
    with opened() as gate:
        first = escalated(gate)
        old = grant({"action": "purchase"})
        gate.resolve(first.decision_id, grants=[old])
        after = gate.decide(
            refund(400, continues=first.decision_id), grants=[grant(first["scope"])]
        )

    assert after.verdict is Verdict.ALLOW
    assert len(after["grants"]) == 1


def test_constraints_are_accepted_by_resolving() -> None:
    with opened() as gate:
        first = gate.decide(cleanup())
        partly = gate.resolve(first.decision_id)
        after = gate.resolve(partly.decision_id, accepted=["dry_run"])

    assert partly.verdict is Verdict.ESCALATE
    assert after.decision_output is DecisionOutput.ALLOW_CONSTRAINED
    assert after.root_id == first.decision_id


def test_what_was_granted_is_the_request_as_it_was_asked_also_if_parts_were_removed() -> None:
    request = refund(400, evidence={"ticket_id": "T-1", "password": "hunter22"})
    other = refund(400, evidence={"ticket_id": "T-1", "password": "hunter23"})
    with opened() as gate:
        first = gate.decide(request)
        resolved = gate.resolve(first.decision_id, grants=[grant(first["scope"])])
        same = gate.decide({**request, "continues": first.decision_id})
        changed = gate.decide({**other, "continues": first.decision_id})

    assert resolved["scope"] == same["scope"] == first["scope"]
    assert resolved.verdict is same.verdict is Verdict.ALLOW
    assert changed.verdict is Verdict.ESCALATE


def test_what_could_not_be_judged_cannot_be_approved() -> None:
    with opened() as gate:
        first = gate.decide(refund("much"))
        after = gate.resolve(first.decision_id, grants=[grant({"action": "refund"})])

    assert first.verdict is after.verdict is Verdict.ABSTAIN
    assert [one.why for one in after.ignored_grants] == ["not_judged"]


def test_what_allows_cannot_be_resolved_so_that_no_ended_grant_is_used_again() -> None:
    with opened() as gate:
        first = gate.decide(refund(400))
        done = gate.resolve(first.decision_id, grants=[grant(first["scope"])])

        with pytest.raises(InputError, match="there is nothing to resolve"):
            gate.resolve(done.decision_id)


def test_a_grant_covers_every_part_that_a_policy_can_read() -> None:
    asked = refund(400, extensions={"payee": "alice"}, context_ref={"id": "invoice-1"})
    other = {**asked, "extensions": {"payee": "mallory"}}
    with opened() as gate:
        first = gate.decide(asked)
        gate.resolve(first.decision_id, grants=[grant(first["scope"])])

        assert gate.decide({**asked, "continues": first.decision_id}).verdict is Verdict.ALLOW
        assert gate.decide({**other, "continues": first.decision_id}).verdict is Verdict.ESCALATE
