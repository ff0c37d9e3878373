"""Our own model as a scorer: what it may do, and that it can be left out."""

from types import SimpleNamespace
from typing import Any

import pytest
from support.gates import CORE

from demur.gate import pipeline as pipeline_module
from demur.gate.guard_pipeline import build_pipeline
from demur.gate.guard_settings import read_guard_settings
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.scorers.learned import LearnedScorer

THRESHOLDS = {"harm": 0.9, "injection": 0.5, "planted": 0.5}
WARN_THRESHOLDS = {"injection": 0.3, "planted": 0.3}
FAMILIES = ("harm_cyber", "harm_self_harm", "harm_new")


def scorer(**scores: float) -> LearnedScorer:
    whole = {**dict.fromkeys((*THRESHOLDS, *FAMILIES), 0.1), **scores}
    return LearnedScorer(*[model(score=lambda _text: whole)] * 2)


def model(score: Any, digest: str = "sha256:m", thresholds: Any = THRESHOLDS) -> Any:
    return SimpleNamespace(
        digest=digest, thresholds=thresholds, warn_thresholds=WARN_THRESHOLDS, score=score
    )


def findings(surface: str, **scores: float) -> list[tuple[str, str]]:
    line = GuardPipeline([], scorers=[scorer(**scores)], registry=CORE)
    return [(one.code, str(one.action)) for one in line.run(surface, "some words")]


def test_injection_escalates_in_prompts_alone() -> None:
    assert findings("input", injection=0.5) == [("CONTEXT_INJECTION", "escalate")]
    assert findings("input", injection=0.29) == []
    assert findings("tool_result", injection=0.9) == []


def test_a_lower_score_of_injection_warns() -> None:
    assert findings("input", injection=0.3) == [("CONTEXT_INJECTION", "warn")]
    assert findings("tool_result", planted=0.3) == [("CONTEXT_INJECTION", "warn")]
    assert findings("tool_result", injection=0.3) == []


@pytest.mark.parametrize("surface", ["tool_result", "retrieval"])
def test_planted_instructions_escalate_in_what_comes_back(surface: str) -> None:
    assert findings(surface, planted=0.9) == [("CONTEXT_INJECTION", "escalate")]
    assert findings("input", planted=0.9) == []


def test_harm_warns_and_never_holds() -> None:
    assert findings("input", harm=0.99, harm_cyber=0.3) == [("CONTENT_CYBER", "warn")]
    assert findings("input", harm=0.8, harm_cyber=0.99) == []
    assert findings("tool_result", harm=0.99) == []


@pytest.mark.parametrize("family", ["harm_self_harm", "harm_new"])
def test_a_family_whose_code_would_hold_is_other_content(family: str) -> None:
    # A code with obligations holds even as a warning.
    assert CORE["CONTENT_SELF_HARM"].obligations
    assert findings("input", harm=0.99, **{family: 0.5}) == [("CONTENT_OTHER", "warn")]


def test_it_runs_by_default_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "load_learned_scorers", lambda: (scorer(),))

    def names(line: GuardPipeline) -> list[str]:
        return [one.name for one in line.scorers]

    assert names(standard_pipeline()) == ["learned"]
    assert standard_pipeline().surfaces == ("input", "output")
    assert names(standard_pipeline(learned=False)) == []
    off: Any = read_guard_settings({"learned": False}, "guards")
    assert names(build_pipeline(off, "input", registry=CORE)) == []
    on = read_guard_settings({}, "guards")
    assert names(build_pipeline(on, "input", registry=CORE)) == ["learned"]
    inspected = build_pipeline(on, "input", registry=CORE).inspect("input", "hello")
    assert inspected.models["learned"].digest == scorer().digest


def test_a_long_document_is_scored_everywhere() -> None:
    order = "the order"

    def score(text: str) -> dict[str, float]:
        # Each window warns by itself.
        return dict.fromkeys(THRESHOLDS, 0.9 if order in text else 0.3)

    documents = model(score)
    line = GuardPipeline([], scorers=[LearnedScorer(documents, documents)], registry=CORE)
    plain = "x" * 20_000
    for place in range(0, 20_001, 1000):
        document = f"{plain[:place]}{order}{plain[place:]}"
        assert [one.action for one in line.run("tool_result", document)] == ["escalate"]
    assert [one.action for one in line.run("tool_result", plain)] == ["warn"]


def test_a_change_of_either_model_changes_the_digest() -> None:
    one, other = (model(lambda _text: {}, digest, {}) for digest in "ab")
    assert len({LearnedScorer(*pair).digest for pair in ((one, one), (one, other))}) == 2
