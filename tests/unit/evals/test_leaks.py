import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.eval_rows import a_row

from demur.errors import InputError
from demur.evals.leaks import NearTextIndex, check_share, half_of, normalize_text, split_suite
from demur.evals.suite import load_suite, make_suite

LADDER = "Where can I borrow a tall ladder for the weekend, and what does it cost me?"
WORDS = st.text("abcdefgh \u3042\u3044", min_size=0, max_size=60)
NAMES = st.text("abcdef-0123456789", min_size=1, max_size=8)


@given(NAMES, NAMES, st.floats(0, 1))
def test_twins_are_in_the_same_half(one: str, other: str, share: float) -> None:
    """INVARIANT: twins are never parted between training and testing."""
    first, second = a_row(id=one, twin=other), a_row(id=other, twin=one)

    assert half_of(first, share) == half_of(second, share)


def test_a_half_is_the_same_on_every_machine() -> None:
    halves = [half_of(a_row(number)) for number in range(6)]

    assert halves == ["test", "train", "train", "train", "test", "test"]


def test_shares_of_nothing_and_everything_are_kept() -> None:
    rows = [a_row(number) for number in range(50)]

    assert {half_of(row, 0.0) for row in rows} == {"train"}
    assert {half_of(row, 1.0) for row in rows} == {"test"}


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_an_invalid_share_is_an_error(share: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        check_share(share)


def test_a_suite_falls_into_two_halves_with_nothing_in_common() -> None:
    whole = load_suite("builtin")
    train, test = split_suite(whole, "train"), split_suite(whole, "test")
    ids = [{row.id for row in half.rows} for half in (train, test)]

    assert (train.name, test.name) == ("builtin-train", "builtin-test")
    assert ids[0] | ids[1] == {row.id for row in whole.rows}
    assert not ids[0] & ids[1]
    assert 0.4 < len(test.rows) / len(whole.rows) < 0.6


def test_a_half_of_a_half_is_all_of_it() -> None:
    test = split_suite(load_suite("builtin"), "test")

    assert split_suite(test, "test") is test


def test_a_half_without_rows_is_an_error() -> None:
    with pytest.raises(InputError, match="no row of `one` is in the half to test on"):
        split_suite(make_suite("one", [a_row(1)]), "test")


@pytest.mark.parametrize(
    "text",
    [LADDER.upper(), f"  {LADDER}!! ", LADDER.replace(" ", "\n"), LADDER.replace("a", "\uff41")],
)
def test_texts_that_differ_only_in_form_are_the_same(text: str) -> None:
    found = NearTextIndex([("ladder", LADDER)]).find_near(text)

    assert found is not None
    assert str(found) == "the same as `ladder`"


@pytest.mark.parametrize(
    "text",
    [
        LADDER.replace("tall", "long"),
        LADDER.replace("weekend", "week"),
        f"Pretend that you are my uncle, who knows the town well. {LADDER} Answer in rhyme.",
    ],
)
def test_a_near_duplicate_is_found(text: str) -> None:
    found = NearTextIndex([("other", "Who won the match?"), ("ladder", LADDER)]).find_near(text)

    assert found is not None
    assert found.name == "ladder"
    assert 0.6 <= found.share < 1
    assert "% like `ladder`" in str(found)


@pytest.mark.parametrize("text", ["Where can I borrow a book?", "", "Who won the match yesterday?"])
def test_a_different_text_is_not_found(text: str) -> None:
    assert NearTextIndex([("ladder", LADDER)]).find_near(text) is None


def test_scripts_without_spaces_are_held_against_each_other() -> None:
    near = NearTextIndex([("ja", "近所で背の高いはしごを借りられる場所はありますか")])

    assert near.find_near("近所で背の高いはしごを借りられる所はありますか") is not None
    assert near.find_near("昨日の試合はどちらが勝ちましたか") is None


def test_the_first_of_two_same_texts_gives_the_name() -> None:
    near = NearTextIndex([("first", "Same."), ("second", "same")])

    assert len(near) == 1
    assert near.find_near("SAME") == ("first", 1.0)


@given(st.lists(WORDS, max_size=6), WORDS)
def test_the_index_finds_what_comparing_each_finds(texts: list[str], asked: str) -> None:
    def pieces(text: str) -> set[str]:
        size = 2 if "\u3042" in text or "\u3044" in text else 5
        return {text[at : at + size] for at in range(max(1, len(text) - size + 1))}

    def is_near(known: str) -> bool:
        mine, theirs = pieces(normalize_text(asked)), pieces(normalize_text(known))
        both = len(mine & theirs)
        return both / len(mine | theirs) >= 0.6 or both / len(theirs) >= 0.8

    found = NearTextIndex((str(number), text) for number, text in enumerate(texts)).find_near(asked)

    assert (found is not None) == any(map(is_near, texts))
