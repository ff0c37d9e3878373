import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classification import (
    classify,
    make_decision,
    missing_grants,
    strictest_class,
    unique_names,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Obligation,
    RefusalClass,
    Verdict,
    strictest_verdict,
)
from demur.errors import InconsistentError, InputError, InputTypeError, UnknownCodeError
from demur.model.decision import Decision, leading_entry

CORE = Registry.load()
CODES = [entry.code for entry in CORE]
ENTRIES = st.lists(st.sampled_from(list(CORE)), max_size=5)
ORDER = ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]


def test_every_code_alone_classifies_under_every_verdict() -> None:
    for entry, verdict in itertools.product(
        CORE, [Verdict.DENY, Verdict.ESCALATE, Verdict.ABSTAIN]
    ):
        if entry.refusal_class is None:
            with pytest.raises(InconsistentError):
                classify(verdict, [entry.code])
        else:
            assert classify(verdict, [entry.code]).refusal_class is entry.refusal_class


def test_a_string_names_the_verdict_as_well() -> None:
    assert classify("DENY", ["RCE_RISK"]) == (
        RefusalClass.HARD_BLOCK,
        DecisionOutput.REFUSE_WITH_PATH,
    )


@given(ENTRIES, ENTRIES)
def test_adding_a_code_can_never_weaken_the_class(some: list[object], more: list[object]) -> None:
    """INVARIANT: adding a code can never weaken the class."""

    def rank(entries: Iterable[object]) -> int:
        found = strictest_class(entries)  # type: ignore[arg-type]
        return (
            0 if found is None else ["SOFT_BLOCK", "WORKFLOW_BLOCK", "HARD_BLOCK"].index(found) + 1
        )

    assert rank([*some, *more]) >= rank(some)


@given(st.lists(st.sampled_from(Verdict)), st.lists(st.sampled_from(Verdict)))
def test_adding_a_verdict_can_never_relax_the_result(
    some: list[Verdict], more: list[Verdict]
) -> None:
    """INVARIANT: adding a verdict can never relax the result."""
    before, after = strictest_verdict(some), strictest_verdict([*some, *more])

    assert ORDER.index(after) >= ORDER.index(before)
    assert not some or before in some


@given(st.sampled_from(Verdict), st.lists(st.sampled_from(CODES), max_size=4), st.randoms())
def test_the_same_input_classifies_the_same(
    verdict: Verdict, codes: list[str], random: object
) -> None:
    shuffled = list(codes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def result(names: list[str]) -> object:
        try:
            return classify(verdict, names, ["c"], ["m"])
        except InconsistentError:
            return None

    assert result(codes) == result(codes) == result(shuffled)


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(UnknownCodeError, match="NOPE"):
        classify("DENY", ["NOPE"])
    with pytest.raises(InputError, match="unknown verdict `MAYBE`"):
        classify("MAYBE", [])
    with pytest.raises(InputTypeError, match="not one string"):
        classify("DENY", "RCE_RISK")
    with pytest.raises(InputTypeError, match="a list of strings"):
        classify("DENY", 5)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="an item of codes"):
        classify("DENY", [5])  # type: ignore[list-item]


def test_names_are_kept_in_order_and_once() -> None:
    assert unique_names("codes", ["b", "a", "b"]) == ("b", "a")


def test_what_is_named_has_a_name_and_a_flag_is_a_flag() -> None:
    with pytest.raises(InputError, match="an item of missing is empty"):
        classify("ESCALATE", ["SCOPE_MISSING"], missing=[" "])
    with pytest.raises(InputTypeError, match="attempts_left must be true or false"):
        classify("DENY", ["RCE_RISK"], attempts_left="no")  # type: ignore[arg-type]


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
    """INVARIANT: an obligation holds whatever else matched, even after its code was lifted."""
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


def test_the_strictest_code_speaks_then_the_most_severe_then_by_name() -> None:
    def lead(*codes: str) -> str:
        found = leading_entry([CORE[code] for code in codes])
        assert found is not None
        return found.code

    assert lead("DESTRUCTIVE_ACTION", "SCOPE_MISSING", "EGRESS_DENIED") == "EGRESS_DENIED"
    assert lead("SCOPE_MISSING", "UNVERIFIED_TOOL") == "UNVERIFIED_TOOL"
    assert lead("SCOPE_MISSING", "CONTEXT_MISSING") == "CONTEXT_MISSING"
    assert leading_entry([CORE["SUCCESS_MEMORY_SIMILAR_ALLOW"]]) is None


@given(
    st.sampled_from([Verdict.DENY, Verdict.ESCALATE, Verdict.ABSTAIN]),
    st.lists(st.sampled_from(REFUSING), min_size=1, max_size=4, unique=True),
    st.integers(0, 3),
    NAMES,
    NAMES,
)
def test_any_other_code_leads_before_a_fallback_code(
    verdict: Verdict, codes: list[str], fallbacks: int, constraints: list[str], missing: list[str]
) -> None:
    """INVARIANT: any other code leads before a fallback code."""
    fallback = codes[len(codes) - min(fallbacks, len(codes)) :]
    named: Any = {"constraints": constraints, "missing": missing, "registry": CORE}
    decision = make_decision(verdict, codes, fallback_codes=fallback, **named)
    plain = make_decision(verdict, codes, **named)
    others = [code for code in codes if code not in fallback] or codes

    assert decision.leading_code == make_decision(verdict, others, **named).leading_code
    assert decision.reason == CORE[str(decision.leading_code)].summary
    assert decision.refusal_class is plain.refusal_class
    assert decision.decision_output is plain.decision_output
    assert plain.leading_code is not None


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("constraints", [(), ("dry_run",)])
@pytest.mark.parametrize("missing", [(), ("target",)])
@pytest.mark.parametrize("fallback", [(), ("NO_MATCH_DEFAULT_ESCALATE",)])
def test_constraints_are_advised_only_where_they_are_named(
    verdict: Verdict, constraints: tuple[str, ...], missing: tuple[str, ...], fallback: tuple[str]
) -> None:
    """INVARIANT: `accept_constraints` is advised only where constraints are named."""
    for code, attempts_left in itertools.product(CODES, (True, False)):
        try:
            decision = make_decision(
                verdict,
                (code, *fallback),
                constraints=constraints,
                missing=missing,
                attempts_left=attempts_left,
                fallback_codes=fallback,
                registry=CORE,
            )
        except InconsistentError:
            continue

        assert constraints or decision.next_step is not Advice.ACCEPT_CONSTRAINTS
        assert constraints or "constraint" not in f"{decision.what_can_be_done_now}"


def test_what_is_missing_is_named_and_who_can_grant_it() -> None:
    decision = make_decision("ESCALATE", ["SCOPE_MISSING"], missing=["target", "window", "owner"])

    assert decision.what_can_be_done_now == "Supply what is missing: target, window and owner."
    assert str(decision.how_to_proceed).endswith("A grant of scope lifts it.")


def test_constraints_are_offered_then_attached() -> None:
    offered = make_decision("ESCALATE", ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])
    attached = make_decision("ALLOW", ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])

    assert "would make it possible: dry_run" in str(offered.what_can_be_done_now)
    assert "Proceed within" in str(attached.what_can_be_done_now)
    assert offered.next_step is attached.next_step is Advice.ACCEPT_CONSTRAINTS


def test_the_last_attempt_leads_to_a_person() -> None:
    decision = make_decision("ESCALATE", ["SCOPE_MISSING"], missing=["target"], attempts_left=False)

    assert decision.next_step is Advice.ESCALATE_OPERATOR
    assert "hand the request to a person" in str(decision.how_to_proceed)


def test_a_refused_workflow_block_says_which_grants_would_lift_it() -> None:
    decision = make_decision("ESCALATE", ["APPROVAL_REQUIRED", "SCOPE_MISSING", "RATE_LIMIT"])

    assert "Grants of approval, quota and scope lift it." in str(decision.how_to_proceed)


def test_a_workflow_block_without_grants_promises_none() -> None:
    decision = make_decision("DENY", ["APPROVAL_DENIED"])

    assert "grant" not in str(decision.how_to_proceed)


def test_the_reason_is_one_sentence_about_the_case() -> None:
    assert make_decision("DENY", ["SAFETY_EVASION"]).reason == CORE["SAFETY_EVASION"].summary


def test_nothing_is_to_be_accepted_where_nothing_is_offered() -> None:
    decision = make_decision("DENY", ["DESTRUCTIVE_ACTION"])

    assert decision.next_step is Advice.CHANGE_REQUEST
    assert "accept" not in str(decision.how_to_proceed).lower()


@pytest.mark.parametrize(
    ("verdict", "codes", "constraints", "missing"),
    [
        ("ESCALATE", ["APPROVAL_REQUIRED"], (), ("approval",)),
        ("DENY", ["FAILURE_MEMORY_SIMILAR_BLOCK"], (), ("approval",)),
        ("ESCALATE", ["APPROVAL_REQUIRED", "PERMISSION_DENIED"], (), ("approval", "authorization")),
        ("ESCALATE", ["APPROVAL_REQUIRED", "DESTRUCTIVE_ACTION"], ("dry_run",), ("approval",)),
        # No grant helps: nothing can lift the other code, or nobody judged the request.
        ("ESCALATE", ["APPROVAL_REQUIRED", "DESTRUCTIVE_ACTION"], (), ()),
        ("DENY", ["APPROVAL_REQUIRED", "RCE_RISK"], ("dry_run",), ()),
        ("DENY", ["APPROVAL_REQUIRED", "APPROVAL_DENIED"], (), ()),
        ("ABSTAIN", ["APPROVAL_REQUIRED"], (), ()),
        ("ABSTAIN", ["APPROVAL_REQUIRED", "GUARDRAIL_UNAVAILABLE"], (), ()),
        ("ESCALATE", ["RATE_LIMIT"], (), ()),
        ("ALLOW", [], (), ()),
    ],
)
def test_the_grants_that_would_lift_all_codes_are_missing(
    verdict: str, codes: list[str], constraints: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    assert missing_grants(verdict, codes, constraints, registry=CORE) == missing
