import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import UnknownCodeError
from demur.memory.consensus import MemoryAdjustment, apply_memory
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.record import Similarity

ASKED = "NO_MATCH_DEFAULT_ESCALATE"
LIFTING = MemorySettings(lift=True)


def found(*, failure: float = 0.0, success: float = 0.0, grave: float | None = None) -> Recall:
    return Recall(
        failure=Similarity(score=failure),
        success=Similarity(score=success),
        grave_score=failure if grave is None else grave,
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


def test_what_memory_said_before_is_no_change(core: Registry) -> None:
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


def test_what_is_allowed_already_stays_as_it_is(core: Registry) -> None:
    assert not apply_memory(Verdict.ALLOW, [], found(success=1.0), LIFTING, core).changed


def test_an_unknown_code_is_refused(core: Registry) -> None:
    with pytest.raises(UnknownCodeError):
        apply_memory(Verdict.DENY, ["NO_SUCH_CODE"], found(), LIFTING, core)
