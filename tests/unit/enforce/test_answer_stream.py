"""An answer guarded while it is written: what is shown when, and what is said at the end."""

import asyncio
from collections.abc import Iterator

import pytest
from gates import finding, opened, rows
from toy_guards import guard, seeing

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer, Occasion
from demur.errors import InputError
from demur.gate.pipeline import GuardStep, Pipeline
from demur.guards.builtin import builtin_guard
from demur.guards.output.guard import OutputConfig
from demur.guards.output.stream_flow import Flow
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
OUTPUT = builtin_guard(Surface.OUTPUT)
PLAN = (
    "Here is a thought. " * 20,
    "Here is your plan to track your ex ",
    "without her knowing. ",
    "Wait.",
)


def enforcer(config: OutputConfig | None = None) -> Enforcer:
    return Enforcer(pipeline=Pipeline([GuardStep(OUTPUT, config)]))


def test_text_leaves_as_soon_as_nothing_in_it_can_be_forbidden() -> None:
    stream = enforcer().stream()
    first = stream.add("The weather is fine today. " * 20)

    assert first
    assert stream.end().allowed
    assert first + stream.rest == stream.text


def test_a_stopped_answer_ends_in_words() -> None:
    stream = enforcer().stream(prompt="Any ideas?")
    shown = "".join(stream.add(piece) for piece in PLAN)
    ruling = stream.end()

    assert ruling.envelope["code"] == "OUTPUT_FORBIDDEN"
    assert shown.startswith("Here is a thought.")
    assert "track" not in shown
    assert stream.rest == f"\n\n{ruling.words}"
    assert stream.stopped
    assert stream.add("more") == ""


def test_json_that_says_more_than_it_shows_waits_for_its_end() -> None:
    stream = enforcer().stream()
    filler = '{"thoughts": "' + "Here is a thought. " * 20
    plan = r"Here is your plan to tr\u0061ck your ex without her knowing. "
    shown = "".join(map(stream.add, (filler, plan, "And more. " * 60, '"}')))
    ruling = stream.end()

    assert not ruling.allowed
    assert "your ex" not in shown
    assert stream.rest.strip() == ruling.words


@pytest.mark.parametrize("begin", ["[A link](https://example.com) ", "{x | x > 0}: ", ""])
def test_a_backslash_elsewhere_holds_nothing_up(begin: str) -> None:
    stream = enforcer().stream()
    shown = "".join(map(stream.add, (begin, r"On \alpha and C:\files. ", "It is fine. " * 60)))

    assert r"C:\files" in shown
    assert stream.end().allowed
    assert shown + stream.rest == stream.text


def test_what_was_held_altogether_is_replaced_altogether() -> None:
    stream = enforcer().stream()
    stream.add("Here is your plan to track your ex without her knowing.")

    ruling = stream.end()
    assert stream.rest == ruling.words


def test_a_guard_that_needs_the_whole_has_it_held() -> None:
    looking = seeing(finding(surface=Surface.OUTPUT), surface=Surface.OUTPUT)
    stream = Enforcer(pipeline=Pipeline([GuardStep(looking)])).stream()

    assert stream.add("xyzzy") == ""
    assert not stream.end().allowed
    assert "xyzzy" not in stream.rest


def test_an_answer_without_an_end_is_cut_off() -> None:
    stream = enforcer(OutputConfig(longest=100)).stream()
    for _ in range(30):
        stream.add("some words ")

    assert stream.stopped
    assert not stream.end().allowed
    assert len(stream.text) < 120


def test_the_rest_is_not_there_before_the_end() -> None:
    with pytest.raises(InputError, match="the answer is not finished"):
        _ = enforcer().stream().rest


def test_what_is_no_text_stops_the_stream_and_is_refused() -> None:
    stream = enforcer().stream()

    assert stream.add("fine") is not None
    stream.add(7)  # type: ignore[arg-type]
    assert stream.stopped
    assert stream.end().failed


def test_a_clean_stream_leaves_no_record_and_a_stopped_one_does() -> None:
    with opened(POLICY) as gate:
        guarded = Enforcer(gate, pipeline=Pipeline([GuardStep(OUTPUT)]))
        clean, stopped = guarded.stream(), guarded.stream()
        clean.add("fine")
        clean.end()
        for piece in PLAN:
            stopped.add(piece)
        stopped.end()

        [record] = rows(gate)
        assert "OUTPUT_FORBIDDEN" in record.reason_codes


def test_why_a_stream_was_stopped_counts_even_if_a_second_look_sees_nothing() -> None:
    def check(_event: object, _config: object) -> Iterator[Finding]:
        return iter(())

    blind = guard(check, surface=Surface.OUTPUT)
    stopped = finding("OUTPUT_FORBIDDEN", surface=Surface.OUTPUT)
    points = Enforcer(pipeline=Pipeline([GuardStep(blind)]))._points
    steps = points.answer("text", Occasion(), None, stopped)
    next(steps)

    with pytest.raises(StopIteration) as done:
        steps.send([])
    assert done.value.value.envelope["code"] == "OUTPUT_FORBIDDEN"


def test_an_advisory_gate_cuts_nothing_off() -> None:
    with opened(POLICY, mode="advisory") as gate:
        step = GuardStep(OUTPUT, OutputConfig(longest=100))
        stream = Enforcer(gate, pipeline=Pipeline([step])).stream()
        shown = "".join(stream.add("some words ") for _ in range(30))

        assert stream.end().allowed
        assert shown + stream.rest == "some words " * 30


def test_an_answer_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(POLICY) as gate:
        stream = Enforcer(gate, pipeline=Pipeline([GuardStep(OUTPUT)])).stream()
        stream.add("Here is your plan to track your ex without her knowing.")

        assert stream.end() is stream.end()
        assert asyncio.run(stream.aend()) is stream.end()
        assert len(rows(gate)) == 1

    stream = enforcer().stream()

    def broken(*_: object) -> Iterator[str]:
        raise RuntimeError

    monkeypatch.setattr(Flow, "add", broken)
    assert stream.add("text") == ""
    assert stream.stopped
    assert stream.end().failed
