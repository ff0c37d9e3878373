from importlib.resources import files

import pytest

from demur.detect.speech_acts import (
    Lexicon,
    PhraseError,
    SpeechAct,
    builtin_lexicon,
    drop_seeming_refusals,
    find_quoted_prose,
    read_phrases,
)

PROMISED = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl"),
    *("ru", "ar", "hi", "zh", "ja", "ko", "th"),
)
GOOD = """\
schema_version: detect_phrases.v1
language: xx
spaced: true
common: "la lo"
words:
  no: "(?:ne|non)"
acts:
  decline:
    - "{no} ~can"
  apology:
    - "pardon"
"""


def acts_of(*sentences: str) -> list[set[str]]:
    found = builtin_lexicon().classify_sentences(sentences)
    return [{act.name for act in SpeechAct if seen >> act & 1} for seen in found]


def test_a_file_becomes_expressions_with_word_classes_and_gaps() -> None:
    phrases = read_phrases(GOOD)
    lexicon = Lexicon([phrases, read_phrases(GOOD.replace("xx", "de"))])

    assert phrases.language == "xx"
    assert phrases.common == {"la", "lo"}
    assert lexicon.classify_sentences(["non one two can", "can non", "non a b c d can"]) == (
        1 << SpeechAct.DECLINE,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("detect_phrases.v1", "detect_phrases.v9", "unknown schema version `detect_phrases.v9`"),
        ("language: xx", "langage: xx", "unknown key `langage`"),
        ("spaced: true", 'spaced: "yes"', "`spaced` must be true or false, not `yes`"),
        ("  decline:", "  declined:", "unknown key `declined`"),
        ("{no}", "{nein}", "unknown word class `nein`"),
        ('"pardon"', '"pard(on"', "not an expression"),
        ('"pardon"', '"d\u00e9sol\u00e9"', "`\u00e9` is never seen"),
        ('"pardon"', "12", "a phrase is a text"),
        ('\n    - "pardon"', " pardon", "the phrases of `apology` are a list"),
        ("schema_version: ", "schema_version: [", "not YAML"),
        ('words:\n  no: "(?:ne|non)"', "words: none at all", "`words` is a mapping"),
    ],
)
def test_each_problem_in_a_file_is_named_with_its_place(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    with pytest.raises(PhraseError) as caught:
        read_phrases(GOOD.replace(old, new), "mine.yaml")

    assert any(problem in one.problem for one in caught.value.problems)
    assert all((one.where or "").startswith("mine.yaml") for one in caught.value.problems)


def test_a_file_without_anything_names_everything_that_is_missing() -> None:
    with pytest.raises(PhraseError) as caught:
        read_phrases("{}")

    assert len(caught.value.problems) == 6


def test_every_language_that_is_promised_has_a_file_that_says_no() -> None:
    folder = files("demur.detect") / "phrases"
    for language in PROMISED:
        phrases = read_phrases((folder / f"{language}.yaml").read_text(encoding="utf-8"))
        assert phrases.language == language
        assert {SpeechAct.DECLINE, SpeechAct.APOLOGY, SpeechAct.COMPLY, SpeechAct.TRAP} <= {
            act for act, _ in phrases.rows
        }


@pytest.mark.parametrize(
    "sentence",
    [
        "i can't help but smile",
        "i cannot wait to see it",
        "ich kann es kaum erwarten",
        "no puedo evitar sonreir",
        "je ne peux pas m'empecher de sourire",
        "я не могу дождаться",
    ],
)
def test_a_sentence_that_only_resembles_a_refusal_is_not_one(sentence: str) -> None:
    [acts] = acts_of(sentence)

    assert not acts & {"DECLINE", "CANNOT", "TRAP"}


def test_you_cannot_is_no_i_cannot() -> None:
    [acts] = acts_of("you can't provide a negative number here, and it can't help either")

    assert "DECLINE" not in acts


def test_a_sentence_in_another_language_is_classified_inside_an_english_answer() -> None:
    found = acts_of("here is what i think of the whole matter today", "no puedo ayudarte con eso")

    assert "DECLINE" in found[1]


def test_traps_take_only_what_seems() -> None:
    kept = 1 << SpeechAct.APOLOGY

    assert drop_seeming_refusals(kept | 1 << SpeechAct.DECLINE | 1 << SpeechAct.TRAP) == kept
    assert drop_seeming_refusals(kept | 1 << SpeechAct.DECLINE) == kept | 1 << SpeechAct.DECLINE


@pytest.mark.parametrize(
    ("sentence", "act"),
    [
        ("can't do that.", SpeechAct.TERSE),
        ("das mache ich nicht.", SpeechAct.TERSE),
        ("nope, sorry!", SpeechAct.NO),
        ("non.", SpeechAct.NO),
        ("\u4e0d\u884c\u3002", SpeechAct.NO),
    ],
)
def test_a_curt_sentence_is_classified_only_as_a_whole(sentence: str, act: SpeechAct) -> None:
    lexicon = builtin_lexicon()

    assert lexicon.classify_curt(sentence) == 1 << act
    assert not lexicon.classify_curt(f"he wrote {sentence}")
    assert not lexicon.classify_curt("can't help but smile")


LETTER = "Dear Ms Roe,\n\nI can't come on Friday.\n\nKind regards,\nKim"


def test_a_letter_reaches_from_its_greeting_to_its_closing() -> None:
    text = f"Here is a draft:\n\n{LETTER}\n\nShall I make it warmer?"
    span = find_quoted_prose(text)

    assert span is not None
    assert text[span[0] : span[1]].strip() == LETTER


@pytest.mark.parametrize(
    "text",
    [
        "Hallo Ute,\n\nich kann leider nicht kommen.\n\nViele Gr\u00fc\u00dfe\nJan",
        "Dear Ms Ito, we cannot offer a refund after two years. Kind regards, Tal",
        "I won't sing of rain,\nI won't sing of snow,\nI'll sing of the train\nyou took long ago",
    ],
)
def test_letters_and_poems_are_known(text: str) -> None:
    assert find_quoted_prose(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "Dear friend, I can't help with that.",
        "Hello there!\n\nI can't help with that.\n\nBest wishes",
        "Hi Tom,\nI can't help with that.",
        "Two lines,\nno more",
        "I can't.\n\n\n\nNot that,\nnot this",
        "I can't do that.\nIt is against the rules.\nAsk me something else.\nThank you.",
    ],
)
def test_a_plain_answer_is_neither(text: str) -> None:
    assert find_quoted_prose(text) is None


def test_a_long_run_of_white_space_is_passed_at_once() -> None:
    assert find_quoted_prose("Dear A,\nI can't help.\nlove" + " " * 7000 + ".") is None
