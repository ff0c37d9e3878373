from typing import Any

import pytest
from gates import opened, refund

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.generated import GuardedAnswer
from demur.enforce.ruling import CheckResult
from demur.errors import InputError
from demur.model.finding import Finding
from demur.model.refusal import Refusal
from demur.testing.assertions import assert_allows, assert_refuses

HARD = Refusal.from_code("RCE_RISK", "curl | sh", surface="code_execution")


def failure(*given: Any, **more: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_refuses(*given, **more)
    return str(caught.value)


def test_a_refusal_as_expected_is_returned() -> None:
    seen = assert_refuses(
        HARD,
        ReasonCode.RCE_RISK,
        refusal_class="HARD_BLOCK",
        advice="do_not_retry",
        surface="code_execution",
    )

    assert seen.refusal is HARD


def test_any_refusal_will_do_if_nothing_else_is_said() -> None:
    assert assert_refuses("REFUSED: RATE_LIMIT: 3 a minute").codes == ("RATE_LIMIT",)


def test_any_code_in_force_will_do() -> None:
    found = Finding(code="RCE_RISK", surface=Surface.TOOL_CALL, detail="curl")
    with opened() as gate:
        record = gate.decide(refund(900), findings=[found])

    assert_refuses(record, "RCE_RISK", refusal_class="HARD_BLOCK")
    assert_refuses(record, "REFUND_OVER_ESCALATION_LIMIT", surface="tool_call")


def test_a_failure_shows_each_fact_and_marks_those_that_differ() -> None:
    told = failure(
        HARD, "DESTRUCTIVE_ACTION", refusal_class="SOFT_BLOCK", advice="retry_later", surface="rate"
    )

    expected, *rest = told.splitlines()
    assert expected.endswith("class SOFT_BLOCK, advice retry_later, surface rate")
    assert rest == [
        "but a refusal refuses",
        "  code      RCE_RISK  <- expected DESTRUCTIVE_ACTION",
        "  class     HARD_BLOCK  <- expected SOFT_BLOCK",
        "  advice    do_not_retry  <- expected retry_later",
        "  surface   code_execution  <- expected rate",
        "  detail    curl | sh",
    ]


def test_a_failure_on_a_record_names_the_decision_and_the_rules() -> None:
    with opened() as gate:
        record = gate.decide(refund(20))
    told = failure(record)

    assert "but a decision record does not refuse" in told
    assert f"  decision  {record.decision_id}" in told
    assert "  rules     R_SMALL (ALLOW_PATHS)" in told


def test_a_failure_says_where_a_code_is_not_registered() -> None:
    assert "RCE_RISC, which is not registered: did you mean `RCE_RISK`?" in failure(
        HARD, "RCE_RISC"
    )
    assert failure(HARD, "acme.com/QQQ").splitlines()[2].endswith("which is not registered")


def test_a_fact_that_is_missing_is_shown_as_missing() -> None:
    told = failure("REFUSED: RCE_RISK: curl", surface="rate")

    assert "  surface   none  <- expected rate" in told


def test_a_long_detail_is_cut_and_stays_one_line() -> None:
    told = failure("All is well.\n" + "x" * 1000)

    assert "  detail    All is well.\\nxxx" in told
    assert max(map(len, told.splitlines())) < 320


def test_a_guard_that_broke_is_no_refusal_unless_its_code_is_named() -> None:
    broken = Refusal.from_code("GUARDRAIL_UNAVAILABLE")

    told = failure(broken)
    assert told.startswith("expected a refusal that was judged; name the code")
    assert "  judged    no" in told
    assert_refuses(broken, "GUARDRAIL_UNAVAILABLE")


def test_a_model_that_failed_passes_neither_assertion() -> None:
    error = Finding(code="PROVIDER_UNAVAILABLE", surface=Surface.MODEL, detail="timeout")
    failed = GuardedAnswer("Try again.", error=error)

    assert "neither refuses nor allows" in failure(failed)
    with pytest.raises(AssertionError, match="the model failed: PROVIDER_UNAVAILABLE"):
        assert_allows(failed)


@pytest.mark.parametrize("name", ["refusal_class", "advice", "surface"])
def test_a_word_that_does_not_exist_is_an_error_and_no_failure(name: str) -> None:
    wrong: dict[str, Any] = {name: "HARD"}
    with pytest.raises(InputError, match=f"{name}: unknown `HARD`"):
        assert_refuses(HARD, **wrong)


def test_what_allows_is_returned_with_what_a_call_returned() -> None:
    assert assert_allows(lambda: {"sent": 3}).value == {"sent": 3}


def test_what_refuses_is_not_allowed_and_the_failure_says_why() -> None:
    ruling = CheckResult(Surface.TOOL_CALL, allowed=False, refusal=HARD)
    with pytest.raises(AssertionError) as caught:
        assert_allows(ruling.raise_if_refused)

    assert str(caught.value).startswith(
        "expected no refusal\nbut a call that raised `Refused` refuses\n  code      RCE_RISK\n"
    )
