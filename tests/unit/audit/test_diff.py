from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import (
    CORE,
    POLICY,
    TEXT,
    Ticking,
    cleanup,
    entropy_of,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    rows,
    stored,
)
from support.store_records import make_record, personal

from demur.audit.diff import (
    ComparisonFailure,
    DecisionChange,
    FieldDifference,
    PolicyComparison,
    Unreplayable,
    _CachingEngine,
    compare_policy,
    record_differences,
    recorded_input,
    recorded_memory_settings,
    sealed_differences,
)
from demur.audit.pack import read_lines, write_line
from demur.canonical import digest_of_bytes
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.gate.engine import DecisionEngine, EngineInput
from demur.gate.redaction import RedactionProfile, find_profile
from demur.grants import SigningKey
from demur.memory.recall import MemorySettings, Recall
from demur.model.decision import IgnoredGrant
from demur.model.record import ChainLink, DecisionRecord, MatchedRule, Similarity
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy


def candidate(old: str = "", new: str = "") -> Policy:
    assert old in TEXT
    return parse_policy(TEXT.replace(old, new) if old else TEXT, registry=CORE)


def compared(
    policy: Policy, records: Iterable[DecisionRecord | InputError], **more: Any
) -> PolicyComparison:
    return compare_policy(policy, records, registry=CORE, **more)


def decided(*requests: dict[str, Any], **settings: Any) -> list[DecisionRecord]:
    with opened(**settings) as gate:
        return [gate.decide(request) for request in requests]


def test_the_policy_that_decided_changes_nothing() -> None:
    with opened(memory=MemorySettings(lift=True)) as gate:
        gate.learn(gate.decide(refund(20)).decision_id, "failure", severity=5)
        gate.decide(refund(20))
        gate.decide(refund("much"))
        gate.decide(refund(), findings=[finding()])
        gate.decide(refund(400), grants=[grant({"action": "refund"})])
        gate.decide(cleanup(), accepted=["dry_run"])
        found = compared(POLICY, rows(gate))

    assert (found.compared, found.changed, found.failed) == (6, 0, 0)
    assert found.sound


def test_changed_verdicts_are_counted_from_what_to_what() -> None:
    records = decided(*(refund(value) for value in (100, 260, 300, 400)))
    found = compared(parse_policy(TEXT.replace("250", "350"), registry=CORE), records)

    assert found.verdicts == {
        (Verdict.ALLOW, Verdict.ALLOW): 1,
        (Verdict.ESCALATE, Verdict.ALLOW): 2,
        (Verdict.ESCALATE, Verdict.ESCALATE): 1,
    }
    assert found.codes == {"-REFUND_OVER_ESCALATION_LIMIT": 2}
    assert found.changed == 2
    assert found.changes[0] == DecisionChange(
        decision_id=records[1].decision_id,
        action_type="refund",
        before=Verdict.ESCALATE,
        after=Verdict.ALLOW,
        codes_gone=("REFUND_OVER_ESCALATION_LIMIT",),
        codes_new=(),
        also=("decision_output", "refusal_class", "missing", "obligations"),
    )


def test_another_code_is_a_change_though_the_verdict_stays() -> None:
    policy = candidate("[REFUND_OVER_ESCALATION_LIMIT]", "[REFUND_PATTERN_ANOMALY]")
    found = compared(policy, decided(refund(400)))

    assert found.changed == 1
    assert found.codes == {"+REFUND_PATTERN_ANOMALY": 1, "-REFUND_OVER_ESCALATION_LIMIT": 1}


def test_another_obligation_is_a_change_though_verdict_and_codes_stay() -> None:
    found = compared(candidate("[human_review]", "[]"), decided(refund(400)))

    assert found.changed == 1
    assert not found.codes
    assert found.also == {"obligations": 1}


def test_the_order_of_rules_in_a_policy_is_no_change() -> None:
    blocks = TEXT.split("  - id: ")
    turned = "  - id: ".join([blocks[0], *reversed(blocks[1:])])
    record = decided(refund(400, evidence={"chargeback_risk": 0.95}))

    assert len(record[0].reason_codes) == 3
    assert compared(parse_policy(turned, registry=CORE), record).changed == 0


def test_the_same_request_id_twice_is_no_change() -> None:
    with opened() as gate:
        gate.decide(refund(400, request_id="r", tenant={"id": "a"}))
        gate.decide(refund(400, request_id="r", tenant={"id": "b"}))
        gate.decide(refund(400, request_id="r", tenant={"id": "a"}))
        found = compared(POLICY, [*rows(gate), *rows(gate)])

    assert (found.compared, found.changed) == (4, 0)


def test_decisions_without_a_policy_are_skipped_and_erased_records_are_counted() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        gate.resolve(asked.decision_id, accepted=["dry_run"])
        gate.decide(refund(1, request_id="r"))
        gate.decide(refund(2, request_id="r"))
        gate.decide({"action": {"type": "refund"}, "subject": {"id": "eve"}})
        stored(gate).erase_subject("default", "eve", by="ops", reason="test")
        found = compared(POLICY, rows(gate))

    assert (found.compared, found.skipped, found.erased, found.failed) == (2, 2, 1, 0)
    assert found.sound


def test_nothing_compared_is_not_a_match() -> None:
    assert not compared(POLICY, []).sound
    erased = [msgspec.structs.replace(record, sealed=None) for record in decided(refund())]
    assert not compared(POLICY, erased).sound


@given(
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)
)
def test_only_a_comparison_of_something_without_failures_is_sound(
    compared_: int, changed: int, failed: int, skipped: int, erased: int
) -> None:
    """INVARIANT: nothing compared is never a success."""
    found = compared(POLICY, [])._replace(
        compared=compared_, changed=changed, failed=failed, skipped=skipped, erased=erased
    )

    assert found.sound == (compared_ > 0 and failed == 0)


def test_a_field_that_redaction_removed_and_the_candidate_compares_is_a_failure() -> None:
    profile = find_profile("default", ["evidence.note"])
    request = refund(evidence={"ticket_id": "T-1", "note": "secretly"})
    record = decided(request, redaction=profile)
    reads_note = candidate("evidence.ticket_id: {exists: true}", "evidence.note: {exists: true}")

    assert compared(POLICY, record).sound
    found = compared(reads_note, record)
    assert found.compared == 0
    assert found.failures == (
        ComparisonFailure(
            record[0].decision_id,
            "evidence.note: redaction removed what the policy compares: nothing is guessed",
        ),
    )


def test_a_changed_sealed_half_is_a_failure() -> None:
    [record] = decided(refund())
    assert record.sealed is not None
    torn = msgspec.structs.replace(record, sealed=record.sealed.replace(b"T-1", b"T-2"))
    found = compared(POLICY, [record, torn])

    assert (found.compared, found.failed, found.sound) == (1, 1, False)
    assert "digest differs" in found.failures[0].problem


def test_a_finding_that_nobody_knows_any_more_is_a_failure() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding()])
    personal = record.personal
    assert personal is not None
    sealed = msgspec.json.encode(
        msgspec.structs.replace(personal, findings=(finding("acme.com/GONE"),))
    )
    digest = digest_of_bytes(sealed)
    unknown = msgspec.structs.replace(record, sealed=sealed, sealed_digest=digest)
    found = compared(POLICY, [unknown])

    assert found.failed == 1
    assert "acme.com/GONE" in found.failures[0].problem


def test_lines_that_cannot_be_read_are_failures_with_their_place() -> None:
    good = [write_line(record) for record in decided(refund())]
    found = compared(POLICY, read_lines([*good, b"{}", b"nonsense"]))

    assert (found.compared, found.failed) == (1, 2)
    assert [failure.decision_id for failure in found.failures] == ["line 2", "line 3"]


def test_an_error_without_a_place_is_a_failure_too() -> None:
    assert compared(POLICY, [InputError("torn")]).failures == (ComparisonFailure("?", "torn"),)


def test_all_are_counted_but_only_some_are_kept() -> None:
    records = decided(*(refund(300 + value) for value in range(5)))
    policy = candidate("gt: 250", "gt: 999")
    found = compared(policy, [*records, *map(InputError, "abc")], keep=2)

    assert (found.changed, len(found.changes)) == (5, 2)
    assert (found.failed, len(found.failures)) == (3, 2)


# -- memory and authority ----------------------------------------------------------------


def test_memory_speaks_by_the_settings_of_then() -> None:
    wary, bold = MemorySettings(), MemorySettings(block=1, escalate=1)
    records = []
    for settings in (wary, bold):
        with opened(memory=settings) as gate:
            gate.learn(gate.decide(refund(20)).decision_id, "failure", severity=5)
            records.append(gate.decide(refund(40)))

    assert [record.verdict for record in records] == [Verdict.ESCALATE, Verdict.ALLOW]
    assert compared(POLICY, records).changed == 0


def test_a_grant_that_lifted_nothing_then_may_lift_now() -> None:
    with opened() as gate:
        record = gate.decide(refund(200), grants=[grant({"action": "refund"})])
    assert record.ignored_grants[0].why == "lifts_nothing"
    found = compared(parse_policy(TEXT.replace("250", "100"), registry=CORE), [record])

    # The candidate would ask for approval, and the approval is there.
    assert found.verdicts == {(Verdict.ALLOW, Verdict.ALLOW): 1}
    assert "resolved_codes" in found.also


def test_a_grant_that_was_not_genuine_then_is_not_now() -> None:
    with opened(keys=None) as gate:
        record = gate.decide(refund(400), grants=[grant({"action": "refund"})])

    assert compared(POLICY, [record]).changed == 0


def test_attempts_that_were_used_up_stay_so() -> None:
    with opened(attempts=2, clock=Ticking()) as gate:
        first = gate.decide(cleanup())
        last = gate.decide(cleanup(continues=first.decision_id))

    assert [first.decision_output, last.decision_output] == ["NEED_CONTEXT", "REFUSE_WITH_PATH"]
    assert compared(POLICY, [first, last]).changed == 0


SCORES = st.sampled_from([0.0, 0.5, 0.849999, 0.85, 0.9, 0.949999, 0.95, 0.97, 0.98, 0.999, 1.0])


@given(
    st.tuples(SCORES, SCORES, SCORES),
    st.builds(
        MemorySettings,
        block=st.sampled_from([0.95, 1.0]),
        escalate=st.sampled_from([0.5, 0.85]),
        allow=st.sampled_from([0.9, 0.98]),
        lift=st.booleans(),
    ),
    st.sampled_from([refund(20), refund(400), refund("x"), cleanup(), refund(evidence={})]),
    st.booleans(),
)
def test_the_side_of_each_threshold_is_all_that_memory_decides_by(
    scores: tuple[float, float, float],
    settings: MemorySettings,
    request: dict[str, Any],
    attempts_left: bool,
) -> None:
    """INVARIANT: a score affects a decision only by the side of its threshold that it is on."""
    failure, success, grave = scores
    recall = Recall(
        failure=Similarity(score=failure),
        success=Similarity(score=success),
        severe_score=min(grave, failure),
        uncertainty_score=0.5,
        digest="sha256:0",
    )
    engine = DecisionEngine(POLICY, registry=CORE, memory=settings)
    question = EngineInput(request=request, recall=recall, attempts_left=attempts_left)
    judge = _CachingEngine(engine)

    assert judge.decide(question) == engine.evaluate(question).decision
    assert judge.decide(question) == engine.evaluate(question).decision


def test_the_cache_of_a_comparison_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.audit.diff._MAX_CACHED", 0)
    with opened(memory=MemorySettings()) as gate:
        gate.learn(gate.decide(refund(20)).decision_id, "failure", severity=5)
        gate.decide(refund(20))

        assert compared(POLICY, rows(gate)).changed == 0


ENGINE = DecisionEngine(POLICY, registry=CORE)
LIMIT = grant({"action": "refund"})


def decided_recorded(request: dict[str, Any], **more: Any) -> DecisionRecord:
    with opened(**more) as gate:
        return gate.decide(request)


def test_the_recorded_input_holds_the_original_request() -> None:
    record = decided_recorded(refund(400))
    question = recorded_input(record, ENGINE)

    assert ENGINE.evaluate(question).decision.reason_codes == record.reason_codes
    assert question.request == refund(400)


def test_an_erased_record_cannot_be_replayed() -> None:
    record = msgspec.structs.replace(decided_recorded(refund()), sealed=None)

    with pytest.raises(Unreplayable, match="erased") as caught:
        recorded_input(record, ENGINE)

    assert caught.value.where == "sealed"


def test_a_decision_by_demur_itself_cannot_be_replayed() -> None:
    with opened() as gate:
        gate.decide(refund(1, request_id="r"))
        conflict = gate.decide(refund(2, request_id="r"))

    with pytest.raises(Unreplayable, match="demur itself") as caught:
        recorded_input(conflict, ENGINE)

    assert caught.value.where == "basis"


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        # Removed, and compared.
        (refund(evidence={"ticket_id": "T-1", "chargeback_risk": 0.1}), "evidence.chargeback_risk"),
        # Blotted out where it occurs again, and compared there.
        (refund(evidence={"ticket_id": "hunter22", "password": "hunter22"}), "evidence.ticket_id"),
        (
            refund(evidence={"ticket_id": ["x", "hunter22"], "pin": "hunter22"}),
            "evidence.ticket_id",
        ),
        # Blotted out of a name: any field beside it may be the one that is gone.
        (refund(evidence={"chargeback_risks": 1, "password": "chargeback"}), "evidence"),
    ],
)
def test_a_fact_removed_by_redaction_is_not_guessed(request_: dict[str, Any], where: str) -> None:
    profile = find_profile("default", ["evidence.chargeback_risk"])
    record = decided_recorded(request_, redaction=profile)

    with pytest.raises(Unreplayable, match="nothing is guessed") as caught:
        recorded_input(record, ENGINE)

    assert caught.value.where is not None
    assert where in caught.value.where.split(", ")


def test_redaction_of_fields_the_policy_never_reads_is_no_loss() -> None:
    profile = RedactionProfile("own", paths=("evidence.note", "extensions"))
    request = refund(400, extensions={"x": 1})
    request["evidence"] |= {"note": "call me", "password": "hunter22"}
    record = decided_recorded(request, redaction=profile)

    assert record.redaction is not None
    assert len(record.redaction.removed) == 3
    question = recorded_input(record, ENGINE)
    assert ENGINE.evaluate(question).decision.verdict == "ESCALATE"


def test_a_name_blotted_out_at_the_top_leaves_nothing_to_stand_on() -> None:
    record = decided_recorded(refund(evidence={"ticket_id": "T-1", "password": "hunter22"}))
    personal = record.personal
    assert personal is not None
    changed = msgspec.structs.replace(personal, request={**personal.request, "[removed]ce": {}})
    forged = msgspec.structs.replace(record, sealed=msgspec.json.encode(changed))

    with pytest.raises(Unreplayable, match="removed names") as caught:
        recorded_input(forged, ENGINE)

    assert caught.value.where == "request"


def test_a_marker_that_the_caller_wrote_is_no_redaction() -> None:
    record = decided_recorded(refund(evidence={"ticket_id": "[removed]"}))

    assert recorded_input(record, ENGINE).request["evidence"]["ticket_id"] == "[removed]"


def reminded() -> DecisionRecord:
    with opened(memory=MemorySettings()) as gate:
        gate.learn(gate.decide(refund(400)).decision_id, "failure")
        return gate.decide(refund(400))


def test_the_settings_of_memory_are_those_of_then() -> None:
    assert recorded_memory_settings(reminded()) == MemorySettings()
    assert recorded_memory_settings(decided_recorded(refund())) is None


@pytest.mark.parametrize("settings", [{"block": 7}, {"block": "high"}, None])
def test_settings_of_memory_have_to_be_there_and_usable(settings: dict[str, Any] | None) -> None:
    record = reminded()
    determinism = msgspec.structs.replace(record.determinism, memory_settings=settings)

    with pytest.raises(InputError, match="no settings of a memory"):
        recorded_memory_settings(msgspec.structs.replace(record, determinism=determinism))


def test_signals_of_memory_have_to_be_there() -> None:
    record = reminded()
    personal = record.personal
    assert personal is not None
    bare = msgspec.json.encode(msgspec.structs.replace(personal, risk_signals={}))

    with pytest.raises(InputError, match="what memory recalled"):
        recorded_input(msgspec.structs.replace(record, sealed=bare), ENGINE)


def test_a_grant_that_was_not_believed_is_not_believed_again() -> None:
    stranger = SigningKey.from_randomness(bytes([7]) * 32, key_id="k7", holder="user:eve")
    fake = msgspec.structs.replace(LIMIT, grant_id="fake", key_id=stranger.key_id)
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT, fake])

    judged = recorded_input(record, ENGINE).recorded_rejections
    assert judged == {"g1": None, "fake": "unknown_key"}


def test_whether_a_genuine_grant_reaches_a_decision_is_judged_anew() -> None:
    other = grant({"action": "purchase"}, grant_id="g2")
    with opened() as gate:
        record = gate.decide(refund(400), grants=[other])

    assert [ignored.why for ignored in record.ignored_grants] == ["out_of_scope"]
    assert recorded_input(record, ENGINE).recorded_rejections == {"g2": None}


def test_two_grants_with_one_id_cannot_be_replayed() -> None:
    twin = msgspec.structs.replace(LIMIT, signature="AAAA")
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT, twin])
        twice = gate.decide(refund(400), grants=[LIMIT, LIMIT])

    assert recorded_input(twice, ENGINE).recorded_rejections == {"g1": None}
    with pytest.raises(Unreplayable, match="two grants have one id") as caught:
        recorded_input(record, ENGINE)
    assert caught.value.where == "grants"


def test_a_rejection_before_a_resolution_does_not_count_in_it() -> None:
    with opened(keys=None) as gate:
        before = gate.decide(refund(400), grants=[LIMIT])
        trusting = gate_over(stored(gate), entropy=entropy_of("another"))
        after = trusting.resolve(before.decision_id, grants=[LIMIT])

    assert [ignored.why for ignored in before.ignored_grants] == ["unknown_key"]
    assert (after.verdict, after.lifted_by) == ("ALLOW", ("g1",))
    assert recorded_input(after, ENGINE).recorded_rejections == {"g1": None}


def test_a_resolution_is_a_question_without_a_look_at_what_was_removed() -> None:
    profile = RedactionProfile("own", paths=("evidence",))
    with opened(redaction=profile) as gate:
        asked = gate.decide(cleanup(evidence={"chargeback_risk": 1}))
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])

    assert recorded_input(done, ENGINE).accepted == ("dry_run",)


def test_a_rejection_of_an_absent_grant_is_skipped() -> None:
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT])
    stray = (IgnoredGrant(grant_id="g9", why="revoked"),)

    question = recorded_input(msgspec.structs.replace(record, ignored_grants=stray), ENGINE)
    assert question.recorded_rejections == {"g1": None}


RECORD = make_record()


def test_a_record_does_not_differ_from_itself() -> None:
    assert list(record_differences(RECORD, make_record())) == []


def test_each_field_that_differs_is_named_with_both_values_in_plain_json() -> None:
    other = msgspec.structs.replace(
        RECORD, verdict=Verdict.DENY, matched_rules=(MatchedRule(rule_id="R", stage="S"),)
    )

    assert list(record_differences(RECORD, other)) == [
        FieldDifference("verdict", "ESCALATE", "DENY"),
        FieldDifference(
            "matched_rules",
            [{"rule_id": "R_REFUND_LIMIT", "stage": "ESCALATIONS"}],
            [{"rule_id": "R", "stage": "S"}],
        ),
    ]


def test_of_a_part_with_fields_the_field_is_named() -> None:
    policy = msgspec.structs.replace(RECORD.policy, mode="advisory")
    other = msgspec.structs.replace(RECORD, policy=policy, amount=None)

    assert [difference.field for difference in record_differences(RECORD, other)] == [
        "policy.mode",
        "amount",
    ]


def test_digests_links_and_the_version_of_the_engine_are_not_compared() -> None:
    determinism = msgspec.structs.replace(RECORD.determinism, engine_version="9.9.9")
    link = ChainLink(seq=1, previous="", hash="")
    other = msgspec.structs.replace(
        RECORD, determinism=determinism, chain=link, sealed=None, sealed_digest=""
    )

    assert list(record_differences(RECORD, other)) == []


def test_redacted_text_is_not_compared() -> None:
    other = msgspec.structs.replace(RECORD, request_id="r-[removed]")

    assert list(record_differences(RECORD, other)) == []
    assert list(record_differences(other, RECORD)) == [
        FieldDifference("request_id", "r-[removed]", None)
    ]


def test_fields_of_the_sealed_half_say_so() -> None:
    found = sealed_differences(personal(), personal(requester="user:eve"), ["requester", "scope"])

    assert list(found) == [FieldDifference("sealed.requester", "user:ada", "user:eve")]
