from typing import Any

import pytest
from msgspec.structs import replace
from support.gates import CORE, KEY, NOON, POLICY, RING, cleanup, finding, grant, opened, refund

from demur.audit.report import find_cause
from demur.classification import make_decision
from demur.codes.vocabulary import Advice, DecisionOutput, Surface, Verdict
from demur.errors import InputError
from demur.gate.engine import (
    DecisionEngine,
    EngineInput,
    conflict_result,
    explain_decision,
    explain_runtime,
    internal_error_result,
    paths_overlap,
    resolution_result,
    storage_unavailable_result,
)
from demur.memory.recall import MemorySettings, Recall
from demur.model.record import Explanation, Similarity
from demur.policy.loader import parse_policy

ENGINE = DecisionEngine(POLICY, registry=CORE, keys=RING)


def recalled(failure: float = 0.0, success: float = 0.0, grave: float | None = None) -> Recall:
    return Recall(
        failure=Similarity(score=failure),
        success=Similarity(score=success),
        severe_score=failure if grave is None else grave,
        uncertainty_score=0.5,
        digest="sha256:0",
    )


def test_the_same_question_gets_the_same_judgement() -> None:
    question = EngineInput(refund(400), findings=(finding(),))

    assert ENGINE.evaluate(question) == ENGINE.evaluate(question)
    assert ENGINE.evaluate(question) == DecisionEngine(POLICY, registry=CORE).evaluate(question)


def test_the_facts_are_what_the_policy_compared_and_no_more() -> None:
    request = refund(evidence={"ticket_id": "T-1", "note": "unread", "chargeback_risk": 0.1})
    judgement = ENGINE.evaluate(EngineInput(request))

    assert judgement.facts == {
        "amount_usd": 20,
        "evidence.ticket_id": "T-1",
        "evidence.chargeback_risk": 0.1,
    }


def test_a_missing_or_unusable_value_is_not_a_fact() -> None:
    assert ENGINE.evaluate(EngineInput(refund("much", evidence={}))).facts == {}


def test_a_finding_of_a_guard_is_not_a_fact_of_the_request() -> None:
    policy = parse_policy(
        "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
        "- {id: R, stage: ESCALATIONS, if: {findings.count: {gt: 0}},"
        " then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING]}}\n",
        registry=CORE,
    )
    judgement = DecisionEngine(policy, registry=CORE).evaluate(
        EngineInput(refund(), findings=(finding(),))
    )

    assert judgement.facts == {}
    assert judgement.evaluation.matched_rules == ("R",)


def test_memory_counts_only_where_the_operator_turned_it_on() -> None:
    question = EngineInput(refund(), recall=recalled(failure=1.0))
    remembering = DecisionEngine(POLICY, registry=CORE, memory=MemorySettings())

    assert ENGINE.evaluate(question).decision.verdict is Verdict.ALLOW
    assert remembering.evaluate(question).decision.verdict is Verdict.DENY


def test_grants_are_judged_by_keys_or_by_what_was_found_out_before() -> None:
    given = grant({"action": "refund"})
    question = EngineInput(
        refund(400),
        grants=(given,),
        requester="agent:billing",
        scope={"action": "refund"},
        now=NOON,
    )
    keyless = DecisionEngine(POLICY, registry=CORE)

    assert ENGINE.evaluate(question).decision.verdict is Verdict.ALLOW
    assert keyless.evaluate(question).decision.verdict is Verdict.ESCALATE
    replayed = replace(question, recorded_rejections={"g1": None}, now=None)
    assert keyless.evaluate(replayed).decision == ENGINE.evaluate(question).decision
    refused = replace(question, recorded_rejections={"g1": "expired"}, now=None)
    assert keyless.evaluate(refused).decision.verdict is Verdict.ESCALATE
    assert KEY.key_id == given.key_id


def test_a_revoked_grant_lifts_nothing() -> None:
    engine = DecisionEngine(POLICY, registry=CORE, keys=RING, revoked=["g1"])
    question = EngineInput(
        refund(400),
        grants=(grant({"action": "refund"}),),
        requester="agent:billing",
        scope={"action": "refund"},
        now=NOON,
    )

    assert engine.evaluate(question).decision.ignored_grants[0].why == "revoked"


def test_accepting_keeps_duties_and_attempts() -> None:
    before = ENGINE.evaluate(EngineInput(cleanup(), attempts_left=False)).decision
    after = ENGINE.evaluate(
        EngineInput(cleanup(), accepted=("dry_run",), attempts_left=False)
    ).decision

    assert before.decision_output == "REFUSE_WITH_PATH"
    assert after.decision_output == "ALLOW_CONSTRAINED"
    assert not after.attempts_left


@pytest.mark.parametrize(
    ("paths", "read"),
    [
        (["evidence.password"], []),
        (["evidence"], ["evidence"]),
        (["evidence.ticket_id"], ["evidence.ticket_id"]),
        (["evidence.ticket_id.0"], ["evidence.ticket_id.0"]),
        (["evidence.ticket"], []),
        (["action.amount.value"], ["action.amount.value"]),
        (["action.intent", "action.amount"], ["action.amount"]),
    ],
)
def test_the_engine_says_which_paths_the_policy_reads(paths: list[str], read: list[str]) -> None:
    assert ENGINE.filter_compared(refund(), paths) == tuple(read)


@pytest.mark.parametrize(
    ("one", "two", "wanted"),
    [
        ("a.b", "a.b", True),
        ("a", "a.b.c", True),
        ("a.b.c", "a", True),
        ("a.b", "a.bc", False),
        ("amount_usd", "action.amount.currency", True),
        ("amount_usd", "action.intent", False),
    ],
)
def test_paths_overlap_if_one_lies_within_the_other(one: str, two: str, wanted: bool) -> None:
    assert paths_overlap(one, two) is paths_overlap(two, one) is wanted


def test_a_field_that_chooses_among_many_rules_is_one_that_the_policy_reads() -> None:
    rules = "".join(
        f"- {{id: R{n}, stage: ESCALATIONS, if: {{action_type: x, evidence.kind: k{n}}},"
        " then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING]}}\n"
        for n in range(80)
    )
    head = "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
    engine = DecisionEngine(parse_policy(head + rules, registry=CORE), registry=CORE)

    def request(kind: Any) -> dict[str, Any]:
        return {"action": {"type": "x"}, "evidence": {"kind": kind}}

    for kind in ("k7", "other", 5, None):
        assert engine.filter_compared(request(kind), ["evidence.kind"]) == ("evidence.kind",)
    for kind in ("k7", "other", 5):
        assert engine.evaluate(EngineInput(request(kind))).facts == {"evidence.kind": kind}
    assert engine.evaluate(EngineInput(request(None))).facts == {}
    assert engine.evaluate(EngineInput({"action": {"type": "x"}, "evidence": 5})).facts == {}


ENGINE_explanation = DecisionEngine(POLICY, registry=CORE, memory=MemorySettings())


def explained(request: dict[str, object], **more: object) -> Explanation:
    return ENGINE_explanation.evaluate(EngineInput(request, **more)).explanation  # type: ignore[arg-type]


def test_an_allowed_request_is_explained_in_one_sentence_with_its_rule() -> None:
    explanation = explained(refund())

    assert explanation.summary == "Nothing stands in the way of this request."
    assert explanation.details.startswith("Rule R_SMALL (ALLOW_PATHS) says ALLOW: ")
    assert "amount_usd is at most 250" in explanation.details


def test_shadow_rules_explain_nothing() -> None:
    assert "R_TRIAL" not in explained(refund(200)).details


def test_the_default_and_what_cannot_be_used_are_named() -> None:
    assert "so the default does: ESCALATE" in explained({"action": {"type": "x"}}).details
    unusable = explained(refund("much"))

    assert "amount_usd cannot be used" in unusable.details
    assert unusable.details.endswith("What could not be judged is not executed.")


def test_findings_in_shadow_are_named() -> None:
    policy = parse_policy(
        "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\n"
        "shadow: [{code: SCOPE_MISSING, reason: on trial}]\nrules: []\n",
        registry=CORE,
    )
    judgement = DecisionEngine(policy, registry=CORE).evaluate(
        EngineInput(refund(), findings=(finding("SCOPE_MISSING"),))
    )

    assert "put in shadow by the policy: SCOPE_MISSING" in judgement.explanation.details


def test_memory_is_quoted_only_where_it_spoke() -> None:
    alike = Recall(
        failure=Similarity(score=1.0),
        success=Similarity(score=0.25),
        severe_score=1.0,
        uncertainty_score=0.0,
        digest="sha256:0",
    )
    unlike = Recall(
        failure=Similarity(score=0.1),
        success=Similarity(score=0.1),
        severe_score=0.1,
        uncertainty_score=0.9,
        digest="sha256:0",
    )

    assert "failures 1.00, to successes 0.25" in explained(refund(), recall=alike).details
    assert "Similarity" not in explained(refund(), recall=unlike).details


def test_the_explanation_names_lifted_codes() -> None:
    judgement = ENGINE_explanation.evaluate(
        EngineInput({"action": {"type": "cleanup"}}, accepted=("dry_run",))
    )

    assert judgement.decision.verdict is Verdict.ALLOW
    assert "Lifted or bound: DESTRUCTIVE_ACTION." in judgement.explanation.details


def test_a_decision_without_a_policy_has_its_own_explanation() -> None:
    decision = ENGINE_explanation.evaluate(EngineInput(refund())).decision
    words = explain_runtime(decision, "because")
    evaluation = ENGINE_explanation.evaluate(EngineInput(refund())).evaluation

    assert words == Explanation(
        summary="Nothing stands in the way of this request.", details="because"
    )
    assert explain_decision(POLICY, evaluation, decision, None).summary == words.summary


@pytest.mark.parametrize(
    ("judge", "code", "words"),
    [
        (internal_error_result, "INTERNAL_ERROR", "An error kept it from being judged"),
        (storage_unavailable_result, "STORAGE_UNAVAILABLE", "The store could not be used"),
    ],
)
def test_an_error_is_an_abstention_that_names_its_kind_and_quotes_nothing(
    judge: object, code: str, words: str
) -> None:
    judgement = judge(CORE, InputError("it says hunter2"))  # type: ignore[operator]

    assert judgement.decision.verdict is Verdict.ABSTAIN
    assert judgement.decision.reason_codes == (code,)
    assert judgement.decision.decision_output is DecisionOutput.REFUSE_WITH_PATH
    assert f"{words}: InputError." in judgement.explanation.details
    assert "hunter2" not in str(judgement)


def test_a_conflict_denies_and_names_the_first_decision() -> None:
    judgement = conflict_result(CORE, "01J")

    assert judgement.decision.verdict is Verdict.DENY
    assert judgement.decision.reason_codes == ("IDEMPOTENCY_CONFLICT",)
    assert judgement.decision.next_step is Advice.CHANGE_REQUEST
    assert "01J" in judgement.explanation.details


def test_a_resolution_says_which_grants_count() -> None:
    decision = make_decision("ALLOW", [], lifted_by=["g1", "g2"], registry=CORE)

    assert resolution_result(decision, "01J").explanation.details.endswith("that count: g1, g2.")
    nothing = resolution_result(make_decision("ALLOW", [], registry=CORE), "01J")
    assert nothing.explanation.details.endswith("that count: nothing.")


def test_a_grant_that_was_given_is_no_longer_missing() -> None:
    codes = "[APPROVAL_REQUIRED, PERMISSION_DENIED]"
    policy = parse_policy(
        "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
        "- {id: R, stage: ESCALATIONS, if: {},"
        f" then: {{verdict: ESCALATE, reason_codes: {codes}}}}}\n",
        registry=CORE,
    )
    engine = DecisionEngine(policy, registry=CORE, keys=RING)
    asked = EngineInput(refund(), requester="agent:billing", scope={"action": "refund"}, now=NOON)
    approved = replace(asked, grants=(grant({"action": "refund"}),))
    before, after = (engine.evaluate(one).decision for one in (asked, approved))

    assert before.missing == ("approval", "authorization")
    assert before.decision_output is DecisionOutput.NEED_CONTEXT
    assert after.missing == ("authorization",)
    assert after.what_can_be_done_now == "Supply what is missing: authorization."
    # The grant does not count any more, so it is missing again.
    engine = DecisionEngine(policy, registry=CORE, keys=RING, revoked=["g1"])
    assert set(engine.resolve(after, approved).missing) == set(before.missing)


@pytest.mark.parametrize(
    ("request_", "findings", "words"),
    [
        (refund(), ["RCE_RISK"], "RCE_RISK found by the input guard; rule R_SMALL would allow."),
        (refund(400), [], "REFUND_OVER_ESCALATION_LIMIT by rule R_LIMIT."),
        (
            refund(400),
            ["RCE_RISK"],
            "RCE_RISK found by the input guard.",
        ),
        (
            {"action": {"type": "unknown"}},
            [],
            "No other rule decides, so the default does: ESCALATE.",
        ),
        (
            {"action": {"type": "unknown"}},
            ["RCE_RISK"],
            "RCE_RISK found by the input guard. No other rule matched; the default is ESCALATE.",
        ),
        (
            refund("much"),
            [],
            "EVIDENCE_INVALID because amount_usd cannot be used.",
        ),
    ],
)
def test_the_explanation_says_what_decided_and_which_rule_was_overruled(
    request_: dict[str, Any], findings: list[str], words: str
) -> None:
    """INVARIANT: no rule that allows is named as the reason of a refusal."""
    found = tuple(map(finding, findings))

    details = ENGINE.evaluate(EngineInput(request_, findings=found)).explanation.details
    assert details.startswith(words)


@pytest.mark.parametrize(
    ("surface", "words"),
    [
        (Surface.RUNTIME, "GUARDRAIL_UNAVAILABLE because a check could not be made; rule"),
        (Surface.MODEL, "GUARDRAIL_UNAVAILABLE by the model or its provider; rule"),
    ],
)
def test_the_explanation_calls_neither_demur_nor_a_model_a_guard(
    surface: Surface, words: str
) -> None:
    found = (finding("GUARDRAIL_UNAVAILABLE", surface=surface),)

    details = ENGINE.evaluate(EngineInput(refund(), findings=found)).explanation.details
    assert details.startswith(words)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("refund", "CONTEXT_MISSING because signals.fraud is missing; rule R_ALLOW would allow."),
        ("pay", "CONTEXT_MISSING by rule R_ASK and because signals.fraud is missing."),
    ],
)
def test_the_explanation_names_the_signal_whose_absence_decided(action: str, words: str) -> None:
    policy = parse_policy("""
schema_version: policy.v1
policy_id: p
policy_version: 1.0.0
rules:
  - id: R_ALLOW
    stage: ALLOW_PATHS
    if: {action_type: refund}
    then: {verdict: ALLOW}
  - id: R_FRAUD
    stage: HARD_BLOCKS
    if: {signals.fraud: {gt: 0.9}}
    then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}
  - id: R_ASK
    stage: ESCALATIONS
    if: {action_type: pay}
    then: {verdict: ESCALATE, reason_codes: [CONTEXT_MISSING]}
""")
    with opened(policy) as gate:
        record = gate.decide({"action": {"type": action}})

    assert record.explanation.details.startswith(words)
    assert f"{find_cause(record)}." == words


def test_the_first_engine_words_its_explanation_as_before() -> None:
    engine = DecisionEngine(POLICY, registry=CORE, version="0.1.0")
    result = engine.evaluate(EngineInput(refund(400)))

    assert result.explanation.details.startswith("Rule R_LIMIT (ESCALATIONS) says ESCALATE")
    assert result.decision.missing == ()


GRANTED = [entry.code for entry in CORE if entry.grants]


@pytest.mark.parametrize("code", GRANTED)
@pytest.mark.parametrize("verdict", ["DENY", "ESCALATE"])
def test_supplying_the_grants_that_are_missing_lifts_the_decision(code: str, verdict: str) -> None:
    policy = parse_policy(
        "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
        "- {id: R, stage: REQUIREMENTS, if: {},"
        f" then: {{verdict: {verdict}, reason_codes: [{code}]}}}}\n",
        registry=CORE,
    )
    engine = DecisionEngine(policy, registry=CORE, keys=RING)
    asked = EngineInput(refund(), requester="agent:billing", scope={"action": "refund"}, now=NOON)
    before = engine.evaluate(asked).decision
    grants = tuple(grant({"action": "refund"}, grant_id=kind, kind=kind) for kind in before.missing)
    after = engine.evaluate(replace(asked, grants=grants)).decision

    # A code that only time lifts asks for nothing.
    assert bool(before.missing) is (CORE[code].advice is not Advice.RETRY_LATER)
    assert (before.decision_output is DecisionOutput.NEED_CONTEXT) is bool(before.missing)
    assert (after.verdict is Verdict.ALLOW) is bool(before.missing)
    assert after.missing == ()


def test_the_first_engine_read_an_ambiguous_amount_as_decimals() -> None:
    asked = EngineInput(request=refund("1.000"))

    assert "EVIDENCE_INVALID" in ENGINE.evaluate(asked).decision.reason_codes
    first = DecisionEngine(POLICY, registry=CORE, version="0.1.0")
    assert first.evaluate(asked).decision.verdict is Verdict.ALLOW
