from demur.codes.vocabulary import Surface
from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.model.finding import Action
from demur.scan.pattern import parse_pattern

CAT, DOG = parse_pattern("cats?"), parse_pattern("dog.{0,7}")


def rule(*patterns: str, code: str = "CONTEXT_INJECTION", **more: object) -> TextRule:
    """Return a rule; what a test is not about is filled in."""
    made = {"id": "R", "action": Action.BLOCK, "description": "made up", **more}
    return TextRule(code=code, patterns=tuple(map(parse_pattern, patterns)), **made)  # type: ignore[arg-type]


def test_a_rule_knows_how_wide_it_is() -> None:
    assert rule("cats?").width == 4
    assert rule("cats?", "dog", within=30).width == 30


def test_what_cancels_a_hit_has_a_say_too() -> None:
    assert rule("cats?").reach == 4
    assert rule("cats?", within=20, unless=(CAT, DOG)).reach == 4 + 2 * 20 + 10


def test_a_set_finds_its_rules_and_codes() -> None:
    first = rule("cats?", id="A")
    other = rule("dog", id="B", code="JAILBREAK_WRAPPER", within=50, unless=(CAT,))
    rules = RuleSet(surface=Surface.INPUT, rules=(first, other, first), digest="d")

    assert rules["B"] is other
    assert rules.codes == ("CONTEXT_INJECTION", "JAILBREAK_WRAPPER")
    assert rules.reach == other.reach
    assert RuleSet(surface=Surface.INPUT, rules=(), digest="d").reach == 0
