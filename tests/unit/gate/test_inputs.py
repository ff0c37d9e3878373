from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import (
    CORE,
    KEY,
    NOON,
    Ticking,
    cleanup,
    finding,
    grant,
    opened,
    refund,
    rows,
    stored,
)

from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.errors import DemurError, InputError, InputTypeError, UnknownCodeError
from demur.gate.gate import Gate
from demur.gate.inputs import PreparedRequest, grant_scope, prepare_request
from demur.gate.redaction import DEFAULT_PROFILE, NO_REDACTION, STRICT_PROFILE, RedactionProfile
from demur.grants import KeyRing, SigningKey
from demur.model.finding import Action, Finding, Span
from demur.model.record import DecisionRecord
from demur.model.request import MEMORY_SIGNALS


def asked(
    request: dict[str, Any] | None = None, profile: RedactionProfile = DEFAULT_PROFILE, **more: Any
) -> PreparedRequest:
    return prepare_request(
        refund() if request is None else request,
        registry=CORE,
        profile=profile,
        now=NOON,
        **more,
    )


# What cannot be used is an error with its place, and nothing is stored


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> Any:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


@pytest.mark.parametrize(
    ("part", "where"),
    [
        (float("nan"), "evidence.x"),
        (float("inf"), "evidence.x"),
        (-float("inf"), "evidence.x"),
        (2**53, "evidence.x"),
        (10**400, "evidence.x"),
        (1e18, "evidence.x"),
        ([{"n": -(2.0**53)}], "evidence.x.0.n"),
        (nested(200), "evidence.x.0.0.0.0.0.0.…"),
        (cycle(), "evidence.x.again.again.again.again.again.again.…"),
        ("a" * 1_000_000, "evidence"),
        ("\ud800", "evidence.x"),
        ({1: "one"}, "evidence.x"),
        ({None: "none"}, "evidence.x"),
        ([{"\udfff": 1}], "evidence.x.0"),
        (b"bytes", "evidence.x"),
        (bytearray(b"bytes"), "evidence.x"),
        (Decimal("1.5"), "evidence.x"),
        (datetime(2026, 1, 1, tzinfo=UTC), "evidence.x"),
        ({1, 2}, "evidence.x"),
        (object(), "evidence.x"),
        (1j, "evidence.x"),
        (iter([]), "evidence.x"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_value_that_is_no_json_is_an_error_with_its_path_and_stores_nothing(
    part: object, where: str
) -> None:
    with opened() as gate:
        with pytest.raises(InputError) as caught:
            gate.decide(refund(evidence={"x": part}))

        assert caught.value.where == where
        assert caught.value.help
        assert rows(gate) == []


@pytest.mark.parametrize(
    ("findings", "where"),
    [
        ([finding(evidence={"a": {"b": float("nan")}})], "findings.0.evidence.a.b"),
        ([finding(), finding(evidence={"a": b"x"})], "findings.1.evidence.a"),
        ([finding(evidence=[1])], "findings.0.evidence"),
        ([finding(detail=b"x")], "findings.0.detail"),
        ([finding(detail="\ud800")], "findings.0.detail"),
        ([finding(detail=object())], "findings.0"),
        ([finding(surface="nowhere")], "findings.0.surface"),
        ([finding(span=(1, 2))], "findings.0.span"),
        ([finding(5)], "findings.0.code"),  # type: ignore[arg-type]
    ],
)
def test_a_finding_that_cannot_be_recorded_is_an_error_with_its_place(
    findings: list[Finding], where: str
) -> None:
    with pytest.raises(InputError) as caught:
        asked(findings=findings)

    assert caught.value.where == where


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"findings": 5}, "a list of Finding"),
        ({"findings": ["RCE_RISK"]}, "a Finding"),
        ({"findings": [grant({"action": "refund"})]}, "a Finding"),
        ({"grants": ["g1"]}, "a Grant"),
        ({"accepted": "dry_run"}, "not one string"),
        ({"accepted": [5]}, "a string"),
        ({"accepted": [[]]}, "a list of strings"),
        ({"signals": [1]}, "a mapping"),
        ({"tenant": 5}, "a name"),
        ({"tenant": b"acme"}, "a name"),
    ],
)
def test_an_input_of_the_wrong_type_is_an_error(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputTypeError, match=problem):
        asked(**given)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"tenant": ""}, "tenant"),
        ({"tenant": "x" * 257}, "tenant"),
        ({"tenant": "\ud800"}, "tenant"),
        ({"accepted": ["\ud800"]}, "accepted.0"),
        ({"accepted": [" "]}, None),
        ({"signals": {"a": [float("nan")]}}, "signals.a.0"),
        ({"signals": {"a": b"x"}}, "signals.a"),
        ({"signals": {"failure_similarity": {}}}, "signals.failure_similarity"),
        ({"signals": {"uncertainty_score": 0.5}}, "signals.uncertainty_score"),
        ({"signals": {"a": [1]}}, "signals.a"),
        ({"signals": {"a": {"b": [1]}}}, "signals.a.b"),
        ({"signals": {"self-harm/intent": 1}}, "signals.self-harm/intent"),
        ({"signals": {"a.b": 1}}, "signals.a.b"),
        ({"guard_signals": {"pii": {"score": [1]}}}, "signals.guards.pii.score"),
    ],
)
def test_an_input_that_cannot_be_recorded_is_an_error_with_its_place(
    given: dict[str, Any], where: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        asked(**given)

    assert caught.value.where == where


def test_a_code_that_nobody_registered_is_an_error() -> None:
    with pytest.raises(UnknownCodeError, match="RCE_RISC"):
        asked(findings=[finding("RCE_RISC")])


def test_a_grant_with_a_scope_of_the_wrong_kind_is_an_error() -> None:
    genuine = grant({"action": "refund"})
    forged = type(genuine)(
        **{
            **{name: getattr(genuine, name) for name in genuine.__struct_fields__},
            "scope": MappingProxyType({"action": "refund"}),
        }
    )
    with pytest.raises(DemurError) as caught:
        asked(grants=[forged])

    assert caught.value.where == "grants.0"


# What came in beside the request


def test_findings_are_copied_in_plain_types() -> None:
    evidence = {"spans": [1]}
    one = finding(evidence=MappingProxyType(evidence), span=Span(start=1, end=2))
    seen = asked(findings=[one]).inputs.findings
    evidence["spans"].append(2)

    assert seen[0].evidence == {"spans": [1]}
    assert seen[0].span == Span(start=1, end=2)


def test_a_grant_survives_being_copied() -> None:
    given = grant({"action": "refund"})

    assert asked(grants=[given]).inputs.grants == (given,)


def test_inputs_may_be_iterators() -> None:
    question = asked(findings=iter([finding()]), accepted=iter(["dry_run", "dry_run"]))

    assert len(question.inputs.findings) == 1
    assert question.inputs.accepted == ("dry_run",)
    assert not question.inputs.is_empty
    assert asked(signals={}).inputs.is_empty


# Digests


def test_the_digest_of_the_inputs_is_the_same_by_the_short_way_and_the_long_one() -> None:
    for request in (refund(), refund(1e-7), refund(evidence={"é": "ü", "\U0001f600": 1})):
        question = asked(request, NO_REDACTION)

        assert question.inputs_digest() == question.stored_inputs.digest(question.redacted.request)


def test_the_fingerprint_changes_with_every_part_of_the_inputs() -> None:
    questions = [
        asked(),
        asked(refund(21)),
        asked(findings=[finding()]),
        asked(findings=[finding(), finding()]),
        asked(findings=[finding(surface="output")]),
        asked(findings=[finding(action="warn")]),
        asked(accepted=["dry_run"]),
        asked(signals={"a": 1}),
        asked(grants=[grant({"action": "refund"})]),
    ]

    assert len({question.fingerprint("salt") for question in questions}) == len(questions)
    assert asked().fingerprint("salt") == asked().fingerprint("salt")
    assert asked().fingerprint("salt") != asked().fingerprint("other")


def test_a_secret_changes_the_fingerprint_and_not_what_is_recorded() -> None:
    one, two = (asked(refund(evidence={"password": word})) for word in ("hunter2", "hunter3"))

    assert one.fingerprint("s") != two.fingerprint("s")
    assert one.inputs_digest() == two.inputs_digest()


# The scope


def test_the_scope_names_action_tenant_target_and_the_very_request() -> None:
    target = {"system": "shop", "resource_type": "order", "resource_id": "o1", "more": 5}
    request = refund()
    request["action"]["target"] = target
    scope = grant_scope(asked(request, tenant="acme"))

    assert {key: scope[key] for key in scope if key != "request"} == {
        "action": "refund",
        "tenant": "acme",
        "system": "shop",
        "resource_type": "order",
        "resource_id": "o1",
    }


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"request_id": "other"}, True),
        ({"continues": "01J"}, True),
        ({"trace": {"span": 1}}, True),
        ({"evidence": {"ticket_id": "T-2"}}, False),
        ({"context": {"inline": "x"}}, False),
        ({"subject": {"id": "other"}}, False),
        ({"action": {"type": "refund", "amount": {"value": 20, "currency": "EUR"}}}, False),
    ],
)
def test_the_scope_stays_the_same_for_the_same_request(change: dict[str, Any], same: bool) -> None:
    before, after = (grant_scope(asked(request)) for request in (refund(), refund(**change)))

    assert (before["request"] == after["request"]) is same


def test_unusual_numbers_do_not_change_how_a_scope_is_built() -> None:
    digests = {grant_scope(asked(refund(value)))["request"] for value in (1e-7, 1e-8, 20, 20.0)}

    assert len(digests) == 3


def test_a_target_that_may_not_be_stored_is_no_part_of_the_scope() -> None:
    request = refund()
    request["action"]["target"] = {"system": "shop", "resource_id": "hunter22"}
    profile = DEFAULT_PROFILE._replace(paths=("action.target.resource_id",))
    scope = grant_scope(asked(request, profile))

    assert set(scope) == {"action", "tenant", "system", "request"}
    assert grant_scope(asked(request))["resource_id"] == "hunter22"


@pytest.mark.parametrize("target", [None, {}, {"system": 5, "resource_id": ""}])
def test_a_target_that_names_nothing_is_left_out(target: Any) -> None:
    request = refund()
    request["action"]["target"] = target

    assert set(grant_scope(asked(request))) == {"action", "tenant", "request"}


# What may be recorded


def test_removed_texts_are_taken_out_of_what_guards_quoted_too() -> None:
    question = asked(
        refund(evidence={"password": "hunter22"}),
        findings=[finding(detail="saw hunter22", evidence={"hunter22": ["hunter22!"]})],
        signals={"note": "hunter22"},
    )
    recorded = question.stored_inputs

    assert recorded.findings[0].detail == "saw [removed]"
    assert recorded.findings[0].evidence == {"[removed]": ["[removed]!"]}
    assert recorded.signals == {"note": "[removed]"}


def test_a_signal_that_holds_a_removed_text_is_named_as_removed() -> None:
    secret = refund(evidence={"password": "hunter22"})
    noted = asked(secret, signals={"note": "hunter22", "mood": {"score": 1}})
    named = asked(secret, signals={"mood": {"my_hunter22": 1}})

    assert noted.redacted.removed == ("evidence.password", "signals.note")
    assert named.redacted.removed == ("evidence.password", "signals.mood")
    assert named.stored_inputs.signals == {"mood": {"my_[removed]": 1}}


@given(st.dictionaries(st.sampled_from(["guards", *MEMORY_SIGNALS]), st.booleans(), min_size=1))
def test_a_caller_cannot_write_the_signals_of_guards_or_memory(signals: dict[str, bool]) -> None:
    """INVARIANT: a caller cannot write the signals of guards or of memory."""
    with pytest.raises(InputError, match=r"belongs to (guards|memory)") as caught:
        asked(signals=signals)

    assert caught.value.help is not None
    with pytest.raises(InputError, match="a request has no field `signals`"):
        asked({**refund(), "signals": signals})


def test_signals_of_guards_stand_in_a_group_of_their_own() -> None:
    question = asked(signals={"fraud": 0.5}, guard_signals={"pii": {"score": 0.9}})

    assert question.inputs.signals == {"fraud": 0.5, "guards": {"pii": {"score": 0.9}}}


def test_a_strict_profile_keeps_no_quotes_of_guards() -> None:
    least = finding(span=Span(start=0, end=3), action=Action.WARN)
    seen = msgspec.structs.replace(least, detail="a quote", evidence={"quote": "a"})
    [kept] = asked(profile=STRICT_PROFILE, findings=[seen]).stored_inputs.findings

    assert kept == least
    assert asked(findings=[seen]).stored_inputs.findings == (seen,)


INCOMPLETE: dict[str, Any] = {"evidence": {}}


def attempt(gate: Gate, before: DecisionRecord | None = None) -> DecisionRecord:
    link = {} if before is None else {"continues": before.decision_id}
    return gate.decide(refund(**INCOMPLETE, **link))


# Attempts


def test_attempts_are_counted_and_nothing_is_requested_after_the_last() -> None:
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


def test_a_request_passes_once_its_missing_evidence_is_supplied() -> None:
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
def test_only_the_first_requester_can_continue(subject: dict[str, str] | None) -> None:
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


def test_an_erased_decision_can_be_neither_continued_nor_resolved() -> None:
    with opened() as gate:
        first = attempt(gate)
        stored(gate).erase_subject("default", "agent:billing", by="ops", reason="test")
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


def test_no_grant_lifts_a_hard_block() -> None:
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


def test_a_grant_covers_the_original_request_even_if_redaction_removed_parts() -> None:
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


def test_an_unjudged_request_cannot_be_approved() -> None:
    with opened() as gate:
        first = gate.decide(refund("much"))
        after = gate.resolve(first.decision_id, grants=[grant({"action": "refund"})])

    assert first.verdict is after.verdict is Verdict.ABSTAIN
    assert [one.why for one in after.ignored_grants] == ["not_judged"]


def test_an_allowed_decision_cannot_be_resolved_so_no_ended_grant_is_used_again() -> None:
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
