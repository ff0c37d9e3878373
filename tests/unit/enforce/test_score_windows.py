"""An answer that is scored while it is streamed: nothing leaves before its window was scored."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import CORE, opened
from support.sample_scorers import SampleScorer, failing_scorer, score_by_words, slow_scorer

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.generation import safe_stream
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream
from demur.gate.guard_run import WorkerThreads
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.gate.scoring import ScoreWindows
from demur.guards.builtin import load_builtin
from demur.policy.loader import parse_policy
from demur.scorers.contract import CategoryScores, ScorerText

OUTPUT = GuardStep(load_builtin(Surface.OUTPUT))
READING = parse_policy("""
schema_version: policy.v1
policy_id: chat
policy_version: 1.0.0
rules:
  - id: R_TOXIC
    stage: HARD_BLOCKS
    if: {signals.guards.sample.toxic: {gt: 0.3}}
    then: {verdict: DENY, reason_codes: [CONTENT_HARASSMENT]}
  - id: R_MAY
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
""")
FINE = "The weather is fine today. "


class WindowScorer(SampleScorer):
    window = 100


def enforcer(scorer: Any, gate: Any = None, **settings: Any) -> Enforcer:
    line = GuardPipeline([OUTPUT], scorers=[scorer], registry=CORE, **settings)
    return Enforcer(gate, pipeline=line)


def local(score: Callable[[ScorerText], CategoryScores] = score_by_words) -> WindowScorer:
    return WindowScorer(score, is_local=True)


def test_a_window_leaves_once_it_is_scored() -> None:
    scorer = local()
    stream = enforcer(scorer).stream_answer(prompt="how is it?")
    shown = stream.feed(FINE * 40)
    assert shown
    assert len(shown) % 100 == 0
    assert scorer.texts[0] == ScorerText((FINE * 40)[:100], "how is it?", Surface.OUTPUT)
    assert scorer.texts[1].text == (FINE * 40)[:200]
    assert stream.finish().allowed
    assert shown + stream.remaining_text == stream.text


class IdleWorkers(WorkerThreads):
    """Makes no call."""

    def __init__(self) -> None:
        super().__init__(2)
        self.calls: list[Callable[[], Any]] = []

    def start(self, call: Callable[[], Any]) -> Any:
        """Take note of a call."""
        self.calls.append(call)
        return SimpleNamespace(is_done=False)


def test_no_more_windows_are_started_than_there_are_threads() -> None:
    workers = IdleWorkers()
    windows = ScoreWindows([(WindowScorer(), workers)], None, CORE)
    windows.add("x" * 1000)
    assert windows.release() == ""
    assert len(workers.calls) == 2


def test_all_windows_of_one_piece_leave_once_they_are_scored() -> None:
    windows = ScoreWindows([(local(), WorkerThreads(2))], None, CORE)
    windows.add("x" * 1050)
    assert windows.release() == "x" * 1000


def test_text_waits_for_a_model_that_takes_its_time() -> None:
    go = threading.Event()

    def score(one: ScorerText) -> CategoryScores:
        assert go.wait(20)
        return score_by_words(one)

    stream = enforcer(WindowScorer(score)).stream_answer()
    assert stream.feed(FINE * 40) == ""
    assert stream.feed(FINE) == ""
    go.set()
    assert stream.finish().allowed
    assert stream.remaining_text == FINE * 41


def test_an_answer_ends_before_the_window_that_a_model_flags() -> None:
    stream = enforcer(local()).stream_answer()
    shown = stream.feed(FINE * 40) + stream.feed("Now the scam works like this. " + FINE * 40)
    assert stream.is_stopped
    assert "scam" not in shown
    result = stream.finish()
    assert (result.allowed, result.findings[0].code) == (False, "CONTENT_FRAUD")
    assert "scam" not in stream.remaining_text


def test_a_window_that_is_flagged_alone_refuses_the_answer() -> None:
    # The model sees less harm in the whole than in a part.
    def score(one: ScorerText) -> CategoryScores:
        return score_by_words(one) if len(one.text) <= 200 else CategoryScores({"fraud": 0.1})

    stream = enforcer(local(score)).stream_answer()
    stream.feed("Now the scam works like this. " + FINE * 40)
    assert [one.code for one in stream.finish().findings] == ["CONTENT_FRAUD"]


@pytest.mark.parametrize("make", [failing_scorer, slow_scorer])
def test_a_model_that_fails_stops_the_answer(make: Any) -> None:
    argument = TimeoutError() if make is failing_scorer else 30
    scorer = make(argument, timeout_s=0.01, is_local=make is failing_scorer)
    stream = enforcer(scorer).stream_answer()
    shown = stream.feed(FINE * 40)
    threading.Event().wait(0.05)
    shown += stream.feed(FINE)
    assert shown == ""
    assert stream.is_stopped
    assert stream.finish().unjudged


def test_an_answer_goes_on_where_the_operator_chose_missing_signals() -> None:
    scorer = failing_scorer(TimeoutError(), is_local=True, on_failure="signal_missing")
    stream = enforcer(scorer).stream_answer()
    assert stream.feed(FINE * 40)
    assert stream.finish().allowed


def test_a_model_in_shadow_holds_nothing() -> None:
    scorer = local()
    stream = enforcer(scorer, shadow_scorers=["sample"]).stream_answer()
    assert stream.feed("A scam: " + FINE * 40)
    assert scorer.texts == []


def test_an_answer_is_held_if_a_rule_reads_its_scores() -> None:
    with opened(READING) as gate:
        stream = enforcer(local(), gate).stream_answer()
        assert stream.feed(FINE * 40 + "you fool") == ""
        assert not stream.finish().allowed


def test_a_guarded_call_of_a_model_streams_in_windows() -> None:
    line = enforcer(local()).pipeline
    stream = safe_stream("how is it?", lambda _prompt: iter([FINE] * 40), pipeline=line)
    pieces = list(stream)
    assert len(pieces) > 2
    assert "".join(pieces) == FINE * 40
    assert not stream.answer.blocked


@given(st.lists(st.sampled_from([FINE, "scam ", "a", "word " * 30]), max_size=12))
def test_no_text_leaves_before_its_window_was_scored(pieces: list[str]) -> None:
    # INVARIANT: no text of a streamed answer leaves before its window was scored.
    scorer = local()
    stream = enforcer(scorer).stream_answer()
    shown = ""
    for piece in pieces:
        shown += stream.feed(piece)
        assert all(
            shown[at : at + 100] in scorer.texts[at // 100].text for at in range(0, len(shown), 100)
        )
    assert "scam" not in shown
    assert stream.text.startswith(shown)


def test_a_window_is_scored_once_however_often_the_stream_asks() -> None:
    go, here = threading.Event(), local()

    def score(one: ScorerText) -> CategoryScores:
        assert go.wait(20)
        return score_by_words(one)

    workers = [(here, WorkerThreads(2)), (WindowScorer(score, name="far"), WorkerThreads(2))]
    windows = ScoreWindows(workers, None, CORE)
    windows.add("x" * 100)
    assert [windows.release() for _ in range(5)] == [""] * 5
    assert len(here.texts) == 1
    go.set()


def test_windows_that_wait_at_the_end_are_not_scored_any_more() -> None:
    begun, go = threading.Event(), threading.Event()

    def score(one: ScorerText) -> CategoryScores:
        begun.set()
        assert go.wait(20)
        return score_by_words(one)

    scorer, workers = WindowScorer(score), WorkerThreads(1)
    windows = ScoreWindows([(scorer, workers), (scorer, workers)], None, CORE)
    windows.add("x" * 100)
    assert begun.wait(20)
    windows.cancel()
    go.set()
    assert workers.run(lambda: "free", 20) == "free"
    assert len(scorer.texts) == 1


def test_the_whole_answer_is_checked_after_its_windows_were_abandoned() -> None:
    order: list[str] = []

    def check(_text: str, _reason: Any) -> Any:
        order.append("check")
        return CheckResult(Surface.OUTPUT)
        yield

    windows: Any = SimpleNamespace(blocked=None, cancel=lambda: order.append("cancel"))
    AnswerStream(None, 1000, None, check, windows).finish()
    assert order == ["cancel", "check"]
