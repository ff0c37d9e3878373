import pytest

from demur.scan import pattern as module
from demur.scan.grammar import NO_WORDS, PatternError, parse_node, to_regex
from demur.scan.pattern import (
    COMMON_WORDS,
    MAX_MATCH_WIDTH,
    MAX_USEFUL_RATE,
    find_core,
    find_required_words,
    parse_pattern,
)


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
    words = {"tool": parse_node("hammer|saw")}
    words["buy"] = parse_node(r"buy an? {tool}", words)

    assert parse_pattern("{buy}s", words).width == len("buy an hammers")


def test_the_search_for_a_pattern_is_computed_once() -> None:
    pattern = parse_pattern(r"\bmake\b.{0,40}\b(bombs?|grenades?)\b")

    assert pattern.index is pattern.index
    assert (
        pattern.index.required_words.clauses[0] == rb"\bbomb\b|\bbombs\b|\bgrenade\b|\bgrenades\b"
    )


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


def test_common_words_are_plain_words() -> None:
    assert "the" in COMMON_WORDS
    assert all(word.isalpha() and word.islower() for word in COMMON_WORDS)


@pytest.mark.parametrize(
    ("source", "clauses"),
    [
        ("grenade", (b"grenade",)),
        (r"\bsarin\b", (rb"\bsarin\b",)),
        (r"\b(sarin|ricin)\b", (rb"\bricin\b|\bsarin\b",)),
        ("build.{0,9}grenade", (b"grenade", b"build")),
        ("(grenade|bomb)s?", (b"bomb|bombs|grenade|grenades",)),
        (r"grenade\w{0,3}", (b"grenade",)),
        (r"(grenade|poison\w{1,3})s", (b"grenade|poison",)),
        (r"(poison ){2,3}", (b"poison ",)),
        ("[sz]arin", (b"sarin|zarin",)),
        # A choice that may be of anything says nothing.
        (r"(grenade|\w{5})", (rb"(?:grenade|[\x30-\x39\x41-\x5a\x5f-\x5f\x61-\x7a]{5,5})",)),
        (r"\d{3}", (rb"[\x30-\x39]{3,3}",)),
        (r"(grenade)?\d{3}", (rb"(?:grenade)?[\x30-\x39]{3,3}",)),
    ],
)
def test_the_words_that_a_pattern_needs_are_found(source: str, clauses: tuple[bytes, ...]) -> None:
    assert find_required_words(parse_node(source, NO_WORDS)).clauses == clauses


def test_common_words_are_not_required_next_to_rarer_ones() -> None:
    needed = find_required_words(parse_node(r"\b(the|an?|my) .{0,20}ransomware", NO_WORDS))

    assert needed.clauses == (b"ransomware",)
    assert needed.rate < MAX_USEFUL_RATE


def test_a_dull_pattern_says_so() -> None:
    assert (
        find_required_words(parse_node(r"\b(how|what|the)\b.{0,5}\b(to|is)\b", NO_WORDS)).rate
        > MAX_USEFUL_RATE
    )


def test_too_many_words_are_not_listed() -> None:
    letters = "abcdefghijklmnopqrst"
    source = "".join(f"({'|'.join(x + 'zz' for x in letters)})" for _ in range(2)) + r"\d"
    many = "|".join(f"{x}{y}q{z}\\w{{1,3}}" for x in letters for y in letters for z in "xyz")

    assert all(
        clause.count(b"|") < 200
        for clause in find_required_words(parse_node(source, NO_WORDS)).clauses
    )
    assert len(find_required_words(parse_node(many, NO_WORDS)).clauses) == 1


RARE = "(sarin|tabun|soman|ricin|novichok|phosgene|anthrax|botulinum)"
LEADS = (
    "(make|give|"
    + "|".join(f"manufacturing {letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    + ")"
)


def cut(source: str) -> bytes:
    """Return what is looked for of a pattern."""
    return to_regex(find_core(parse_node(source, NO_WORDS)))


def whole(source: str) -> bytes:
    """Return all of a pattern."""
    return to_regex(parse_node(source, NO_WORDS))


def test_of_a_large_pattern_the_rarest_piece_is_looked_for() -> None:
    assert cut(f"{LEADS}.{{0,40}}{RARE}s?") == whole(f"{RARE}s?")
    assert cut(f"{LEADS}( .{{0,40}})?{RARE}") == whole(RARE)


def test_each_option_is_cut_by_itself() -> None:
    source = f"({LEADS}.{{0,40}}{RARE}|{RARE} at home)"

    assert cut(source) == whole(f"({RARE}|{RARE} at home)")
    assert cut(f"the {source}") == whole(f"({RARE}|{RARE} at home)")


@pytest.mark.parametrize(
    "source",
    [
        f"make.{{0,40}}{RARE}",
        f"{LEADS} {RARE}",
        rf"{LEADS} \w{{0,40}} {RARE}",
        f"{LEADS}.{{0,9}}{RARE}",
        # What is left is in every text, or a few letters.
        f"{LEADS}.{{0,40}}(people|that|which|there|people who|about|other|because|before)",
        f"{LEADS}.{{0,40}}sarin",
        # None of it is there for certain.
        f"({LEADS}.{{0,40}}{RARE}){{1,2}}",
    ],
)
def test_a_pattern_without_wide_gap_or_rare_piece_is_not_split(source: str) -> None:
    assert cut(source) == whole(source)


@pytest.mark.parametrize(
    ("common", "rare"),
    [(r"\bmake\b", r"\btnt\b"), ("tnt", r"\btnt\b"), ("make", "make sarin"), ("get", "vx")],
)
def test_whole_words_and_phrases_are_rarer(
    common: str, rare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_LARGE": 0, "_MIN_PIECE_SIZE": 0, "_SELDOM": 9.0}.items():
        monkeypatch.setattr(module, name, value)

    if rare == "vx":
        # Two letters stand in many words.
        common, rare = rare, common
    assert cut(f"{common}.{{0,40}}{rare}") == whole(rare)
