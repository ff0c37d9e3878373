import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classification.conclude import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, DecisionOutput, Obligation, RefusalClass, Verdict
from demur.errors import InputTypeError
from demur.model.decision import Decision

CORE = Registry.load()
REFUSING = [entry.code for entry in CORE if entry.refusal_class is not None]
NAMES = st.lists(st.sampled_from(["one", "two", "three"]), max_size=2)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    return make_decision(
        draw(st.sampled_from([Verdict.DENY, Verdict.ESCALATE, Verdict.ABSTAIN])),
        draw(st.lists(st.sampled_from(REFUSING), min_size=1, max_size=4)),
        constraints=draw(NAMES),
        missing=draw(NAMES),
        attempts_left=draw(st.booleans()),
        registry=CORE,
    )


@given(decisions())
def test_every_output_but_allow_execute_carries_all_recovery_fields(decision: Decision) -> None:
    """INVARIANT: every output but ALLOW_EXECUTE carries all recovery fields."""
    assert decision.decision_output is not DecisionOutput.ALLOW_EXECUTE
    assert decision.reason
    assert decision.what_can_be_done_now
    assert decision.how_to_proceed
    assert decision.next_step in set(Advice)


@given(decisions())
def test_a_hard_block_never_hints_at_a_way_around(decision: Decision) -> None:
    if decision.refusal_class is RefusalClass.HARD_BLOCK:
        words = f"{decision.what_can_be_done_now} {decision.how_to_proceed}".lower()

        assert "grant" not in words
        assert "constraint" not in words
        assert "missing" not in words


@given(decisions())
def test_abstain_never_executes(decision: Decision) -> None:
    assert decision.verdict is not Verdict.ALLOW
    assert not decision.decision_output.startswith("ALLOW_")


@given(st.lists(st.sampled_from(REFUSING), max_size=4), st.booleans())
def test_an_obligation_holds_whatever_else_matched_and_after_its_code_was_lifted(
    others: list[str], lifted: bool
) -> None:
    """INVARIANT: an obligation holds whatever else matched, and after its code was lifted."""
    codes = [*others, "POLICY_VIOLATION"]
    crisis = ["CRISIS_ESCALATION"]
    decision = make_decision(
        "DENY",
        codes if lifted else [*codes, *crisis],
        resolved_codes=crisis if lifted else (),
        registry=CORE,
    )

    assert {Obligation.CRISIS_RESOURCES, Obligation.HUMAN_REVIEW} <= set(decision.obligations)


def test_nothing_stands_in_the_way_of_allow_execute() -> None:
    decision = make_decision("ALLOW", ["SUCCESS_MEMORY_SIMILAR_ALLOW"])

    assert decision.reason is None
    assert decision.next_step is None


def test_a_scope_is_a_mapping_of_strings() -> None:
    with pytest.raises(InputTypeError, match="mapping of strings"):
        make_decision("ALLOW", [], scope=["action"])  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="a scope holds strings"):
        make_decision("ALLOW", [], scope={"amount": 5})  # type: ignore[dict-item]


@given(decisions(), st.lists(st.sampled_from(list(Obligation))))
def test_duties_of_rules_hold_in_addition_to_those_of_codes(
    decision: Decision, duties: list[Obligation]
) -> None:
    again = make_decision(
        decision.verdict,
        decision.reason_codes,
        constraints=decision.constraints,
        missing=decision.missing,
        attempts_left=decision.attempts_left,
        obligations=duties,
        registry=CORE,
    )

    assert set(again.obligations) == {*decision.obligations, *duties}
    assert list(again.obligations) == [duty for duty in Obligation if duty in again.obligations]
    assert again.decision_output is decision.decision_output
