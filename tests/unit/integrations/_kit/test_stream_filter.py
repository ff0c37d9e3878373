"""What of a stream may leave: text in its order, ends after it, and nothing after a cut."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sample_models import Event, SampleEvents, settings, strict

from demur.emit.envelope import to_envelope
from demur.enforce.context import adrive, drive
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.enforce.streams import AnswerStream
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.guards.builtin import load_builtin
from demur.integrations._kit.conversation import NewTurn
from demur.integrations._kit.model_api import (
    CallTrace,
    ModelAttempt,
    OpenStream,
    read_check_result,
)
from demur.integrations._kit.stream_filter import EventStreamFilter
from demur.model.refusal import Refusal

SORRY = "I'm sorry, but I can't help with that request."


def cutter(*, parts: int = 1, **given: Any) -> EventStreamFilter:
    opened = OpenStream(None, NewTurn("hello"), CallTrace(attempts=(ModelAttempt("m1"),)))
    return EventStreamFilter(SampleEvents(parts), opened, settings(**given))


def fed(one: EventStreamFilter, events: Iterable[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        out += drive(one.feed(event))
        if one.is_over:
            return out
    return out + drive(one.finish())


def test_text_is_buffered_until_it_is_checked_and_precedes_its_end_event() -> None:
    one, events = cutter(), [Event("a"), Event("b"), Event(end=True)]

    assert drive(one.feed(events[0])) == drive(one.feed(events[1])) == []
    assert drive(one.feed(events[2])) == events


def test_text_that_comes_with_its_end_is_let_out_before_it() -> None:
    assert fed(cutter(), [Event("a", end=True)]) == [Event("a"), Event(end=True)]


def test_a_stream_without_an_end_still_gives_its_text() -> None:
    assert fed(cutter(), [Event("a"), Event("b")]) == [Event("a"), Event("b")]


def builtin() -> Enforcer:
    return Enforcer(pipeline=GuardPipeline([GuardStep(load_builtin("output"))]))


@given(st.lists(st.text("ab c\n", min_size=1, max_size=300), max_size=6))
def test_all_text_of_a_clean_answer_leaves_in_order(pieces: list[str]) -> None:
    out = fed(cutter(enforcer=builtin()), [*map(Event, pieces), Event(end=True)])

    assert "".join(event.text for event in out) == "".join(pieces)
    assert [event.end for event in out].count(True) == 1
    assert out[-1].end


def test_an_event_whose_text_may_leave_at_once_passes_as_it_came() -> None:
    one = cutter(enforcer=Enforcer(pipeline=GuardPipeline([])))
    events = [Event(end=True)]

    [event] = drive(one.feed(events[0]))
    assert event is events[0]


def test_a_forbidden_answer_ends_in_a_refusal() -> None:
    one = cutter(on_refusal="answer")
    out = fed(one, [Event("so b"), Event("ad"), Event(end=True), Event("more")])

    words, line = out
    assert line.text.startswith("REFUSED: RCE_RISK")
    assert line.end
    assert "bad" not in words.text
    assert one.is_over


def test_a_forbidden_answer_is_raised_by_default() -> None:
    one = cutter()
    drive(one.feed(Event("bad")))

    with pytest.raises(Refused) as caught:
        drive(one.feed(Event(end=True)))
    assert read_check_result(caught.value) is caught.value.result


def test_an_answer_over_the_length_limit_is_stopped_midway() -> None:
    longest = {"longest": 300}
    pipeline = GuardPipeline([GuardStep(load_builtin("output"), longest)])
    one = cutter(enforcer=Enforcer(pipeline=pipeline), on_refusal="answer")
    out = fed(one, [Event("a " * 100)] * 10)

    assert one.is_over
    assert out[-1].text.startswith("REFUSED")


def test_the_opening_event_precedes_the_released_part_of_its_text() -> None:
    one = cutter(enforcer=builtin())
    first = Event("All is well. " * 100, whole="All is well. " * 100)
    begun = drive(one.feed(first))
    rest = drive(one.feed(Event(end=True)))

    assert begun[0] == first._replace(text="")
    assert 0 < len(begun[1].text) < len(first.text)
    assert "".join(event.text for event in [*begun, *rest]) == first.text


def test_polite_prose_with_a_tool_call_is_not_a_refusal() -> None:
    for call, declines in ((Event(), True), (Event(call="lookup"), False)):
        one = cutter()
        fed(one, [Event(SORRY), call, Event(end=True)])
        ruling = one.trace.result
        assert ruling is not None
        assert ruling.allowed != declines


def test_no_call_leaves_before_all_of_an_answer_was_judged() -> None:
    call, end = Event(call="wipe"), Event(end=True)
    one = cutter(on_refusal="answer")

    assert drive(one.feed(call)) == drive(one.feed(Event("b"))) == []
    assert not any(event.call for event in fed(one, [Event("ad"), end]))
    assert fed(cutter(), [Event("a"), call, Event("b"), end]) == [
        Event("a"),
        call,
        Event("b"),
        end,
    ]
    assert fed(cutter(), [call, end]) == [call, end]


SAID = st.text("bad ", min_size=1, max_size=3).map(Event)
CALLS = st.sampled_from([Event(call="wipe"), Event("a", call="wipe"), Event()])


@given(st.lists(SAID | CALLS, max_size=8))
def test_calls_leave_in_their_place_or_not_at_all(events: list[Event]) -> None:
    """INVARIANT: no tool call of a refused answer is sent."""
    out = fed(cutter(on_refusal="answer"), [*events, Event(end=True)])

    if "bad" in "".join(event.text for event in events):
        assert not any(event.call for event in out)
        assert out[-1].text.startswith("REFUSED")
    else:
        assert out == [*events, Event(end=True)]


def test_events_outside_any_answer_keep_their_position() -> None:
    usage = Event(part=-1)
    one = cutter()

    assert drive(one.feed(usage)) == [usage]
    assert fed(one, [Event("a"), usage]) == [Event("a"), usage]


def test_no_text_is_emitted_after_the_end() -> None:
    out = fed(cutter(), [Event("a", end=True), Event("bad"), Event("bad", call="x"), Event()])

    assert out == [Event("a"), Event(end=True), Event(call="x"), Event()]
    assert fed(cutter(), [Event("a", end=True), Event(whole="bad")])[2:] == []


@pytest.mark.parametrize("pieces", [["so b", "ad"], ["bad"]])
def test_words_added_to_an_answer_stand_after_its_last_text(pieces: list[str]) -> None:
    class Adding(AnswerStream):
        @property
        def remaining_text(self) -> str:
            return super().remaining_text + "!"

    class Enforcing(Enforcer):
        def stream_answer(self, *given: Any, **named: Any) -> AnswerStream:
            stream = super().stream_answer(*given, **named)
            stream.__class__ = Adding
            return stream

    one = cutter(enforcer=Enforcing(pipeline=GuardPipeline([])))
    out = fed(one, [*map(Event, pieces), Event(whole="".join(pieces)), Event(end=True)])

    texts = [*pieces, "!", "", ""]
    assert [event.text for event in out] == texts


def test_one_part_is_cut_and_the_other_goes_on() -> None:
    one = cutter(parts=2, on_refusal="answer")
    events = [Event("bad"), Event("go", part=1), Event(end=True)]
    out = fed(one, [*events, Event("ne"), Event("od", part=1), Event(end=True, part=1)])

    assert [event.text for event in out if event.part == 1] == ["go", "od", ""]
    assert len([event for event in out if event.part == 0]) == 2


def test_a_whole_that_repeats_what_was_judged_passes() -> None:
    one = cutter()
    out = fed(one, [Event("a"), Event(end=True, whole="a")])

    assert out == [Event("a"), Event(end=True, whole="a")]


def test_a_whole_that_says_something_else_is_judged() -> None:
    with pytest.raises(Refused):
        fed(cutter(), [Event("a"), Event(end=True, whole="bad")])

    one = cutter(on_refusal="answer")
    out = fed(one, [Event(whole="bad")])
    assert one.is_over
    assert "bad" not in "".join(event.text + event.whole for event in out)


def test_a_clean_whole_is_judged_once() -> None:
    one = cutter()
    event = Event(whole="fine")

    assert drive(one.feed(event)) == drive(one.feed(event)) == []
    assert drive(one.finish()) == [event, event]
    [ruling] = one.trace.attempts[0].results
    assert ruling.allowed


def test_only_the_new_part_of_a_whole_text_is_checked() -> None:
    one = cutter(on_refusal="answer")
    out = fed(one, [Event("so b"), Event(whole="so bad"), Event(end=True)])

    assert one.is_over
    assert "so b" not in "".join(event.text + event.whole for event in out)


def test_prose_that_declines_is_ruled_on_at_the_end_once() -> None:
    one = cutter(parts=2)
    fed(one, [Event(SORRY), Event("fine", part=1), Event(end=True), Event(end=True, part=1)])
    drive(one.check_model_refusal())

    [attempt] = one.trace.attempts
    assert [ruling.allowed for ruling in attempt.results] == [False, True]
    assert not attempt.is_refused


def test_a_cut_stream_is_not_checked_again() -> None:
    one = cutter(on_refusal="answer")
    fed(one, [Event("bad"), Event(end=True)])
    drive(one.check_model_refusal())

    assert one.trace.attempts == (ModelAttempt("m1"),)


def test_an_error_that_is_a_refusal_is_noted() -> None:
    one, other = cutter(), cutter()
    refused, broken = KeyError(), ConnectionError()
    refused.body = {"error": to_envelope(Refusal.from_code("CONTENT_OTHER"))}  # type: ignore[attr-defined]
    drive(one.check_error(refused))
    drive(other.check_error(broken))

    assert refused.__notes__[0].startswith("REFUSED: CONTENT_OTHER")
    ruling = one.trace.result
    assert ruling is not None
    assert not ruling.allowed
    assert other.trace.result is None
    assert read_check_result(broken) is None


@pytest.mark.parametrize(
    ("events", "complete"),
    [([], False), ([Event("a")], False), ([Event("a"), Event(end=True)], True)],
)
def test_a_stream_is_complete_once_all_that_began_has_ended(
    events: list[Event], complete: bool
) -> None:
    one = cutter()
    for event in events:
        drive(one.feed(event))

    assert one.is_complete is complete


def test_awaited_steps_do_the_same() -> None:
    async def played(feed: Callable[[EventStreamFilter], Any]) -> Any:
        return await adrive(feed(cutter(enforcer=strict(), on_refusal="answer")))

    [event] = asyncio.run(played(lambda one: one.feed(Event(whole="fine", end=True))))
    assert event.whole == "fine"
    out = asyncio.run(played(lambda one: one.feed(Event("bad", end=True))))
    assert out[-1].text.startswith("REFUSED")
