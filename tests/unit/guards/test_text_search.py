import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_secrets import github_token

from demur.guards.output import OutputConfig, OutputText, check, make_scanner
from demur.guards.personal_data import find_personal_data
from demur.guards.text_search import has_long_word, make_ascii_view
from demur.model.finding import Action, Finding


def test_a_long_word_is_one_without_white_space() -> None:
    assert has_long_word("a bcdef g", 0, 5)
    assert not has_long_word("a bcdef g", 0, 6)
    assert not has_long_word("abcdef g", 4, 5)
    assert not has_long_word("", 0, 1)


WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
HIDDEN = "\u200b"
CARD = "4929 3813 3266 4717"


def found(text: str) -> list[Finding]:
    return list(check(OutputText(text), OutputConfig(loose_secrets=False)))


def marked(text: str) -> list[str]:
    return [text[each.span.start : each.span.end] for each in found(text) if each.span]


@pytest.mark.parametrize(
    "written",
    [
        CARD.translate(WIDE),
        CARD.replace(" ", "\u00a0"),
        CARD.replace(" ", "\u2013"),
        CARD.replace(" ", "."),
        "\u200b".join(CARD),
        "\u2060\ufeff".join(CARD),
        "".join(chr(0x0660 + int(c)) if c.isdigit() else c for c in CARD),
        "".join(chr(0x1D7CE + int(c)) if c.isdigit() else c for c in CARD),
        " ".join(CARD.replace(" ", "")),
        "-".join(CARD.replace(" ", "")),
    ],
)
def test_a_card_is_found_however_its_digits_are_written(written: str) -> None:
    text = f"Your credit card is {written}, as you asked."
    [seen] = found(text)

    assert (seen.code, seen.action) == ("PII_DETECTED", Action.ESCALATE)
    assert marked(text) == [written]
    [again] = find_personal_data(text, Action.ESCALATE, seen.surface)
    assert again.span == seen.span


@pytest.mark.parametrize("change", ["wide", "hidden"])
def test_a_token_is_found_in_other_letters(change: str) -> None:
    token = github_token()
    written = token.translate(WIDE) if change == "wide" else "\u200d".join(token)
    text = f"Take {written} for the build."
    [seen] = found(text)

    assert (seen.code, seen.action) == ("SECRET_LEAK", Action.BLOCK)
    assert marked(text) == [written]


def test_digits_one_by_one_are_no_card_unless_something_names_it() -> None:
    digits = " ".join(CARD.replace(" ", ""))

    [seen] = found(f"The rolls were {digits} in this order.")
    assert seen.action is Action.WARN
    assert found("The rolls were 4 2 1 6 3 5 2 2 6 1 4 3 in this order.") == []


def test_a_plain_text_is_its_own_ascii_view() -> None:
    for text in ("plain", "déjà vu, naïve, «quoted», 日本語", ""):
        assert make_ascii_view(text).text is text


def test_places_lead_back_to_the_text() -> None:
    view = make_ascii_view("a\u200b\u200b\uff11b")

    assert view.text == "a1b"
    assert [view.view_place(place) for place in range(6)] == [0, 1, 1, 1, 2, 3]
    assert [view.text_place(place, 5) for place in range(4)] == [0, 3, 4, 5]
    assert view.text_end(2) == 4
    assert make_ascii_view("\uff11b").starts == ()


def test_hidden_characters_around_a_text_have_a_place() -> None:
    view = make_ascii_view("\u200ba\u200b")

    assert view.text == "a"
    assert [view.view_place(place) for place in range(4)] == [0, 0, 1, 1]
    assert [view.text_place(place, 3) for place in range(2)] == [1, 3]
    assert view.text_end(1) == 2
    assert make_ascii_view("\u200b").view_place(1) == 0


def test_many_different_characters_are_read_like_few() -> None:
    many = "".join(map(chr, (*range(0x4E00, 0x4F00), *range(0x1D7CE, 0x1D7E2), 0xE0041, 0x50000)))
    one_by_one = "".join(make_ascii_view(character).text for character in many)

    assert make_ascii_view(many).text == one_by_one
    assert "0123456789" in one_by_one


def test_letters_with_a_plainer_form_and_line_breaks_stay_as_they_are() -> None:
    assert make_ascii_view("\uff11 \n\u017f\t").text == "1 \n\u017f\t"


def test_the_rest_of_a_long_invisible_run_is_a_gap() -> None:
    assert make_ascii_view("1" + HIDDEN * 8 + "2").text == "12"
    assert make_ascii_view("1" + HIDDEN * 10 + "2").text == "1\0\x002"


PIECES = st.sampled_from(
    [
        *(
            "4929",
            "3813".translate(WIDE),
            " ",
            "3266",
            "4717",
            "\u200b",
            "\u200b" * 9,
            "card ",
            "\u2013",
            "é",
        ),
        *(
            "ghp_",
            "password = ",
            "password:".translate(WIDE),
            "Zx9\u2060Kq2Lm7Rt4Wv8",
            ". ",
            "899-71-3364",
            "SSN ",
        ),
    ]
)


@given(st.lists(PIECES, max_size=24), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_the_pieces_of_a_text_make_no_difference(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces) + " " * 70
    whole = list(make_scanner(OutputConfig()).feed(text, final=True))
    stream = make_scanner(OutputConfig())
    seen: list[Finding] = []
    place = number = 0
    while place < len(text):
        size = sizes[number % len(sizes)]
        seen += stream.feed(text[place : place + size])
        place, number = place + size, number + 1
    seen += stream.feed("", final=True)

    assert seen == whole
