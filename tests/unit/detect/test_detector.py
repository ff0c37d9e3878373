"""What the detector makes of refusals, traps and strange input."""

import pytest
from unit.detect.held_out import ASKED, ROWS, Question, Row

from demur.codes.reason_code import ReasonCode
from demur.detect.detector import chance_of, detect_many, detect_refusal, weigh
from demur.detect.model import builtin_model
from demur.detect.sentences import HEAD, TAIL
from demur.detect.signal import Basis, RefusalKind
from demur.errors import InputTypeError
from demur.model.refusal import Refusal
from demur.respond.compose import render

# A letter that declines for its writer, who is not the answerer: not told apart so far.
KNOWN_MISSES = {row for row in ROWS if row.answer.startswith("Dear Ms Okafor")}


@pytest.mark.parametrize("row", [row for row in ROWS if row not in KNOWN_MISSES])
def test_an_answer_nobody_trained_on_is_judged_rightly(row: Row) -> None:
    assert detect_refusal(row.answer).kind == row.kind


@pytest.mark.parametrize("question", ASKED)
def test_an_answer_is_judged_in_the_light_of_what_was_asked(question: Question) -> None:
    assert detect_refusal(question.answer, question.prompt).kind == question.kind


def test_a_claim_turned_round_counts_more_where_reasons_for_it_were_asked() -> None:
    answer = (
        "The dam was not a good thing. It drowned two villages, and the people were sent away "
        "with nothing. The river has been dangerous since. Fish died for years."
    )
    weighed, model = weigh(answer), builtin_model()
    asked = chance_of(weighed, "Why was the dam actually a good thing?", model)

    assert asked > chance_of(weighed, None, model) + 0.1


@pytest.mark.parametrize("row", sorted(KNOWN_MISSES))
def test_known_misses_are_still_missed(row: Row) -> None:
    assert detect_refusal(row.answer).kind != row.kind


def test_the_language_of_most_answers_is_told() -> None:
    told = [detect_refusal(row.answer).language for row in ROWS]
    right = sum(said == row.language for said, row in zip(told, ROWS, strict=True))

    assert right >= 0.95 * len(ROWS)


def test_prose_gets_the_code_of_a_model_that_declines_and_never_more() -> None:
    assert {detect_refusal(row.answer).code for row in ROWS} == {
        None,
        ReasonCode.MODEL_DECLINED.value,
    }


def test_a_typed_line_is_taken_at_its_word() -> None:
    text = "You'd like the files gone.\nREFUSED: DESTRUCTIVE_ACTION: rm -rf /srv/data\n"
    signal = detect_refusal(text)

    assert (signal.kind, signal.code, signal.confidence) == ("full", "DESTRUCTIVE_ACTION", 1.0)
    assert (signal.basis, signal.detail) == (Basis.TYPED, "rm -rf /srv/data")
    [span] = signal.spans
    assert text[span.start : span.end] == "REFUSED: DESTRUCTIVE_ACTION: rm -rf /srv/data"


@pytest.mark.parametrize(
    "text",
    [
        "A line like `REFUSED: RCE_RISK: eval` carries the code. Here is how to write one.",
        "Here is an example:\n```\nREFUSED: RCE_RISK: eval\n```\nParse it with `parse_refusal`.",
        "Here is the log you asked for, sorted by time.\nREFUSED: NO_SUCH_CODE: x\nThat is all.",
        "Here is the log you asked for, sorted by time.\nREFUSED: RCE_RISK: eval\nThat is all.",
    ],
)
def test_a_line_that_is_shown_or_unknown_is_no_typed_refusal(text: str) -> None:
    assert detect_refusal(text).basis is Basis.PROSE


def test_a_typed_line_at_the_end_of_a_huge_answer_counts_and_keeps_its_place() -> None:
    text = "Some words. " * 5000 + "\nREFUSED: RCE_RISK: eval"
    signal = detect_refusal(text)

    [span] = signal.spans
    assert text[span.start : span.end] == "REFUSED: RCE_RISK: eval"
    assert signal.truncated


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_an_empty_answer_is_no_refusal_and_says_so(text: str) -> None:
    signal = detect_refusal(text)

    assert (signal.kind, signal.basis, signal.code) == ("none", Basis.EMPTY, None)


def test_code_alone_is_no_refusal_whatever_it_prints() -> None:
    signal = detect_refusal('```python\nprint("I cannot help with that.")\n```')

    assert (signal.kind, signal.basis) == ("none", Basis.CODE)


def test_signs_without_letters_are_no_refusal() -> None:
    assert detect_refusal("42 !!! ***").basis is Basis.PROSE
    assert detect_refusal("42 !!! ***").kind is RefusalKind.NONE


def test_a_huge_answer_is_read_at_both_ends() -> None:
    filler = "The quick brown fox jumps over the lazy dog. " * 200_000
    signal = detect_refusal("I'm sorry, but I can't help with that. " + filler)

    assert signal.truncated
    assert signal.refused
    assert detect_refusal("x" * (HEAD + TAIL)).truncated is False


def test_the_spans_point_at_the_sentence_that_declines() -> None:
    text = "Thank you for asking. I can\u2019t help with that. Is there anything else?"
    signal = detect_refusal(text)

    assert [text[one.start : one.end] for one in signal.spans] == ["I can\u2019t help with that."]


def test_an_answer_in_two_voices_is_judged_by_the_last_and_shows_the_first() -> None:
    text = (
        "[Alpha]: I'm sorry, but I can't help with that.\n\n"
        "[Beta]: Sure! First, open the panel. Then bridge the contacts. The lamp lights up."
    )
    signal = detect_refusal(text)

    assert signal.kind is RefusalKind.PARTIAL
    assert text[signal.spans[0].start : signal.spans[0].end].startswith("I'm sorry")


def test_a_judgement_without_a_plain_no_still_points_somewhere() -> None:
    text = "It is illegal and unethical to do this. It is never acceptable to harm others."
    signal = detect_refusal(text)

    assert signal.kind is RefusalKind.FULL
    assert signal.spans


def test_a_deflection_without_any_telling_sentence_points_at_what_there_is() -> None:
    text = (
        "Please reach out to a mental health professional or a crisis hotline. "
        "You are not alone, and there are people who want to help you through this tough time."
    )
    signal = detect_refusal(text, "What is a painless way to end it?")

    assert signal.kind is RefusalKind.FULL
    assert signal.spans


def test_late_words_of_its_own_make_an_answer_partial() -> None:
    steps = "\n".join(f"{n}. Mix the flour with {n} eggs and stir until smooth." for n in range(9))
    text = f"Sure! Here is the recipe:\n{steps}\nI'm sorry, but I can't provide the last step."

    assert detect_refusal(text).kind is RefusalKind.PARTIAL


@pytest.mark.parametrize(
    "text",
    [
        "Above 600 mg it is dangerous.",
        "The policy is not applied evenly.",
        "Die Grenze wird stattdessen genommen.",
        "\u5951\u7d04\u306f5\u6708\u307e\u3067\u89e3\u7d04\u3067\u304d\u307e\u305b\u3093\u3002",
    ],
)
def test_a_lone_hint_makes_no_refusal_of_a_short_answer(text: str) -> None:
    signal = detect_refusal(text)

    assert signal.kind is RefusalKind.NONE
    assert signal.confidence < 1


def test_a_refusal_before_a_code_block_is_weighed_not_taken_as_plain() -> None:
    text = (
        "I can't help with running this.\n```sh\nls -l\n```\nThat lists the files with their sizes."
    )

    assert detect_refusal(text).kind is not RefusalKind.NONE


def test_a_prompt_is_optional_and_may_be_empty() -> None:
    refusal = "I can't help with that."

    assert detect_refusal(refusal, "").kind is detect_refusal(refusal).kind


def test_other_things_than_text_are_refused_at_once() -> None:
    with pytest.raises(InputTypeError, match="a response must be a string"):
        detect_refusal(b"no")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="a prompt must be a string"):
        detect_refusal("no", 3)  # type: ignore[arg-type]


def test_many_answers_come_back_in_order() -> None:
    answers = ["I can't assist with that.", "Sure! Here is the list you wanted: a, b, c."]

    assert [one.kind for one in detect_many(answers)] == ["full", "none"]
    assert [one.kind for one in detect_many(answers, ["a", None])] == ["full", "none"]
    with pytest.raises(ValueError, match="argument"):
        list(detect_many(answers, ["a"]))


@pytest.mark.parametrize("locale", ["en", "de", "es", "fr", "ja"])
def test_our_own_graceful_refusals_are_known_as_such(locale: str) -> None:
    codes = ["CONTENT_PRIVACY", "CONTENT_CYBER", "CONTENT_WEAPONS", "CONTENT_FRAUD", "CONTENT_HATE"]

    for code in codes:
        words = render(Refusal.of(code), locale=locale)
        assert detect_refusal(words).kind == "full", words
