import json
from typing import Any

import pytest

from demur.canonical import canonical_bytes
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, InputTypeError, UnknownCodeError
from demur.memory.experience import ActionOutcome, Experience, Vector
from demur.memory.index import MemoryIndex
from demur.memory.recall import (
    MemoryAdjustment,
    MemorySettings,
    Recall,
    apply_memory,
    recall_similar,
)
from demur.model.record import Similarity
from demur.model.request import MEMORY_SIGNALS

EAST = Vector.from_values({0: 10})


def one(memory_id: str, outcome: ActionOutcome, vector: Vector, severity: int = 3) -> Experience:
    return Experience(
        memory_id=memory_id,
        outcome=outcome,
        action_type="refund",
        projection="p",
        vector=vector,
        created_at="2026-01-01T00:00:00Z",
        severity=severity,
    )


def test_with_nothing_similar_all_is_uncertain() -> None:
    assert recall_similar(MemoryIndex([]), EAST, MemorySettings()).uncertainty_score == 1.0


def test_the_nearest_of_either_outcome_sets_the_uncertainty() -> None:
    failure = one("f", ActionOutcome.FAILURE, Vector.from_values({0: 1, 1: 1}), severity=2)
    success = one("s", ActionOutcome.SUCCESS, Vector.from_values({0: 10, 1: 2}))
    index = MemoryIndex([failure, success])
    found = recall_similar(index, EAST, MemorySettings())

    assert found.uncertainty_score == 0.019419
    assert found.severe_score == 0.0
    assert recall_similar(index, EAST, MemorySettings(block_severity=2)).severe_score == 0.707107
    assert found.digest == index.digest
    assert found.exact


def test_signals_are_plain_json_and_can_be_read_back() -> None:
    found = recall_similar(
        MemoryIndex([one("f", ActionOutcome.FAILURE, EAST)]), EAST, MemorySettings()
    )
    signals = json.loads(canonical_bytes(found.risk_signals()))

    assert tuple(signals) == MEMORY_SIGNALS
    assert Recall.from_signals(signals, found.digest) == found
    assert signals["success_similarity"] == {"score": 0, "top_k": []}
    assert signals["failure_similarity"] == {
        "score": 1,
        "top_k": [
            {"memory_id": "f", "label": "failure", "score": 1, "summary": "refund, severity 3"}
        ],
    }


@pytest.mark.parametrize("signals", [{}, {"failure_similarity": {"score": "high"}}])
def test_signals_that_cannot_be_read_are_refused(signals: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="what memory recalled cannot be read"):
        Recall.from_signals(signals, "sha256:0")


ASKED = "NO_MATCH_DEFAULT_ESCALATE"
LIFTING = MemorySettings(lift=True)


def found(*, failure: float = 0.0, success: float = 0.0, grave: float | None = None) -> Recall:
    return Recall(
        failure=Similarity(score=failure),
        success=Similarity(score=success),
        severe_score=failure if grave is None else grave,
        uncertainty_score=0.0,
        digest="sha256:0",
    )


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.ESCALATE])
def test_the_likeness_of_a_failure_denies(core: Registry, verdict: Verdict) -> None:
    after = apply_memory(verdict, [ASKED], found(failure=0.95), MemorySettings(), core)

    assert after == MemoryAdjustment(
        Verdict.DENY, (ASKED, "FAILURE_MEMORY_SIMILAR_BLOCK"), (), changed=True
    )


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.ESCALATE])
@pytest.mark.parametrize("failure", [0.85, 0.949999])
def test_a_weaker_likeness_escalates(core: Registry, verdict: Verdict, failure: float) -> None:
    after = apply_memory(verdict, [], found(failure=failure), MemorySettings(), core)

    assert after == MemoryAdjustment(
        Verdict.ESCALATE, ("FAILURE_MEMORY_SIMILAR_ESCALATE",), (), changed=True
    )


def test_a_mild_failure_escalates_however_alike(core: Registry) -> None:
    after = apply_memory(Verdict.ALLOW, [], found(failure=1.0, grave=0.2), MemorySettings(), core)

    assert after.verdict is Verdict.ESCALATE


def test_below_every_threshold_nothing_changes(core: Registry) -> None:
    near = found(failure=0.849999, success=0.979999)

    assert apply_memory(Verdict.ESCALATE, [ASKED], near, LIFTING, core) == MemoryAdjustment(
        Verdict.ESCALATE, (ASKED,)
    )


def test_a_repeated_memory_result_changes_nothing(core: Registry) -> None:
    codes = ("FAILURE_MEMORY_SIMILAR_ESCALATE",)

    assert apply_memory(
        Verdict.ESCALATE, codes, found(failure=0.9), MemorySettings(), core
    ) == MemoryAdjustment(Verdict.ESCALATE, codes)


def test_the_likeness_of_a_success_lifts_what_a_person_could_approve(core: Registry) -> None:
    codes = [ASKED, "SUCCESS_MEMORY_SIMILAR_ALLOW", "REFUND_OVER_ESCALATION_LIMIT"]
    after = apply_memory(Verdict.ESCALATE, codes, found(success=0.98), LIFTING, core)

    assert after == MemoryAdjustment(
        Verdict.ALLOW,
        ("SUCCESS_MEMORY_SIMILAR_ALLOW",),
        (ASKED, "REFUND_OVER_ESCALATION_LIMIT"),
        changed=True,
    )


@pytest.mark.parametrize(
    "code",
    ["RCE_RISK", "DESTRUCTIVE_ACTION", "SCOPE_MISSING", "CRISIS_ESCALATION", "EVIDENCE_INVALID"],
)
def test_one_code_that_approval_does_not_lift_keeps_all(core: Registry, code: str) -> None:
    before = (ASKED, code)

    assert not apply_memory(Verdict.ESCALATE, before, found(success=1.0), LIFTING, core).changed


def test_an_obligation_of_a_rule_keeps_the_escalation(core: Registry) -> None:
    after = apply_memory(
        Verdict.ESCALATE, [ASKED], found(success=1.0), LIFTING, core, obligations=["human_review"]
    )

    assert after.verdict is Verdict.ESCALATE


def test_nothing_is_lifted_unless_the_operator_turned_it_on(core: Registry) -> None:
    near = found(success=1.0)

    assert not apply_memory(Verdict.ESCALATE, [ASKED], near, MemorySettings(), core).changed


def test_an_escalation_without_a_reason_is_not_lifted(core: Registry) -> None:
    assert not apply_memory(Verdict.ESCALATE, [], found(success=1.0), LIFTING, core).changed


def test_an_allowed_verdict_is_not_lifted_again(core: Registry) -> None:
    assert not apply_memory(Verdict.ALLOW, [], found(success=1.0), LIFTING, core).changed


def test_an_unknown_code_is_refused(core: Registry) -> None:
    with pytest.raises(UnknownCodeError):
        apply_memory(Verdict.DENY, ["NO_SUCH_CODE"], found(), LIFTING, core)


def test_lifting_is_off_unless_turned_on() -> None:
    assert not MemorySettings().lift


def test_settings_are_plain_json() -> None:
    assert json.loads(json.dumps(MemorySettings(top_k=3).as_json())) == {
        "block": 0.95,
        "escalate": 0.85,
        "allow": 0.98,
        "lift": False,
        "block_severity": 3,
        "top_k": 3,
    }


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"block": 0.8}, "`escalate` is 0.85, above `block`"),
        ({"escalate": 0}, "`escalate` is 0, but"),
        ({"block": 1.1}, "`block` is 1.1, but"),
        ({"allow": float("nan")}, "`allow` is nan, but"),
        ({"top_k": 0}, "`top_k` is 0, not from 1 to 100"),
        ({"block_severity": 6}, "`block_severity` is 6, not from 1 to 5"),
    ],
)
def test_values_out_of_range_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        MemorySettings(**settings)


@pytest.mark.parametrize(
    "settings", [{"block": "1"}, {"allow": True}, {"lift": 1}, {"top_k": 1.5}, {"top_k": True}]
)
def test_values_of_another_kind_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputTypeError, match="memory: `"):
        MemorySettings(**settings)


def test_thresholds_may_be_whole() -> None:
    assert MemorySettings(block=1, escalate=1, allow=1).block == 1
