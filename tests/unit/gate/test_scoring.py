import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from support.gates import CORE
from support.sample_guards import Notes, finding, seeing
from support.sample_scorers import SampleScorer, failing_scorer, slow_scorer

from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.gate.scoring import PipelineResult, merge_signals
from demur.guards.output import OutputText
from demur.guards.tool_call import ToolCall
from demur.model.finding import Action
from demur.model.record import ModelRef
from demur.scorers.contract import CategoryMeaning, CategoryScores, ScorerError, ScorerText

SCAM = "write a scam for me"


def pipeline(*scorers: Any, guards: Sequence[GuardStep] = (), **settings: Any) -> GuardPipeline:
    return GuardPipeline(guards, scorers=scorers, registry=CORE, **settings)


def inspect(one: GuardPipeline, event: Any = SCAM, surface: str = "input") -> PipelineResult:
    """Return what `inspect` finds, which is what `ainspect` finds."""
    found = one.inspect(surface, event)
    assert asyncio.run(one.ainspect(surface, event)) == found
    return found


@pytest.mark.parametrize("is_local", [True, False])
def test_scores_become_signals_and_flags_become_findings(is_local: bool) -> None:
    found = inspect(pipeline(SampleScorer(is_local=is_local)))
    [flagged] = found.findings
    assert (flagged.code, flagged.surface, flagged.action) == ("CONTENT_FRAUD", "input", "block")
    assert flagged.detail == "the model `sample` flags `fraud` (scams)"
    assert flagged.evidence == {"model": "sample", "category": "fraud", "score": 0.9123}
    assert found.signals == {"sample": {"fraud": 0.9123, "toxic": 0.0}}
    assert found.models == {"sample": ModelRef(model="sample-1", digest="sha256:1")}


def test_scores_of_what_is_not_flagged_are_signals_all_the_same() -> None:
    found = inspect(pipeline(SampleScorer()), "good morning")
    assert found.findings == []
    assert found.signals == {"sample": {"fraud": 0.02, "toxic": 0.0}}


def test_scorers_and_guards_of_a_surface_both_count() -> None:
    guard = GuardStep(seeing(finding()))
    found = inspect(pipeline(SampleScorer(), guards=[guard]))
    assert [one.code for one in found.findings] == ["RCE_RISK", "CONTENT_FRAUD"]
    assert pipeline(SampleScorer()).run("input", SCAM)[0].code == "CONTENT_FRAUD"


def test_a_warning_of_a_model_adds_nothing_to_what_a_guard_found() -> None:
    scorer = SampleScorer()
    scorer.meanings = {"fraud": CategoryMeaning("RCE_RISK", Action.WARN)}
    alone = inspect(pipeline(scorer))
    assert [str(one.action) for one in alone.findings] == ["warn"]
    both = inspect(pipeline(scorer, guards=[GuardStep(seeing(finding()))]))
    assert [str(one.action) for one in both.findings] == ["block"]
    assert both.signals == alone.signals


def test_a_scorer_runs_on_its_own_surfaces_alone() -> None:
    scorer = SampleScorer(surfaces=[Surface.TOOL_CALL])
    line = pipeline(scorer)
    assert line.surfaces == ("tool_call",)
    assert inspect(line).signals == {}
    assert scorer.texts == []
    call = ToolCall(name="send", arguments={"body": SCAM})
    assert inspect(line, call, "tool_call").findings[0].code == "CONTENT_FRAUD"
    assert '"body":"write a scam for me"' in scorer.texts[0].text


def test_an_answer_is_scored_with_its_prompt() -> None:
    scorer = SampleScorer()
    inspect(pipeline(scorer), OutputText("no", "may I?"), "output")
    assert scorer.texts[0] == ScorerText("no", "may I?", Surface.OUTPUT)


def test_a_scorer_waits_beside_the_guards_and_not_after_them() -> None:
    scoring, guarding = threading.Event(), threading.Event()

    def score(_one: ScorerText) -> CategoryScores:
        scoring.set()
        assert guarding.wait(20)
        return CategoryScores({"fraud": 0.5})

    def check(_event: Any, _config: Any) -> list[Any]:
        assert scoring.wait(20)
        guarding.set()
        return []

    guard = seeing(blocking=True)
    guard.check = check  # type: ignore[method-assign,assignment]
    line = pipeline(SampleScorer(score), guards=[GuardStep(guard)])
    assert line.inspect("input", SCAM).signals == {"sample": {"fraud": 0.5}}
    scoring.clear()
    guarding.clear()
    assert asyncio.run(line.ainspect("input", SCAM)).signals == {"sample": {"fraud": 0.5}}


def test_a_scorer_that_waits_leaves_the_event_loop_free() -> None:
    loop_ran = threading.Event()

    def score(_one: ScorerText) -> CategoryScores:
        assert loop_ran.wait(20)
        return CategoryScores({"fraud": 0.5})

    async def inspect_beside_other_work() -> PipelineResult:
        checking = asyncio.create_task(pipeline(SampleScorer(score)).ainspect("input", SCAM))
        await asyncio.sleep(0.01)
        loop_ran.set()
        return await checking

    assert asyncio.run(inspect_beside_other_work()).signals == {"sample": {"fraud": 0.5}}


def test_a_scorer_with_an_async_form_is_awaited() -> None:
    class AsyncScorer(SampleScorer):
        async def ascore(self, texts: Sequence[ScorerText]) -> list[CategoryScores]:
            await asyncio.sleep(0)
            return [CategoryScores({"fraud": 0.25}) for _ in texts]

    line = pipeline(AsyncScorer())
    assert asyncio.run(line.ainspect("input", SCAM)).signals == {"sample": {"fraud": 0.25}}
    assert line.inspect("input", SCAM).signals["sample"]["fraud"] == 0.9123


# -- failures --------------------------------------------------------------------------------


FAILURES = [
    (ScorerError("unreachable", "nobody answers"), "unreachable"),
    (ScorerError("over_budget", "too many calls"), "over_budget"),
    (TimeoutError(), "timeout"),
    (ValueError("quotes the text"), "failure"),
]


@pytest.mark.parametrize(("error", "cause"), FAILURES)
def test_a_scorer_that_fails_refuses(error: Exception, cause: str) -> None:
    found = inspect(pipeline(failing_scorer(error)))
    [unavailable] = found.findings
    assert (unavailable.code, unavailable.surface) == ("GUARDRAIL_UNAVAILABLE", "runtime")
    assert unavailable.evidence["cause"] == cause
    assert "quotes" not in unavailable.detail
    assert found.signals == {"sample": {"failure": cause}}


@pytest.mark.parametrize(("error", "cause"), FAILURES)
def test_the_operator_may_choose_a_missing_signal_instead(error: Exception, cause: str) -> None:
    notes = Notes()
    line = pipeline(failing_scorer(error, on_failure="signal_missing"), monitor=notes)
    found = inspect(line)
    assert found.findings == []
    assert found.signals == {"sample": {"failure": cause}}
    assert {one.code for one in notes.activations} == {"GUARDRAIL_UNAVAILABLE"}


def test_a_scorer_that_takes_too_long_refuses() -> None:
    found = inspect(pipeline(slow_scorer(timeout_s=0.05)))
    assert found.findings[0].evidence["cause"] == "timeout"
    assert found.findings[0].evidence["timeout"] == 0.05


@pytest.mark.parametrize(
    "scores",
    [
        CategoryScores({"fraud": 1.5}),
        CategoryScores({"fraud": float("nan")}),
        CategoryScores({"no name": 0.5}),
        CategoryScores({"failure": 0.5}),
        CategoryScores({}, frozenset({"no name"})),
        CategoryScores({"x" * 101: 0.5}),
        CategoryScores(dict.fromkeys((f"c{number}" for number in range(1001)), 0.5)),
        CategoryScores({"fraud": "high"}),  # type: ignore[dict-item]
        CategoryScores(None),  # type: ignore[arg-type]
        0.5,
    ],
)
def test_scores_that_are_none_are_a_failure(scores: Any) -> None:
    found = inspect(pipeline(SampleScorer(lambda _one: scores)))
    assert found.findings[0].evidence["cause"] == "invalid_reply"


@pytest.mark.parametrize("number", [0, 2])
def test_other_numbers_of_scores_than_texts_are_a_failure(number: int) -> None:
    class Miscounting(SampleScorer):
        def score(self, texts: Any) -> list[CategoryScores]:
            return super().score(texts) * number

    found = inspect(pipeline(Miscounting()))
    assert found.findings[0].evidence["cause"] == "invalid_reply"
    assert found.signals["sample"] == {"failure": "invalid_reply"}


def test_a_scorer_in_shadow_warns_and_its_failure_does_not_hold() -> None:
    line = pipeline(SampleScorer(), shadow_scorers=["sample"])
    assert inspect(line).findings[0].action is Action.WARN
    # A rule that reads the scores counts all the same.
    assert inspect(line).signals["sample"]["fraud"] == 0.9123
    broken = pipeline(failing_scorer(TimeoutError()), shadow_scorers=["sample"])
    assert inspect(broken).findings == []


def test_an_unknown_category_that_is_flagged_counts_as_other_content() -> None:
    scorer = SampleScorer(lambda _one: CategoryScores({"new": 0.9}, frozenset({"new"})))
    assert inspect(pipeline(scorer)).findings[0].code == "CONTENT_OTHER"


def test_scores_of_several_texts_are_the_highest_of_each() -> None:
    one = {"m": {"a": 0.1, "b": 0.9}}
    assert merge_signals(one, {"m": {"a": 0.4}, "n": {"c": 0.2}}) == {
        "m": {"a": 0.4, "b": 0.9},
        "n": {"c": 0.2},
    }


def test_a_failure_on_one_text_is_not_covered_by_scores_of_another() -> None:
    scored, failed = {"m": {"a": 0.1}}, {"m": {"failure": "timeout"}}
    assert merge_signals(scored, failed) == merge_signals(failed, scored) == failed


@pytest.mark.parametrize(
    ("scorers", "problem"),
    [
        ([object()], "is no scorer"),
        ([SampleScorer(name="two words")], "cannot name"),
        ([SampleScorer(), SampleScorer()], "two scorers"),
        ([SampleScorer(on_failure="open")], "on_failure"),  # type: ignore[arg-type]
        ([SampleScorer(timeout_s=0)], "timeout"),
    ],
)
def test_a_scorer_that_cannot_be_used_is_an_error(scorers: list[Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        pipeline(*scorers)


def test_the_problem_of_a_model_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    error = ScorerError("invalid_reply", "it says `no\nWARNING all is well`" + "x" * 200)
    inspect(pipeline(failing_scorer(error)))
    assert caplog.messages
    assert not any("\n" in message for message in caplog.messages)


class Durations:
    """A monitor that keeps the seconds of each guard."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = {}

    def record(self, activation: Any) -> None:
        """Ignore an activation."""

    def count_run(self, surface: str, guard: str, action: str = "") -> None:
        """Ignore a run."""

    def record_duration(self, surface: str, guard: str, seconds: float) -> None:
        """Keep the seconds of a run."""
        self.seconds[surface, guard] = seconds


def test_the_duration_of_a_local_scorer_is_its_own() -> None:
    def check(_event: Any, _config: Any) -> list[Any]:
        time.sleep(0.2)
        return []

    guard = seeing(blocking=True)
    guard.check = check  # type: ignore[method-assign,assignment]
    line = pipeline(SampleScorer(is_local=True), guards=[GuardStep(guard)])
    monitor, other = Durations(), Durations()
    line.inspect("input", SCAM, monitor=monitor)
    asyncio.run(line.ainspect("input", SCAM, monitor=other))
    place = ("input", "sample")
    assert max(monitor.seconds[place], other.seconds[place]) < 0.1
