from gates import CORE, POLICY, finding, refund

from demur.codes.vocabulary import Verdict
from demur.gate.engine import DecisionEngine, EngineInput
from demur.gate.explanation import explain_decision, explain_runtime
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.record import Explanation, Similarity
from demur.policy.loader import parse_policy

ENGINE = DecisionEngine(POLICY, registry=CORE, memory=MemorySettings())


def explained(request: dict[str, object], **more: object) -> Explanation:
    return ENGINE.evaluate(EngineInput(request, **more)).explanation  # type: ignore[arg-type]


def test_what_passes_is_said_in_one_sentence_with_the_rule_it_rests_on() -> None:
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
        grave_score=1.0,
        uncertainty_score=0.0,
        digest="sha256:0",
    )
    unlike = Recall(
        failure=Similarity(score=0.1),
        success=Similarity(score=0.1),
        grave_score=0.1,
        uncertainty_score=0.9,
        digest="sha256:0",
    )

    assert "failures 1.00, to successes 0.25" in explained(refund(), recall=alike).details
    assert "Similarity" not in explained(refund(), recall=unlike).details


def test_what_was_lifted_is_named() -> None:
    judgement = ENGINE.evaluate(EngineInput({"action": {"type": "cleanup"}}, accepted=("dry_run",)))

    assert judgement.decision.verdict is Verdict.ALLOW
    assert "Lifted or bound: DESTRUCTIVE_ACTION." in judgement.explanation.details


def test_what_no_policy_decided_has_its_own_words() -> None:
    decision = ENGINE.evaluate(EngineInput(refund())).decision
    words = explain_runtime(decision, "because")
    evaluation = ENGINE.evaluate(EngineInput(refund())).evaluation

    assert words == Explanation(
        summary="Nothing stands in the way of this request.", details="because"
    )
    assert explain_decision(POLICY, evaluation, decision, None).summary == words.summary
