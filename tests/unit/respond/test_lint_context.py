import pytest

from demur.classification.conclude import conclude
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.respond.lint_context import Context, context_of


def test_without_a_decision_nothing_is_known() -> None:
    assert context_of(None) == Context()


@pytest.mark.parametrize("decided", ["RCE_RISK", Refusal.of("RCE_RISK")])
def test_a_code_or_a_refusal_tells_the_class(decided: Refusal | str) -> None:
    context = context_of(decided)

    assert context.refusal_class is RefusalClass.HARD_BLOCK
    assert context.names == {"RCE_RISK"}
    assert not context.crisis


def test_a_decision_tells_what_is_missing_and_what_would_do() -> None:
    asked = context_of(conclude("ESCALATE", ["CONTEXT_MISSING"], missing=["target"]))
    limited = context_of(conclude("ESCALATE", ["DESTRUCTIVE_ACTION"], constraints=["dry_run"]))

    assert (asked.missing, limited.constraints) == (("target",), ("dry_run",))


@pytest.mark.parametrize(
    "decided",
    [
        "CRISIS_ESCALATION",
        "CONTENT_SELF_HARM",
        Refusal.of("CRISIS_ESCALATION"),
        conclude("ESCALATE", ["CRISIS_ESCALATION"]),
    ],
    ids=str,
)
def test_a_crisis_is_one_in_every_form(decided: Refusal | str) -> None:
    assert context_of(decided).crisis
