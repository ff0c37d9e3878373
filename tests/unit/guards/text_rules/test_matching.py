import pytest

from demur.codes.vocabulary import Surface
from demur.guards.text_rules.matching import MAX_HITS, RuleMatcher
from demur.guards.text_rules.rule import TextRule, RuleSet
from demur.model.finding import Action
from demur.scan.pattern import parse_pattern
from demur.scan.re2_engine import Re2Engine


def places(
    data: bytes, *patterns: str, within: int = 20, unless: tuple[str, ...] = ()
) -> list[tuple[int, int]]:
    """Return where one rule with these patterns hits."""
    rule = TextRule(
        id="R",
        code="CONTEXT_INJECTION",
        action=Action.BLOCK,
        description="made up",
        patterns=tuple(map(parse_pattern, patterns)),
        within=within,
        unless=tuple(map(parse_pattern, unless)),
    )
    rules = RuleSet(surface=Surface.INPUT, rules=(rule,), digest="")
    found = RuleMatcher(rules, engine=Re2Engine).find_hits(data)
    return [(start, end) for _, start, end in found]


def test_a_single_pattern_hits_wherever_it_matches() -> None:
    assert places(b"rat a rat", "rat") == [(0, 3), (6, 9)]
    assert places(b"mouse", "rat") == []


def test_all_patterns_must_occur_in_any_order() -> None:
    assert places(b"alpha beta", "alpha", "beta") == [(0, 10)]
    assert places(b"beta alpha", "alpha", "beta") == [(0, 10)]
    assert places(b"alpha only", "alpha", "beta") == []


def test_all_patterns_must_occur_within_the_stretch() -> None:
    assert places(b"alpha" + b"." * 11 + b"beta", "alpha", "beta") == [(0, 20)]
    assert places(b"alpha" + b"." * 12 + b"beta", "alpha", "beta") == []


def test_the_shortest_stretch_is_taken() -> None:
    assert places(b"alpha alpha .... beta", "alpha", "beta") == [(6, 21)]
    assert places(b"beta ... alpha ...... beta", "alpha", "beta") == [(0, 26)]


def test_a_wide_match_does_not_hide_a_narrow_one() -> None:
    data = b"cc bb aaaaaaaaaaaaaaaaaaaaaaaaaa dd"

    assert places(b"xx " + data, "cc", "bb", "a{1,30}|xx", within=9) == [(0, 8)]


def test_words_that_do_not_make_the_pattern_are_no_hit() -> None:
    data = b"assemble the long list, then the grenade, beta"

    assert places(data, "assemble.{0,5}grenade", "beta") == []
    assert places(data, "assemble.{0,5}grenade") == []


def test_three_patterns_need_all_three() -> None:
    assert places(b"one two six", "one", "two", "six") == [(0, 11)]
    assert places(b"one two one two", "one", "two", "six") == []


def test_far_apart_stretches_are_hits_of_their_own() -> None:
    gap = b"." * 60
    data = b"alpha beta" + gap + b"alpha" + gap + b"beta alpha"

    assert places(data, "alpha", "beta") == [(0, 10), (135, 145)]


def test_a_pattern_near_the_hit_cancels_it() -> None:
    assert places(b"alpha in a novel", "alpha", unless=("novel",)) == []
    assert places(b"novel: alpha", "alpha", unless=("poem", "novel")) == []
    assert places(b"alpha beta, novel", "alpha", "beta", unless=("novel",)) == []


def test_a_pattern_beyond_the_reach_cancels_nothing() -> None:
    assert places(b"alpha" + b"." * 19 + b"novel", "alpha", unless=("novel",)) == []
    assert places(b"alpha" + b"." * 20 + b"novel", "alpha", unless=("novel",)) == [(0, 5)]
    assert places(b"novel" + b"." * 15 + b"alpha", "alpha", unless=("novel",)) == []
    assert places(b"novel" + b"." * 16 + b"alpha", "alpha", unless=("novel",)) == [(21, 26)]


def test_only_the_cancelled_hit_is_left_out() -> None:
    data = b"alpha novel" + b"." * 60 + b"alpha"

    assert places(data, "alpha", unless=("novel",)) == [(71, 76)]


def test_overlapping_hits_are_one() -> None:
    assert places(b"alpha beta alpha", "alpha", "beta") == [(0, 16)]


def test_hits_are_bounded() -> None:
    assert len(places(b"rat " * 500, "rat")) == MAX_HITS
    assert len(places((b"alpha beta" + b"." * 40) * 200, "alpha", "beta")) == MAX_HITS


@pytest.mark.parametrize("count", [10, 3_000])
def test_a_flood_hides_nothing_behind_it(count: int) -> None:
    flood = b"alpha novel " * count

    hits = places(flood + b"." * 60 + b"alpha beta", "alpha", "beta")
    assert hits == [(len(flood) + 60, len(flood) + 70)]
    assert len(places(flood + b"." * 60 + b"alpha", "alpha", unless=("novel",))) == 1


def test_sections_far_into_the_text_are_cut() -> None:
    data = b"alpha " * 6_000 + b"beta"

    assert places(data, "alpha", "beta") == [(len(data) - 10, len(data))]
