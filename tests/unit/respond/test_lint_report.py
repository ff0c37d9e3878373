from pathlib import Path

import pytest

from demur.classification import make_decision
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal
from demur.respond.lint_report import (
    LINT_RULES,
    MISSING_PART_TEXTS,
    LintContext,
    RefusalPart,
    RefusalProblem,
    make_lint_context,
)

PAGE = (Path(__file__).parents[3] / "docs/how-to/lint-refusals.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", LINT_RULES)
def test_the_docs_page_lists_each_rule_with_its_verdict(rule: str) -> None:
    said = LINT_RULES[rule].message or "lacks one of the five parts; says which"

    assert f"| `{rule}` | {said} | {LINT_RULES[rule].verdict} |" in PAGE


def test_each_part_has_words_for_when_it_is_missing() -> None:
    assert set(MISSING_PART_TEXTS) == set(RefusalPart)


def test_a_remark_is_one_line() -> None:
    for message, help_text in (
        *MISSING_PART_TEXTS.values(),
        *((r.message, r.help) for r in LINT_RULES.values()),
    ):
        assert (message + help_text).isprintable() or not message
        assert len(message) < 80


def test_a_problem_reads_as_a_remark() -> None:
    problem = RefusalProblem(rule="dead-end", message="ends it", help="ask")

    assert str(problem) == "dead-end: ends it"


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
