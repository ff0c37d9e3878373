from demur.classification.conclude import make_decision
from demur.classification.recovery import leading_entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice

CORE = Registry.load()


def test_the_strictest_code_speaks_then_the_most_severe_then_by_name() -> None:
    def lead(*codes: str) -> str:
        found = leading_entry([CORE[code] for code in codes])
        assert found is not None
        return found.code

    assert lead("DESTRUCTIVE_ACTION", "SCOPE_MISSING", "EGRESS_DENIED") == "EGRESS_DENIED"
    assert lead("SCOPE_MISSING", "UNVERIFIED_TOOL") == "UNVERIFIED_TOOL"
    assert lead("SCOPE_MISSING", "CONTEXT_MISSING") == "CONTEXT_MISSING"
    assert leading_entry([CORE["SUCCESS_MEMORY_SIMILAR_ALLOW"]]) is None


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

    assert "A grant of approval, quota or scope lifts it." in str(decision.how_to_proceed)


def test_a_workflow_block_without_grants_promises_none() -> None:
    decision = make_decision("DENY", ["APPROVAL_DENIED"])

    assert "grant" not in str(decision.how_to_proceed)


def test_the_reason_is_one_sentence_about_the_case() -> None:
    assert make_decision("DENY", ["SAFETY_EVASION"]).reason == CORE["SAFETY_EVASION"].summary


def test_nothing_is_to_be_accepted_where_nothing_is_offered() -> None:
    decision = make_decision("DENY", ["DESTRUCTIVE_ACTION"])

    assert decision.next_step is Advice.CHANGE_REQUEST
    assert "accept" not in str(decision.how_to_proceed).lower()
