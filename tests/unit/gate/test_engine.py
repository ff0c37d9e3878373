from typing import Any

import pytest
from gates import CORE, KEY, NOON, POLICY, RING, cleanup, finding, grant, refund
from msgspec.structs import replace

from demur.codes.vocabulary import Verdict
from demur.gate.engine import DecisionEngine, EngineInput, paths_overlap
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.record import Similarity
from demur.policy.loader import parse_policy

ENGINE = DecisionEngine(POLICY, registry=CORE, keys=RING)


def recalled(failure: float = 0.0, success: float = 0.0, grave: float | None = None) -> Recall:
    return Recall(
        failure=Similarity(score=failure),
        success=Similarity(score=success),
        grave_score=failure if grave is None else grave,
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


def test_what_is_missing_or_unusable_is_no_fact() -> None:
    assert ENGINE.evaluate(EngineInput(refund("much", evidence={}))).facts == {}


def test_what_guards_saw_is_no_fact_of_the_request() -> None:
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
    replayed = replace(question, judged_grants={"g1": None}, now=None)
    assert keyless.evaluate(replayed).decision == ENGINE.evaluate(question).decision
    refused = replace(question, judged_grants={"g1": "expired"}, now=None)
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
