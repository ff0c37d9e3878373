import pytest

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.skill.guard import CODES
from demur.guards.skill.rules import find_rule, skill_rules, soften_action
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Action


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (Action.BLOCK, Action.ESCALATE),
        (Action.ESCALATE, Action.WARN),
        (Action.WARN, Action.WARN),
    ],
)
def test_an_action_one_step_down(action: Action, wanted: Action) -> None:
    assert soften_action(action) is wanted


def test_every_rule_has_a_code_of_the_guard() -> None:
    assert {rule.code for rule in skill_rules().values()} <= set(CODES)


def test_no_two_kinds_of_rule_share_an_id() -> None:
    assert skill_rules().keys().isdisjoint(rule.id for rule in builtin_rules(Surface.SKILL).rules)


@pytest.mark.parametrize("code", CODES)
def test_a_rule_from_elsewhere_is_explained_by_its_code(code: ReasonCode) -> None:
    rule = find_rule("FROM_ELSEWHERE", code, Action.WARN)

    assert rule.code == code
    assert rule.why
    assert rule.fix


def test_a_known_rule_is_itself() -> None:
    assert find_rule("PY_BLOB", ReasonCode.RCE_RISK, Action.BLOCK) is skill_rules()["PY_BLOB"]
