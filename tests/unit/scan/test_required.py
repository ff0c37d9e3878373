import pytest

from demur.scan.grammar import NO_WORDS, parse_node
from demur.scan.required import MAX_USEFUL_RATE, find_required_words


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


def test_what_stands_in_every_text_is_not_asked_for_beside_rarer_words() -> None:
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
