import pytest

from demur.text.prose import (
    ANSWER_HEAD,
    ANSWER_TAIL,
    MAX_PROSE_LENGTH,
    fold_accents,
    fold_sentence,
    guess_language,
    prepare_text,
    read_answer,
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("I Can\u2019t", "i can't"),
        ("D\u00e9sol\u00e9, \u0142adnie, stra\u00dfe", "desole, ladnie, strase"),
        ("De\u0301sole\u0301", "desole"),
        ("**bold** _and_ `code`", "  bold    and  'code'"),
        ("\u0401\u043b\u043a\u0430", "\u0435\u043b\u043a\u0430"),
        ("\u0623\u0633\u0641\u0629", "\u0627\u0633\u0641\u0647"),
        ("\uff21\uff22\uff01", "ab!"),
        ("a\ud800b", "a b"),
    ],
)
def test_one_form_for_all_spellings(text: str, folded: str) -> None:
    assert fold_sentence(text) == folded


COMMON = {"the": ("en",), "and": ("en",), "der": ("de",), "und": ("de",), "in": ("de", "en")}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat and the dog", "en"),
        ("der hund und der rest", "de"),
        ("in in in", None),
        ("the und", None),
        ("lorem ipsum", None),
        ("the", "en"),
        ("", None),
        ("123", None),
        ("\u3053\u308c\u306f\u672c\u3067\u3059", "ja"),
        ("\u8fd9\u662f\u4e66", "zh"),
        ("\u044d\u0442\u043e the \u043a\u043d\u0438\u0433\u0430", "ru"),
        ("the caf\u00e9 and the bar", "en"),
    ],
)
def test_a_language_is_guessed_by_script_or_by_its_words(text: str, language: str | None) -> None:
    assert guess_language(text, COMMON) == language


def said(text: str) -> list[str]:
    return [text[one.start : one.end] for one in read_answer(text).sentences]


def test_sentences_know_their_place_in_any_script() -> None:
    text = "One thing. Two things!\n一件事。两件事\uff01 एक। दो।"

    assert said(text)[:2] == ["One thing.", "Two things!"]
    assert said(text)[2:4] == ["\u4e00\u4ef6\u4e8b\u3002", "\u4e24\u4ef6\u4e8b\uff01"]


@pytest.mark.parametrize(
    "quoted",
    [
        '"I cannot help you," she said.',
        "\u201cI cannot help you,\u201d she said.",
        "\u00abI cannot help you\u00bb, she said.",
        "\u300cI cannot help you\u300d she said.",
        "> I cannot help you\nshe said.",
    ],
)
def test_quoted_text_is_not_part_of_the_answer(quoted: str) -> None:
    assert said(quoted) == ["she said."]
    assert read_answer(quoted).quotes == 1


def test_quotation_marks_around_everything_quote_nothing() -> None:
    assert said('"I cannot help you."') == ["I cannot help you."]
    two = read_answer('"One thing" and "two more"')
    assert [one.words.strip() for one in two.sentences] == ["and"]


def test_a_single_word_in_doubtful_quotes_is_the_answerers_own() -> None:
    [sentence] = read_answer('That was not "right" at all, \u201cfriend\u201d.').sentences

    assert " ".join(sentence.words.split()) == "that was not right at all, friend ."


def test_code_and_thoughts_are_not_part_of_the_answer() -> None:
    text = "<think>I cannot do this.</think>Fine.\n```\nI cannot\n```\nDone."

    assert said(text) == ["Fine.", "Done."]
    assert read_answer(text).code


def test_a_thought_that_nothing_follows_is_all_there_is() -> None:
    assert said("<think>I cannot do this.</think>") == ["think>I cannot do this.", "think>"]
    assert said("a </b> c.") == ["a </b> c."]


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "2) ", "\u2022 ", "Step 3: "])
def test_items_of_lists_are_known_as_such(mark: str) -> None:
    [one] = read_answer(f"{mark}Stir it well").sentences

    assert one.in_list
    assert one.words == "stir it well"


@pytest.mark.parametrize(
    ("first", "last"),
    [("[A]: ", "[B]: "), ("(A) ", "(B) "), ("Anna: ", "Berta: "), ("As Anna, ", "As Berta, ")],
)
def test_the_last_of_several_voices_is_the_answer(first: str, last: str) -> None:
    answer = read_answer(f"{first}No way.\n{last}Sure thing.")

    assert [one.words for one in answer.earlier_voices] == ["no way."]
    assert [one.words for one in answer.sentences] == ["sure thing."]


def test_a_heading_later_on_is_no_second_voice() -> None:
    answer = read_answer("I cannot do this.\nNote: ask a doctor.")

    assert len(answer.sentences) == 2
    assert not answer.earlier_voices


def test_a_long_answer_is_read_at_head_and_tail_with_true_places() -> None:
    text = "First words. " + "x" * (ANSWER_HEAD + ANSWER_TAIL) + ". Last words."
    answer = read_answer(text)

    assert answer.truncated
    assert text[answer.sentences[0].start : answer.sentences[0].end] == "First words."
    assert text[answer.sentences[-1].start : answer.sentences[-1].end] == "Last words."


def test_letters_that_fold_away_move_no_place() -> None:
    text = "Je ne peux pas re\u0301pondre. De\u0301sole\u0301."

    assert said(text) == ["Je ne peux pas re\u0301pondre.", "De\u0301sole\u0301."]
    assert read_answer(text).sentences[1].words == "desole."


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
    items = [one.item for one in prepare_text("Say:\n- a\n1. b\n\nc").sentences]

    assert items == [False, True, True, False]


def test_folding_takes_accents_and_variants_and_keeps_the_length() -> None:
    text = "É\u2019 ß\N{NO-BREAK SPACE}\uff01\ud800"

    assert fold_accents(text) == "E' s !\N{REPLACEMENT CHARACTER}"
    assert len(fold_accents(text)) == len(text)


def test_places_lead_back_into_a_text_with_loose_accents_and_hidden_characters() -> None:
    text = "Cafe\u0301 \u200bno\u0308 x"
    looked = prepare_text(text)
    at = looked.folded.index("no")

    assert looked.folded == "Cafe no x"
    assert text[slice(*looked.original_span(at, at + 2))] == "no\u0308"
    assert looked.original_span(0, len(looked.folded))[1] == len(text)


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
def test_quotations_are_distinguished_from_own_words(text: str, word: str, quoted: bool) -> None:
    looked = prepare_text(text)

    assert looked.is_quoted(looked.folded.index(word)) is quoted


def test_a_long_text_is_cut() -> None:
    assert len(prepare_text("a" * (MAX_PROSE_LENGTH + 1)).folded) == MAX_PROSE_LENGTH
