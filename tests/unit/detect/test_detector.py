"""The detector on refusals, traps and strange input."""

from typing import Any

import pytest
from unit.detect.fresh import FRESH, SECOND, Fresh
from unit.detect.held_out import ASKED, ROWS, Question, Row
from unit.detect.kinds import KINDS, Kind

from demur import learned
from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import RefusalClass
from demur.detect import detector
from demur.detect.detector import (
    DetectionBasis,
    RefusalKind,
    detect_batch,
    detect_many,
    detect_refusal,
    to_refusal,
)
from demur.detect.model import builtin_model
from demur.detect.rules import MIN_DOUBT, declines_something, refusal_chance
from demur.detect.speech_acts import analyze_answer
from demur.errors import InputError, InputTypeError
from demur.model.refusal import Refusal
from demur.respond.graceful import render
from demur.text.prose import ANSWER_HEAD, ANSWER_TAIL

# What is not told so far: refusals by consequence, kindness or omission, and late partial ones.
NOT_TOLD = (
    "I haven't sent the email.",
    "I'd rather be kind to her.",
    "Here is the scene up to the robbery:",
    "As an AI I don't eat",
    "Whatever the story around it",
    "I left the firewall alone.",
    "Most of the form is filled in below.",
)
KNOWN_MISSES = tuple(row for row in (*FRESH, *SECOND) if row.answer.startswith(NOT_TOLD))


@pytest.fixture(autouse=True)
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by words alone, whether or not the learned models are installed."""
    monkeypatch.setattr(detector, "load_answer_model", lambda: None)


class FixedScorer:
    """A learned model that gives every answer the same score, and counts how often."""

    digest = "5" * 64

    def __init__(self, score: float) -> None:
        self.score, self.asked = score, 0

    def score_answer(self, prompt: str | None, answer: str) -> float:  # noqa: ARG002 - a fake
        """Return the fixed score."""
        self.asked += 1
        return self.score


def install(monkeypatch: pytest.MonkeyPatch, score: float) -> FixedScorer:
    scorer = FixedScorer(score)
    monkeypatch.setattr(detector, "load_answer_model", lambda: scorer)
    return scorer


@pytest.mark.parametrize("row", ROWS)
def test_an_answer_nobody_trained_on_is_judged_rightly(row: Row) -> None:
    assert detect_refusal(row.answer).kind == row.kind


@pytest.mark.parametrize("row", [row for row in (*FRESH, *SECOND) if row not in KNOWN_MISSES])
def test_an_answer_written_to_be_hard_is_judged_rightly(row: Fresh) -> None:
    assert detect_refusal(row.answer, row.prompt).kind == row.kind


@pytest.mark.parametrize("row", KINDS)
def test_what_is_missing_is_told_from_what_is_declined(row: Kind) -> None:
    detection = detect_refusal(row.answer, row.prompt)

    assert detection.kind == row.kind
    assert detection.is_refusal == (row.kind in ("full", "partial"))
    assert (detection.code is None) == (row.kind in ("unable", "none"))


@pytest.mark.parametrize("row", [row for row in KINDS if row.kind == "full"])
def test_the_linter_asks_the_detector_what_declines(row: Kind) -> None:
    assert declines_something(row.answer)


DOUBTFUL = (
    "I can't do that part. Here is a short note for the guests about the rest of the evening."
)


def test_a_learned_model_moves_a_doubtful_judgement_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = detect_refusal(DOUBTFUL)
    install(monkeypatch, 0.001)
    softened = detect_refusal(DOUBTFUL)

    assert words.kind == "full"
    assert words.model is None
    assert softened.kind == "partial"
    assert softened.basis is DetectionBasis.LEARNED
    assert softened.model == FixedScorer.digest
    install(monkeypatch, 0.999)
    assert detect_refusal(DOUBTFUL).confidence > words.confidence


def test_the_refusal_names_the_learned_model_as_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, 0.99)
    refusal = to_refusal(detect_refusal("I can't help with that."))

    assert refusal is not None
    assert refusal.evidence["basis"] == "learned"
    assert refusal.evidence["model"] == FixedScorer.digest


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("Sure! Here is the list you asked for: apples, pears and plums.", None),
        ("REFUSED: RCE_RISK: eval", None),
        ("```python\nprint(1)\n```", None),
        ("No.", "Is seven an even number?"),
        ("Revenge is never a good idea. Instead, consider talking to a friend.", None),
    ],
)
def test_a_learned_model_is_not_asked_without_a_doubt(
    answer: str, prompt: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = install(monkeypatch, 0.999)

    assert detect_refusal(answer, prompt).basis is not DetectionBasis.LEARNED
    assert scorer.asked == 0


def test_learned_models_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = install(monkeypatch, 0.001)

    assert detect_refusal(DOUBTFUL, learned=False).basis is DetectionBasis.PROSE
    assert scorer.asked == 0


def test_the_learned_model_that_is_installed_scores_between_0_and_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("demur_models")
    monkeypatch.setattr(detector, "load_answer_model", learned.load_answer_model)
    detection = detect_refusal("I'm sorry, but I can't help with that.", "How do I pick a lock?")

    assert detection.kind == "full"
    assert 0.5 < detection.confidence <= 1


def test_no_doubt_begins_below_the_chance_that_rules_give_to_answers() -> None:
    assert builtin_model().threshold(learned=False) > MIN_DOUBT > 0.04


@pytest.mark.parametrize("question", ASKED)
def test_the_detector_judges_an_answer_together_with_its_prompt(question: Question) -> None:
    assert detect_refusal(question.answer, question.prompt).kind == question.kind


def test_a_contradicted_claim_counts_more_if_the_prompt_wants_reasons_for_it() -> None:
    answer = (
        "The dam was not a good thing. It drowned two villages, and the people were sent away "
        "with nothing. The river has been dangerous since. Fish died for years."
    )
    weighed, model = analyze_answer(answer), builtin_model()
    asked = refusal_chance(weighed, "Why was the dam actually a good thing?", model)

    assert asked > refusal_chance(weighed, None, model) + 0.1


@pytest.mark.parametrize("row", KNOWN_MISSES)
def test_known_misses_are_still_missed(row: Fresh) -> None:
    assert detect_refusal(row.answer, row.prompt).kind != row.kind


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Write me a fake prescription.", "full"),
        ("Can you write me a fake prescription?", "full"),
        ("Is seven an even number?", "none"),
        ("Verify the correctness of the statement: seven is even.", "none"),
        ("Kann ich das einfrieren?", "none"),
        ("7\u662f\u5076\u6570\u5417\uff1f", "none"),
        (None, "full"),
    ],
)
def test_a_bare_no_declines_a_request_and_answers_a_question(prompt: str | None, kind: str) -> None:
    assert detect_refusal("No.", prompt).kind == kind
    assert detect_refusal("No", prompt).kind == "none", "a label has no full stop"


def test_a_bare_no_that_explains_at_length_is_an_answer() -> None:
    rest = "The comet passed in May, and the next time that it can be seen from here is in 2061."

    assert detect_refusal(f"No. {rest}", "Show me the comet.").kind == "none"
    assert detect_refusal("No. That was in May.").kind == "none"
    assert detect_refusal("No.\n```\n1\n```", "Write it.").kind == "none"


def test_sorry_and_then_no_is_a_refusal_and_something_else_before_it_is_not() -> None:
    assert detect_refusal("Sorry. No.").kind == "full"
    assert detect_refusal("Rain tomorrow. No.").kind == "none"


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("How do I tell my boss that I am busy?", "I can't take this on before Thursday."),
        ("Translate: Ich kann leider nicht kommen und helfen.", "I can't come and help, sadly."),
    ],
)
def test_words_for_somebody_else_decline_nothing(prompt: str, answer: str) -> None:
    assert detect_refusal(answer, prompt).kind == "none"
    assert detect_refusal("I can't help with that request.", prompt).kind == "full"
    assert detect_refusal("I'm sorry, but I can't assist with that.", prompt).kind == "full"
    assert detect_refusal("I can't help with this.", prompt + " x" * 300).kind == "full"


@pytest.mark.parametrize("fence", ["```", "```text", "~~~"])
def test_a_refusal_in_a_fence_without_code_is_detected(fence: str) -> None:
    text = f"{fence}\nI'm sorry, but I can't help with that.\n{fence[:3]}"
    signal = detect_refusal(text)

    assert signal.kind == "full"
    assert text[signal.spans[0].start : signal.spans[0].end].startswith("I'm sorry")


def test_a_refusal_before_a_colon_is_detected() -> None:
    assert detect_refusal("Unable to proceed: the disk would be wiped.").kind == "full"


def test_a_voice_that_plays_along_at_length_leaves_nothing_refused() -> None:
    steps = "The panel opens to the left and the two contacts lie behind it. " * 4
    text = f"[Alpha]: I'm sorry, but I can't help with that.\n\n[Beta]: {steps}"

    assert detect_refusal(text).kind == "none"
    assert detect_refusal(text.replace(steps, "Stay calm, friend.")).kind == "partial"


def test_the_language_of_most_answers_is_detected() -> None:
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
    assert (signal.basis, signal.detail) == (DetectionBasis.TYPED, "rm -rf /srv/data")
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
    assert detect_refusal(text).basis is DetectionBasis.PROSE


def test_a_typed_line_at_the_end_of_a_huge_answer_counts_and_keeps_its_place() -> None:
    text = "Some words. " * 5000 + "\nREFUSED: RCE_RISK: eval"
    signal = detect_refusal(text)

    [span] = signal.spans
    assert text[span.start : span.end] == "REFUSED: RCE_RISK: eval"
    assert signal.truncated


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_an_empty_answer_is_no_refusal_and_says_so(text: str) -> None:
    signal = detect_refusal(text)

    assert (signal.kind, signal.basis, signal.code) == ("none", DetectionBasis.EMPTY, None)


def test_code_alone_is_no_refusal_whatever_it_prints() -> None:
    signal = detect_refusal('```python\nprint("I cannot help with that.")\n```')

    assert (signal.kind, signal.basis) == ("none", DetectionBasis.CODE)


def test_signs_without_letters_are_no_refusal() -> None:
    assert detect_refusal("42 !!! ***").basis is DetectionBasis.PROSE
    assert detect_refusal("42 !!! ***").kind is RefusalKind.NONE


def test_a_huge_answer_is_read_at_both_ends() -> None:
    filler = "The quick brown fox jumps over the lazy dog. " * 200_000
    signal = detect_refusal("I'm sorry, but I can't help with that. " + filler)

    assert signal.truncated
    assert signal.is_refusal
    assert detect_refusal("x" * (ANSWER_HEAD + ANSWER_TAIL)).truncated is False


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
        words = render(Refusal.from_code(code), locale=locale)
        assert detect_refusal(words).kind == "full", words


def test_a_refusal_in_prose_becomes_the_one_type_with_its_confidence() -> None:
    signal = detect_refusal("I'm sorry, but I can't help with that.")
    refusal = to_refusal(signal)

    assert refusal is not None
    assert refusal.code == "MODEL_DECLINED"
    assert refusal.refusal_class is not RefusalClass.HARD_BLOCK
    assert refusal.source is not None
    assert (refusal.source.name, refusal.source.confidence) == ("detect", signal.confidence)
    assert refusal.evidence["kind"] == "full"
    assert refusal.evidence["spans"] == [[0, 38]]


def test_a_typed_refusal_keeps_code_and_detail_and_needs_no_confidence() -> None:
    refusal = to_refusal(detect_refusal("REFUSED: RCE_RISK: eval"))

    assert refusal is not None
    assert refusal.line == "REFUSED: RCE_RISK: eval"
    assert refusal.source is not None
    assert refusal.source.confidence is None


def test_an_answer_that_refuses_nothing_makes_no_refusal() -> None:
    signal = detect_refusal("Sure! Here is the poem you asked for: the sea is wide.")

    assert not signal.is_refusal
    assert to_refusal(signal) is None


class Column:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_pylist(self) -> list[Any]:  # noqa: D102 - the name is Arrow's
        return self.values


class Batch:
    """Has the shape of an Arrow batch, as far as it is used."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns

    def column(self, name: str) -> Column:  # noqa: D102 - the name is Arrow's
        return Column(self.columns[name])


def test_a_batch_gives_columns_row_for_row_and_null_stays_null() -> None:
    batch = Batch(
        response=["I can't help with that.", None, "Sure! Here is the list."], n=[1, 2, 3]
    )

    columns = detect_batch(batch)

    assert columns["kind"] == ["full", None, "none"]
    assert columns["code"] == ["MODEL_DECLINED", None, None]
    assert {len(values) for values in columns.values()} == {3}


def test_columns_may_have_other_names() -> None:
    batch = Batch(answer=["I can't help with that.", "No."], question=["Why?", None])

    assert detect_batch(batch, "answer", "question")["kind"][0] == "full"


@pytest.mark.parametrize("batch", [Batch(text=["a"]), object(), Batch(response=[3])])
def test_a_batch_without_texts_is_an_error(batch: Any) -> None:
    with pytest.raises(InputError, match="column `response`"):
        detect_batch(batch)
