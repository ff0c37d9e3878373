"""The table, held against itself written the other way round: row by row, over the whole domain."""

import itertools
from typing import Any

import pytest

from demur.classification import make_decision
from demur.codes.vocabulary import Advice, DecisionOutput, RefusalClass, Verdict
from demur.errors import InconsistentError
from demur.model.decision import Decision, Outcome, decision_output_for

REFUSED: dict[str, Any] = {
    "verdict": Verdict.DENY,
    "reason_codes": ("RCE_RISK",),
    "refusal_class": RefusalClass.HARD_BLOCK,
    "decision_output": DecisionOutput.REFUSE_WITH_PATH,
    "reason": "Foreign code would run.",
    "what_can_be_done_now": "Carry on with the rest.",
    "how_to_proceed": "Read the script first.",
    "next_step": Advice.DO_NOT_RETRY,
}


def test_a_consistent_decision_can_be_built() -> None:
    assert Decision(**REFUSED).decision_output is DecisionOutput.REFUSE_WITH_PATH


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.ALLOW},
        {"decision_output": DecisionOutput.ALLOW_EXECUTE},
        {"decision_output": DecisionOutput.NEED_CONTEXT},
        {"refusal_class": None},
        {"reason_codes": ()},
        {"refusal_class": RefusalClass.SOFT_BLOCK, "constraints": ("dry_run",)},
    ],
)
def test_an_inconsistent_one_cannot(change: dict[str, Any]) -> None:
    with pytest.raises(InconsistentError):
        Decision(**{**REFUSED, **change})


@pytest.mark.parametrize("field", ["reason", "what_can_be_done_now", "how_to_proceed", "next_step"])
def test_a_dead_end_cannot_be_built(field: str) -> None:
    with pytest.raises(InconsistentError, match="dead end"):
        Decision(**{**REFUSED, field: None})


def test_a_decision_is_frozen() -> None:
    decision = make_decision("ALLOW", [])

    with pytest.raises(AttributeError):
        decision.verdict = Verdict.DENY  # type: ignore[misc]


def test_the_class_is_that_of_the_codes() -> None:
    with pytest.raises(InconsistentError, match="RCE_RISK is HARD_BLOCK, not none"):
        Decision(
            verdict=Verdict.ALLOW,
            reason_codes=("RCE_RISK",),
            refusal_class=None,
            decision_output=DecisionOutput.ALLOW_EXECUTE,
        )
    with pytest.raises(InconsistentError, match="is WORKFLOW_BLOCK, not HARD_BLOCK"):
        Decision(**{**REFUSED, "reason_codes": ("SCOPE_MISSING",)})


def test_a_code_of_another_registry_is_taken_at_its_word() -> None:
    decision = Decision(**{**REFUSED, "reason_codes": ("acme.com/NEVER", "SCOPE_MISSING")})

    assert decision.refusal_class is RefusalClass.HARD_BLOCK


FLAGS = (True, False)
DOMAIN = list(itertools.product(Verdict, [None, *RefusalClass], FLAGS, FLAGS, FLAGS))


def expected(
    verdict: str, refusal_class: str | None, constraints: bool, missing: bool, attempts: bool
) -> str | None:
    """Return the output as the specification's rows say it, or None for an impossible row."""
    rows = {
        ("allow", None): "ALLOW_EXECUTE",
        ("allow", "SOFT_BLOCK"): "ALLOW_CONSTRAINED" if constraints else None,
        ("block", "HARD_BLOCK"): "REFUSE_WITH_PATH",
        ("block", "WORKFLOW_BLOCK"): (
            "NEED_CONTEXT" if missing and attempts else "REFUSE_WITH_PATH"
        ),
        ("block", "SOFT_BLOCK"): (
            "NEED_CONTEXT" if constraints and attempts else "REFUSE_WITH_PATH"
        ),
    }
    return rows.get(("allow" if verdict == "ALLOW" else "block", refusal_class))


@pytest.mark.parametrize(("verdict", "refusal_class", "constraints", "missing", "left"), DOMAIN)
def test_the_whole_domain(
    verdict: Verdict,
    refusal_class: RefusalClass | None,
    constraints: bool,
    missing: bool,
    left: bool,
) -> None:
    want = expected(verdict, refusal_class, constraints, missing, left)

    def call() -> DecisionOutput:
        return decision_output_for(
            verdict, refusal_class, constraints=constraints, missing=missing, attempts_left=left
        )

    if want is None:
        with pytest.raises(InconsistentError):
            call()
    else:
        assert call() == want


def test_the_output_is_allow_if_and_only_if_the_verdict_is_allow() -> None:
    """INVARIANT: the output is ALLOW_* if and only if the verdict is ALLOW."""
    for verdict, refusal_class, constraints, missing, left in DOMAIN:
        if expected(verdict, refusal_class, constraints, missing, left) is None:
            continue
        output = decision_output_for(
            verdict, refusal_class, constraints=constraints, missing=missing, attempts_left=left
        )

        assert output.startswith("ALLOW_") is (verdict is Verdict.ALLOW)


def test_the_domain_is_the_whole_domain() -> None:
    assert len(DOMAIN) == 4 * 4 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("verdict", "output", "outcome"),
    [
        ("ALLOW", "ALLOW_EXECUTE", Outcome.ALLOWED),
        ("ALLOW", "ALLOW_CONSTRAINED", Outcome.ALLOWED_WITH_LIMITS),
        ("ESCALATE", "NEED_CONTEXT", Outcome.NEEDS_SOMETHING),
        ("DENY", "NEED_CONTEXT", Outcome.NEEDS_SOMETHING),
        ("ESCALATE", "REFUSE_WITH_PATH", Outcome.REFUSED),
        ("DENY", "REFUSE_WITH_PATH", Outcome.REFUSED),
        ("ABSTAIN", "NEED_CONTEXT", Outcome.COULD_NOT_JUDGE),
        ("ABSTAIN", "REFUSE_WITH_PATH", Outcome.COULD_NOT_JUDGE),
    ],
)
def test_each_verdict_and_output_has_one_outcome(
    verdict: str, output: str, outcome: Outcome
) -> None:
    assert Outcome.from_output(Verdict(verdict), DecisionOutput(output)) is outcome


def test_an_outcome_allows_if_and_only_if_the_verdict_is_allow() -> None:
    """INVARIANT: an outcome allows if and only if the verdict is ALLOW."""
    for verdict, refusal_class, constraints, missing, left in DOMAIN:
        if expected(verdict, refusal_class, constraints, missing, left) is None:
            continue
        output = decision_output_for(
            verdict, refusal_class, constraints=constraints, missing=missing, attempts_left=left
        )

        assert Outcome.from_output(verdict, output).allows is (verdict is Verdict.ALLOW)


def test_each_outcome_says_in_one_sentence_who_acts_next() -> None:
    sentences = {outcome.sentence for outcome in Outcome}

    assert len(sentences) == len(Outcome)
    assert all(text.endswith(".") and text.count(".") == 1 for text in sentences)
    assert Outcome.NEEDS_SOMETHING.label == "needs something"


def test_a_refusal_without_a_way_on_does_not_sound_as_if_somebody_were_asked() -> None:
    decision = make_decision("ESCALATE", ["SECRET_LEAK"])

    assert decision.outcome is Outcome.REFUSED
    assert "nobody was asked" in decision.outcome.sentence
