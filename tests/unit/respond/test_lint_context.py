import pytest

from demur.classification.conclude import make_decision
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.respond.lint_context import LintContext, make_lint_context


def test_without_a_decision_nothing_is_known() -> None:
    assert make_lint_context(None) == LintContext()


@pytest.mark.parametrize("decided", ["RCE_RISK", Refusal.from_code("RCE_RISK")])
def test_a_code_or_a_refusal_tells_the_class(decided: Refusal | str) -> None:
    context = make_lint_context(decided)

    assert context.refusal_class is RefusalClass.HARD_BLOCK
    assert context.names == {"RCE_RISK"}
    assert not context.crisis


def test_a_decision_tells_what_is_missing_and_what_would_do() -> None:
    asked = make_lint_context(make_decision("ESCALATE", ["CONTEXT_MISSING"], missing=["target"]))
    limited = make_lint_context(
        make_decision("ESCALATE", ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])
    )

    assert (asked.missing, limited.constraints) == (("target",), ("dry_run",))


@pytest.mark.parametrize(
    "decided",
    [
        "CRISIS_ESCALATION",
        "CONTENT_SELF_HARM",
        Refusal.from_code("CRISIS_ESCALATION"),
        make_decision("ESCALATE", ["CRISIS_ESCALATION"]),
    ],
    ids=str,
)
def test_a_crisis_is_one_in_every_form(decided: Refusal | str) -> None:
    assert make_lint_context(decided).crisis
