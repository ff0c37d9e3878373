from pathlib import Path

import pytest

from demur.respond.lint_report import RefusalPart, RefusalProblem
from demur.respond.lint_rules import MISSING_PART_TEXTS, LINT_RULES

PAGE = (Path(__file__).parents[3] / "docs/how-to/lint-refusals.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", LINT_RULES)
def test_each_rule_stands_on_its_page_with_its_verdict(rule: str) -> None:
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
