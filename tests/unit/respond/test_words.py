import msgspec
import pytest

from demur.classification import make_decision
from demur.codes.vocabulary import RefusalClass, Verdict
from demur.model.refusal import Refusal
from demur.respond.case import ComposeSource, make_case
from demur.respond.template_file import builtin_templates
from demur.respond.words import select_template


def chosen(source: ComposeSource, locale: str = "en") -> str:
    return select_template(builtin_templates().for_locale(locale), make_case(source)).id


@pytest.mark.parametrize(
    ("code", "locale", "template"),
    [
        ("CONTENT_PRIVACY", "en", "privacy"),
        # A child speaks with its parent's words,
        ("GUARDRAIL_PARTIAL", "en", "guardrail_unavailable"),
        ("CONTENT_FRAUD", "de", "fraud"),
        # but not if the parent can be lifted and the child cannot.
        ("CONTENT_CSAE", "de", "csae"),
        ("SKILL_INJECTION", "de", "general_hard"),
        ("RATE_LIMIT", "ja", "rate_limit"),
        ("GUARDRAIL_UNAVAILABLE", "ja", "could_not_judge"),
        ("LOOP_DETECTED", "fr", "general_soft"),
        ("BUDGET_EXCEEDED", "es", "general_workflow"),
        ("CRISIS_ESCALATION", "en", "crisis"),
        ("CONTENT_SELF_HARM", "en", "self_harm"),
    ],
)
def test_a_code_finds_its_words(code: str, locale: str, template: str) -> None:
    assert chosen(Refusal.from_code(code), locale) == template


def test_words_of_another_class_are_passed_over() -> None:
    soft = Refusal.from_code("CONTENT_PRIVACY")
    hard = msgspec.structs.replace(soft, refusal_class=RefusalClass.HARD_BLOCK)

    assert chosen(hard) == "general_hard"


def test_somebody_in_danger_gets_words_for_that_whatever_else_matched() -> None:
    assert chosen(make_decision(Verdict.DENY, ["CONTENT_WEAPONS", "CRISIS_ESCALATION"])) == "crisis"
    assert chosen(make_decision(Verdict.DENY, ["CONTENT_WEAPONS", "CONTENT_SELF_HARM"])) == "crisis"


def test_an_action_allowed_within_limits_has_its_own_template() -> None:
    decided = make_decision(Verdict.ALLOW, ["DESTRUCTIVE_ACTION"], constraints=["dry_run"])

    assert chosen(decided) == "within_limits"
