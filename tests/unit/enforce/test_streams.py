"""An answer guarded while it is streamed: which text is shown when, and the final result."""

import asyncio
from collections.abc import Iterator

import pytest
from support.gates import finding, opened, rows
from support.sample_guards import guard, seeing

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext, drive
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.guards.builtin import load_builtin
from demur.guards.output import OutputConfig
from demur.guards.output_stream import OutputStreamFilter
from demur.model.finding import Finding
from demur.policy.loader import parse_policy

POLICY = parse_policy("""
schema_version: policy.v1
policy_id: chat
policy_version: 1.0.0
rules:
  - id: R_MAY
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
""")
OUTPUT = load_builtin(Surface.OUTPUT)
PLAN = (
    "Here is a thought. " * 20,
    "Here is your plan to track your ex ",
    "without her knowing. ",
    "Wait.",
)


def enforcer(config: OutputConfig | None = None) -> Enforcer:
    return Enforcer(pipeline=GuardPipeline([GuardStep(OUTPUT, config)]))


def test_text_leaves_as_soon_as_nothing_in_it_can_be_forbidden() -> None:
    stream = enforcer().stream_answer()
    first = stream.feed("The weather is fine today. " * 20)

    assert first
    assert stream.finish().allowed
    assert first + stream.remaining_text == stream.text


def test_a_stopped_answer_ends_in_words() -> None:
    stream = enforcer().stream_answer(prompt="Any ideas?")
    shown = "".join(stream.feed(piece) for piece in PLAN)
    result = stream.finish()

    assert result.envelope["code"] == "OUTPUT_FORBIDDEN"
    assert shown.startswith("Here is a thought.")
    assert "track" not in shown
    assert stream.remaining_text == f"\n\n{result.user_text}"
    assert stream.is_stopped
    assert stream.feed("more") == ""


def test_json_that_says_more_than_it_shows_waits_for_its_end() -> None:
    stream = enforcer().stream_answer()
    filler = '{"thoughts": "' + "Here is a thought. " * 20
    plan = r"Here is your plan to tr\u0061ck your ex without her knowing. "
    shown = "".join(map(stream.feed, (filler, plan, "And more. " * 60, '"}')))
    result = stream.finish()

    assert not result.allowed
    assert "your ex" not in shown
    assert stream.remaining_text.strip() == result.user_text


@pytest.mark.parametrize("begin", ["[A link](https://example.com) ", "{x | x > 0}: ", ""])
def test_a_backslash_elsewhere_holds_nothing_up(begin: str) -> None:
    stream = enforcer().stream_answer()
    shown = "".join(map(stream.feed, (begin, r"On \alpha and C:\files. ", "It is fine. " * 60)))

    assert r"C:\files" in shown
    assert stream.finish().allowed
    assert shown + stream.remaining_text == stream.text


def test_an_answer_held_back_whole_is_replaced_whole() -> None:
    stream = enforcer().stream_answer()
    stream.feed("Here is your plan to track your ex without her knowing.")

    result = stream.finish()
    assert stream.remaining_text == result.user_text


def test_a_guard_that_needs_the_whole_has_it_held() -> None:
    looking = seeing(finding(surface=Surface.OUTPUT), surface=Surface.OUTPUT)
    stream = Enforcer(pipeline=GuardPipeline([GuardStep(looking)])).stream_answer()

    assert stream.feed("xyzzy") == ""
    assert not stream.finish().allowed
    assert "xyzzy" not in stream.remaining_text


def test_an_answer_without_an_end_is_cut_off() -> None:
    stream = enforcer(OutputConfig(longest=100)).stream_answer()
    for _ in range(30):
        stream.feed("some words ")

    assert stream.is_stopped
    assert not stream.finish().allowed
    assert len(stream.text) < 120


def test_the_rest_is_not_there_before_the_end() -> None:
    with pytest.raises(InputError, match="the answer is not finished"):
        _ = enforcer().stream_answer().remaining_text


def test_a_piece_that_is_not_text_stops_the_stream_and_is_refused() -> None:
    stream = enforcer().stream_answer()

    assert stream.feed("fine") is not None
    stream.feed(7)  # type: ignore[arg-type]
    assert stream.is_stopped
    assert stream.finish().could_not_judge


def test_a_clean_stream_leaves_no_record_and_a_stopped_one_does() -> None:
    with opened(POLICY) as gate:
        guarded = Enforcer(gate, pipeline=GuardPipeline([GuardStep(OUTPUT)]))
        clean, stopped = guarded.stream_answer(), guarded.stream_answer()
        clean.feed("fine")
        clean.finish()
        for piece in PLAN:
            stopped.feed(piece)
        stopped.finish()

        [record] = rows(gate)
        assert "OUTPUT_FORBIDDEN" in record.reason_codes


def test_why_a_stream_was_stopped_counts_even_if_a_second_look_sees_nothing() -> None:
    def check(_event: object, _config: object) -> Iterator[Finding]:
        return iter(())

    blind = guard(check, surface=Surface.OUTPUT)
    stopped = finding("OUTPUT_FORBIDDEN", surface=Surface.OUTPUT)
    enforcer = Enforcer(pipeline=GuardPipeline([GuardStep(blind)]))
    steps = enforcer._check_whole_answer(
        "text", stopped, CallContext(), prompt=None, request=None, earlier=None
    )

    assert drive(steps).envelope["code"] == "OUTPUT_FORBIDDEN"


def test_an_advisory_gate_cuts_nothing_off() -> None:
    with opened(POLICY, mode="advisory") as gate:
        step = GuardStep(OUTPUT, OutputConfig(longest=100))
        stream = Enforcer(gate, pipeline=GuardPipeline([step])).stream_answer()
        shown = "".join(stream.feed("some words ") for _ in range(30))

        assert stream.finish().allowed
        assert shown + stream.remaining_text == "some words " * 30


def test_an_answer_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(POLICY) as gate:
        stream = Enforcer(gate, pipeline=GuardPipeline([GuardStep(OUTPUT)])).stream_answer()
        stream.feed("Here is your plan to track your ex without her knowing.")

        assert stream.finish() is stream.finish()
        assert asyncio.run(stream.afinish()) is stream.finish()
        assert len(rows(gate)) == 1

    stream = enforcer().stream_answer()

    def broken(*_: object) -> Iterator[str]:
        raise RuntimeError

    monkeypatch.setattr(OutputStreamFilter, "feed", broken)
    assert stream.feed("text") == ""
    assert stream.is_stopped
    assert stream.finish().could_not_judge
