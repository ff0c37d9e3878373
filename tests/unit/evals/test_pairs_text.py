import pytest
from made_secrets import github_token

from demur.evals.pairs_text import MAX_TEXT_LENGTH, REMOVED_MARK, clean_text


def test_plain_text_stays_as_it_is() -> None:
    text = "Yes.\n\n1. Take the box.\n2. Open it: 12 cards, 3 rows, 2026."

    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Write to ada.l@example.org today.", f"Write to {REMOVED_MARK} today."),
        ("Call +49 30 1234567 now.", f"Call {REMOVED_MARK} now."),
        ("My card is 4111 1111 1111 1111.", f"My card is {REMOVED_MARK}."),
        ("Card 4111 1111 1111 1111 22 is it.", f"Card {REMOVED_MARK} is it."),
    ],
)
def test_what_names_a_person_is_taken_out(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_credentials_are_taken_out_also_where_the_text_is_cut() -> None:
    secret = github_token()
    cut = clean_text(f"{'word ' * 10}{secret} and more", 55)

    assert secret[:6] not in cut
    assert len(cut) <= 55


def test_what_is_too_long_is_cut_and_says_so() -> None:
    cut = clean_text("word " * MAX_TEXT_LENGTH)

    assert len(cut) <= MAX_TEXT_LENGTH
    assert cut.endswith("…")


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert clean_text("a\ud800b").encode() == b"a?b"
