import pytest

from demur.respond.lint_text import MAX_LINT_LENGTH, fold_accents, prepare_text


def sentences(text: str) -> list[str]:
    looked = prepare_text(text)
    return [looked.folded[one.start : one.end] for one in looked.sentences]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("One\nline.", ["One\nline."]),
        ("One\n\ntwo", ["One", "two"]),
        ("Use e.g. this. Or Dr. Who.", ["Use e.g. this.", "Or Dr. Who."]),
        ("Version 3.2 is out.", ["Version 3.2 is out."]),
        ("See z. B. Berlin. Gut.", ["See z. B. Berlin.", "Gut."]),
        ("一つ。二つ\uff1f三つ", ["一つ。", "二つ?", "三つ"]),
        ("Say:\n- a b\n- c d", ["Say:", "- a b", "- c d"]),
        ("1. First\n2. Then", ["1. First", "2. Then"]),
        ("...", []),
        ("", []),
    ],
)
def test_sentences(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


def test_list_items_are_known_as_such() -> None:
    assert [one.item for one in prepare_text("Say:\n- a\n1. b\n\nc").sentences] == [
        False,
        True,
        True,
        False,
    ]


def test_folding_takes_accents_and_variants_and_keeps_the_length() -> None:
    text = "É\u2019 ß\N{NO-BREAK SPACE}\uff01\ud800"

    assert fold_accents(text) == "E' s !\N{REPLACEMENT CHARACTER}"
    assert len(fold_accents(text)) == len(text)


def test_places_lead_back_into_a_text_with_loose_accents_and_hidden_characters() -> None:
    text = "Cafe\u0301 \u200bno\u0308 x"
    looked = prepare_text(text)
    at = looked.folded.index("no")
    span = looked.original_span(at, at + 2)

    assert looked.folded == "Cafe no x"
    assert text[span.start : span.end] == "no\u0308"
    assert looked.original_span(0, len(looked.folded)).end == len(text)


@pytest.mark.parametrize(
    ("text", "word", "quoted"),
    [
        ('He said "I cannot" and left us alone.', "cannot", True),
        ("He said “I cannot” and left us alone.", "cannot", True),
        ("Run `rm cannot` in the shell and wait.", "cannot", True),
        ("```\ncannot\n``` and some more words here, all outside.", "cannot", True),
        ('He said "hi" and I cannot go there.', "cannot", False),
        ('"I cannot do it at all, really."', "cannot", False),
    ],
)
def test_quotations_are_told_from_own_words(text: str, word: str, quoted: bool) -> None:
    looked = prepare_text(text)

    assert looked.is_quoted(looked.folded.index(word)) is quoted


def test_a_long_text_is_cut() -> None:
    assert len(prepare_text("a" * (MAX_LINT_LENGTH + 1)).folded) == MAX_LINT_LENGTH
