import pytest
from gates import CORE

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import Advice, DecisionOutput, Verdict
from demur.errors import InputError
from demur.gate.runtime import (
    conflict_result,
    internal_error_result,
    resolution_result,
    storage_unavailable_result,
)


@pytest.mark.parametrize(
    ("judge", "code"),
    [
        (internal_error_result, "INTERNAL_ERROR"),
        (storage_unavailable_result, "STORAGE_UNAVAILABLE"),
    ],
)
def test_an_error_is_an_abstention_that_names_its_kind_and_quotes_nothing(
    judge: object, code: str
) -> None:
    judgement = judge(CORE, InputError("it says hunter2"))  # type: ignore[operator]

    assert judgement.decision.verdict is Verdict.ABSTAIN
    assert judgement.decision.reason_codes == (code,)
    assert judgement.decision.decision_output is DecisionOutput.REFUSE_WITH_PATH
    assert "InputError" in judgement.explanation.details
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
