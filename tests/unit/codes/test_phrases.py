from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.phrases import PhraseIndex
from demur.codes.registry import Registry

# Few letters, some of which change their length when folded, so that phrases overlap.
LETTERS = st.sampled_from("aAbB ßİ\u017f\u212a")
PHRASES = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=9).map(str.casefold),
    st.sampled_from(["A_CODE", "B_CODE", "C_CODE"]),
    max_size=8,
)


def obvious(phrases: Mapping[str, str], text: str) -> str | None:
    """Look at every phrase: the longest in the text wins, ties by code name."""
    folded = text.casefold()
    inside = [phrase for phrase in phrases if phrase in folded]
    longest = max(map(len, inside), default=0)
    return min((phrases[phrase] for phrase in inside if len(phrase) == longest), default=None)


@given(PHRASES, st.text(LETTERS, max_size=40))
def test_the_longest_phrase_wins_ties_by_code_name(phrases: dict[str, str], text: str) -> None:
    """INVARIANT: the longest phrase wins, ties by code name."""
    assert PhraseIndex(phrases).find(text) == obvious(phrases, text)


@given(st.data())
def test_the_core_phrases_are_found_as_the_obvious_way_finds_them(data: st.DataObject) -> None:
    phrases = Registry.load().phrases
    pieces = st.sampled_from(sorted(phrases)) | st.sampled_from([" ", "x", "error: ", "İ"])
    text = "".join(data.draw(st.lists(pieces, max_size=5)))
    text = data.draw(st.sampled_from([text, text.upper(), text.title(), text[1:-1]]))

    assert PhraseIndex(phrases).find(text) == obvious(phrases, text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("QUOTA EXCEEDED FOR METRIC x", "RATE_LIMIT"),
        ("quota exceeded", "BUDGET_EXCEEDED"),
        ("quota exceede", None),
        ("", None),
        ("Straße GESPERRT", "A_CODE"),
    ],
)
def test_case_makes_no_difference_and_a_part_is_not_enough(text: str, code: str | None) -> None:
    index = PhraseIndex(
        {
            "quota exceeded": "BUDGET_EXCEEDED",
            "quota exceeded for metric": "RATE_LIMIT",
            "strasse gesperrt": "A_CODE",
        }
    )

    assert index.find(text) == code


def test_among_phrases_of_one_length_the_first_code_by_name_wins() -> None:
    index = PhraseIndex({"one phrase": "B_CODE", "two phrase": "A_CODE"})

    assert index.find("one phrase, two phrase") == "A_CODE"


def test_an_index_without_phrases_finds_nothing() -> None:
    assert PhraseIndex({}).find("anything") is None
