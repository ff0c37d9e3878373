from itertools import pairwise

from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
    Verdict,
)

CLOSED = (
    *(Advice, DecisionOutput, Effect, GrantKind, Obligation, RefusalClass),
    *(RetryScope, Severity, Stability, Surface, Verdict),
)


def test_a_hard_block_is_stricter_than_a_workflow_block_than_a_soft_block() -> None:
    strictest_first = [
        RefusalClass.HARD_BLOCK,
        RefusalClass.WORKFLOW_BLOCK,
        RefusalClass.SOFT_BLOCK,
    ]

    assert set(strictest_first) == set(RefusalClass)
    assert all(a.strictness > b.strictness for a, b in pairwise(strictest_first))


def test_a_denial_beats_an_abstention_beats_an_escalation_beats_an_allowance() -> None:
    winners_first = [Verdict.DENY, Verdict.ABSTAIN, Verdict.ESCALATE, Verdict.ALLOW]

    assert set(winners_first) == set(Verdict)
    assert all(a.precedence > b.precedence for a, b in pairwise(winners_first))


def test_a_member_prints_and_compares_as_its_value() -> None:
    for words in CLOSED:
        for word in words:
            assert f"{word}" == str(word) == word == word.value


def test_no_two_members_share_a_word() -> None:
    for words in CLOSED:
        assert len(words.__members__) == len(list(words))


def test_the_contract_s_closed_lists_are_these() -> None:
    assert {str(output) for output in DecisionOutput} == {
        "ALLOW_EXECUTE",
        "ALLOW_CONSTRAINED",
        "NEED_CONTEXT",
        "REFUSE_WITH_PATH",
    }
    assert {str(advice) for advice in Advice} == {
        "do_not_retry",
        "change_request",
        "provide_context",
        "accept_constraints",
        "request_approval",
        "retry_later",
        "reset_context",
        "use_other_model",
        "escalate_operator",
    }
