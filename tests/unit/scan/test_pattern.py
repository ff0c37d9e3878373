import pytest

from demur.scan.pattern import MAX_MATCH_WIDTH, PatternError, parse_pattern, parse_named_words


def test_a_pattern_knows_its_width() -> None:
    pattern = parse_pattern(r"\bmake\b.{0,40}\bbombs?\b")

    assert pattern.width == 4 + 40 + 5
    assert repr(pattern) == r"<Pattern \bmake\b.{0,40}\bbombs?\b>"


def test_patterns_that_match_the_same_way_are_equal() -> None:
    one, other = parse_pattern("caf(?:é|e)"), parse_pattern("caf(e|è)")

    assert one == other
    assert hash(one) == hash(other)
    assert one != parse_pattern("cafe")
    assert one != "cafe"


def test_words_are_used_by_name() -> None:
    words = {"tool": parse_named_words("hammer|saw")}
    words["buy"] = parse_named_words(r"buy an? {tool}", words)

    assert parse_pattern("{buy}s", words).width == len("buy an hammers")


def test_what_it_requires_is_worked_out_once() -> None:
    pattern = parse_pattern(r"\bmake\b.{0,40}\b(bombs?|grenades?)\b")

    assert pattern.required_words is pattern.required_words
    assert pattern.required_words.clauses[0] == rb"\bbomb\b|\bbombs\b|\bgrenade\b|\bgrenades\b"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("", "the pattern can match nothing at all"),
        ("a?", "the pattern can match nothing at all"),
        (r"\b", "the pattern can match nothing at all"),
        (
            f"a.{{0,{MAX_MATCH_WIDTH // 2}}}b.{{0,{MAX_MATCH_WIDTH // 2}}}c",
            "a match can be 2003 bytes wide",
        ),
        ("(" + "|".join(["(abcdefghij){100}"] * 25) + ")", "the pattern is too large"),
    ],
)
def test_a_pattern_without_bounds_is_refused(source: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem):
        parse_pattern(source)
