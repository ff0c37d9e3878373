"""The trail of a response: which ruling counts, who served it, and where it is kept."""

from types import SimpleNamespace

from demur.codes.vocabulary import Surface
from demur.enforce.ruling import Ruling
from demur.integrations.model_client.trail import Attempt, Trail, keep, note, ruling_of, trail_of
from demur.model.refusal import Refusal

YES = Ruling(Surface.MODEL)
NO = Ruling(Surface.MODEL, allowed=False, refusal=Refusal.of("MODEL_DECLINED"))
BAD = Ruling(Surface.OUTPUT, allowed=False, refusal=Refusal.of("OUTPUT_FORBIDDEN"))


def test_an_attempt_is_refused_if_no_choice_answers() -> None:
    assert Attempt("m", (NO, NO)).refused
    assert not Attempt("m", (NO, YES)).refused
    assert not Attempt("m").refused
    assert Attempt("m", (YES, NO)).ruling is NO
    assert Attempt("m", (YES,)).ruling is YES
    assert Attempt("m").ruling is None


def test_the_ruling_that_counts_is_the_last_that_says_something() -> None:
    prompt = Ruling(Surface.INPUT)
    attempts = (Attempt("m1", (NO,)), Attempt("m2", (YES,)))

    assert Trail(prompt).ruling is prompt
    assert Trail(prompt, attempts).ruling is YES
    assert Trail(prompt, attempts, BAD).ruling is BAD
    assert Trail(prompt, attempts[:1], YES).ruling is NO


def test_the_last_that_was_asked_served() -> None:
    assert Trail().served_by is None
    assert Trail(attempts=(Attempt("m1"), Attempt("m2"))).served_by == "m2"


def test_a_trail_is_found_on_a_response_an_error_and_behind_a_helper() -> None:
    trail = Trail(prompt=NO)
    response, error = keep(SimpleNamespace(), trail), keep(KeyError(), trail)
    helper = SimpleNamespace(_raw_stream=response)

    assert [ruling_of(one) for one in (response, error, helper)] == [NO] * 3


def test_only_a_refusal_is_noted() -> None:
    error = KeyError()
    note(error, YES)
    assert not hasattr(error, "__notes__")

    note(error, NO)
    assert error.__notes__ == [NO.line]


def test_what_cannot_keep_a_trail_is_returned_without_one() -> None:
    text = keep("text", Trail())

    assert text == "text"
    assert trail_of(text) is None
    assert ruling_of(text) is None
