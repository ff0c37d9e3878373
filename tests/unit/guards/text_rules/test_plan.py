from toy_rules import toy_rules

from demur.codes.vocabulary import Surface
from demur.guards.text_rules.plan import StreamPlan, get_stream_plan
from demur.guards.text_rules.rule import RuleSet


def test_a_rule_set_is_planned_once() -> None:
    assert get_stream_plan(toy_rules("pattern: same")) is get_stream_plan(
        toy_rules("pattern: same")
    )
    assert get_stream_plan(toy_rules("pattern: same")) is not get_stream_plan(
        toy_rules("pattern: other")
    )


def test_the_plans_used_last_are_kept() -> None:
    first = get_stream_plan(toy_rules("pattern: the first of many"))
    for number in range(40):
        get_stream_plan(toy_rules(f"pattern: number {number} of many"))

    assert get_stream_plan(toy_rules("pattern: the first of many")) is not first


def test_a_plan_says_how_much_text_settles_each_rule() -> None:
    plan = StreamPlan(
        toy_rules(
            "pattern: abc",
            "all: [abc, de]\nwithin: 20",
            "pattern: abc\nunless: [fghi]\nwithin: 30",
        )
    )

    assert [each.settled for each in plan.plans] == [4, 24, 3 + 30 + 4 + 1 + 1]
    assert [each.before for each in plan.plans] == [0, 0, 35]
    assert (plan.widest, plan.settled, plan.before) == (3, 39, 35)


def test_a_pattern_shared_by_rules_is_looked_for_once() -> None:
    plan = StreamPlan(toy_rules("pattern: abc", "all: [abc, de]"))

    assert len(plan.patterns) == 2
    assert plan.readers == {0: [0, 1], 1: [1]}
    assert plan.pattern_searcher(0) is plan.pattern_searcher(0)


def test_without_rules_there_is_nothing_to_match() -> None:
    plan = StreamPlan(toy_rules("pattern: abc"))
    empty = StreamPlan(RuleSet(surface=Surface.OUTPUT, rules=(), digest=""))

    assert list(plan.find_matching(b"xabcx")) == [0]
    assert list(empty.find_matching(b"xabcx")) == []
    assert (empty.widest, empty.settled) == (0, 0)
