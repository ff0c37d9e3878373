import pytest

from demur.scan import core as module
from demur.scan.core import find_core
from demur.scan.grammar import NO_WORDS, parse_node
from demur.scan.tree import to_regex

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
def test_what_is_small_has_no_wide_gap_or_no_rare_piece_stays_whole(source: str) -> None:
    assert cut(source) == whole(source)


@pytest.mark.parametrize(
    ("common", "rare"),
    [(r"\bmake\b", r"\btnt\b"), ("tnt", r"\btnt\b"), ("make", "make sarin"), ("get", "vx")],
)
def test_whole_words_and_phrases_are_rarer(
    common: str, rare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_LARGE": 0, "_SMALLEST": 0, "_SELDOM": 9.0}.items():
        monkeypatch.setattr(module, name, value)

    if rare == "vx":
        # Two letters stand in many words.
        common, rare = rare, common
    assert cut(f"{common}.{{0,40}}{rare}") == whole(rare)
