"""What holds for any model that scores, whatever it answers and however it fails."""

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.gates import CORE, opened
from support.packs import packed
from support.sample_scorers import SampleScorer, failing_scorer

from demur.audit.pack import read_pack
from demur.audit.replay import replay_pack
from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.gate.pipeline import GuardPipeline
from demur.gate.scoring import merge_signals
from demur.policy.loader import parse_policy
from demur.scorers.brought import WIRE_FORMATS, split_text
from demur.scorers.contract import CategoryScores, ScorerError, ScorerText
from demur.scorers.moderation import WireCall
from demur.scorers.settings import ModelSettings

POLICY = parse_policy("""
schema_version: policy.v1
policy_id: agent
policy_version: 1.0.0
rules:
  - id: R_TOXIC
    stage: HARD_BLOCKS
    if: {signals.guards.sample.toxic: {exists: true, gt: 0.5}}
    then: {verdict: DENY, reason_codes: [CONTENT_HARASSMENT]}
  - id: R_MAY
    stage: ALLOW_PATHS
    if: {action_type: generate}
    then: {verdict: ALLOW}
""")
TEXT = ScorerText("some words")
names = st.sampled_from(["fraud", "toxic", "new"])
scores = st.builds(
    CategoryScores,
    st.dictionaries(names, st.floats(0, 1)),
    st.frozensets(names),
)
causes = st.sampled_from(["failure", "timeout", "unreachable", "invalid_reply", "over_budget"])
errors = st.one_of(
    st.builds(ScorerError, causes, st.text(max_size=20)),
    st.sampled_from([TimeoutError(), ValueError("x"), RecursionError(), SystemError()]),
)
nonsense: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(),
    st.builds(CategoryScores, st.dictionaries(st.text(), st.floats(), min_size=1)),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3)
    ),
    max_leaves=12,
)


def enforcer(gate: Any, scorer: SampleScorer) -> Enforcer:
    return Enforcer(gate, pipeline=GuardPipeline([], scorers=[scorer], registry=CORE))


@given(errors, st.sampled_from(["check_prompt", "check_answer"]), st.booleans())
def test_a_model_that_fails_allows_nothing_by_default(
    error: Exception, check: str, is_local: bool
) -> None:
    # INVARIANT: a model that fails allows nothing, unless the operator chose missing signals.
    one = enforcer(None, failing_scorer(error, is_local=is_local))
    assert not getattr(one, check)("good morning").allowed
    assert not asyncio.run(getattr(one, f"a{check}")("good morning")).allowed
    with opened(POLICY) as gate:
        result = getattr(enforcer(gate, failing_scorer(error)), check)("good morning")
        assert not result.allowed
        assert result.unjudged


@given(nonsense)
def test_scores_that_are_none_allow_nothing(found: Any) -> None:
    scorer = SampleScorer(lambda _one: found, is_local=True)
    valid = isinstance(found, CategoryScores) and all(
        0 <= value <= 1 and name.isidentifier() for name, value in found.scores.items()
    )
    assert valid or not enforcer(None, scorer).check_prompt("good morning").allowed


@given(scores)
def test_a_replay_asks_no_model_and_decides_the_same(found: CategoryScores) -> None:
    # INVARIANT: a replay asks no model: it decides by the recorded scores.
    scorer = SampleScorer(lambda _one: found)
    with opened(POLICY) as gate:
        result = enforcer(gate, scorer).check_prompt("good morning")
        assert result.record is not None
        raw = packed(gate, result.record)
    calls = len(scorer.texts)
    assert replay_pack(read_pack(raw)).same
    assert len(scorer.texts) == calls == 1


@given(scores, scores)
def test_merged_signals_are_at_least_as_high_and_keep_each_failure(
    one: CategoryScores, other: CategoryScores
) -> None:
    first, second = {"m": dict(one.scores)}, {"m": dict(other.scores)}
    merged = merge_signals(first, second)
    for part in (first, second):
        for name, value in part["m"].items():
            assert float(merged["m"][name]) >= value
    failed = {"m": {"failure": "timeout"}}
    assert merge_signals(first, failed)["m"] == merge_signals(failed, first)["m"] == failed["m"]


@given(st.text(max_size=3000), st.integers(200, 1000))
def test_each_character_of_a_long_text_is_scored(text: str, limit: int) -> None:
    # INVARIANT: each character of a text is scored, however long the text is.
    parts = [part.text for part in split_text(ScorerText(text), limit)]
    assert all(len(part) <= limit for part in parts)
    covered, position = 0, 0
    for part in parts:
        position = text.index(part, max(0, covered - limit)) if part else 0
        assert position <= covered
        covered = max(covered, position + len(part))
    assert covered == len(text)


@given(st.sampled_from(sorted(WIRE_FORMATS)), json_values, st.sampled_from(["", "harm"]))
def test_a_reply_of_any_shape_is_scores_or_an_error(kind: Any, reply: Any, category: str) -> None:
    settings = ModelSettings(
        kind=kind, reply_json={"a": "b"}, reply_regex={"c": "d"}, reply_valid="x"
    )
    call = WireCall("/", {}, (TEXT,), category)
    try:
        found = list(WIRE_FORMATS[kind].parse(settings, call, reply))
    except (ScorerError, AttributeError, TypeError, KeyError):
        return
    # What is read as scores came from a reply that has a verdict.
    assert isinstance(reply, dict)
    assert all(isinstance(one, CategoryScores) for one in found)


@given(st.text(max_size=60), st.sampled_from(Surface))
def test_each_kind_sends_the_whole_text(text: str, surface: Surface) -> None:
    one = ScorerText(text, None, surface)
    for kind, wire in WIRE_FORMATS.items():
        settings = ModelSettings(kind=kind, prompt="p", template="t")  # type: ignore[arg-type]
        for call in wire.build(settings, [one]):
            assert text in str(call.body) or repr(text)[1:-1] in str(call.body) or "<" in text


TEMPLATE_MARKS = (
    *(
        "<|eot_id|>",
        "<|start_header_id|>",
        "<|im_end|>",
        "<|turn>",
        "<turn|>",
        "<\uff5cUser\uff5c>",
    ),
    *("[/INST]", "<<SYS>>", "</s>", "<end_of_turn>", "<END CONVERSATION>", "</think>", "<score>"),
)
GUARD_MODELS = ("llama_guard", "shieldgemma", "granite_guardian", "qwen3guard", "openai_compatible")
OWN_PROMPT = "Judge the text between the marks.\n<<<\n{text}\n>>>\n### Verdict"


@given(
    st.lists(
        st.sampled_from((*TEMPLATE_MARKS, ">>>", "### ", "safe", "|", "<", ">", " ")), max_size=9
    ),
    st.sampled_from((Surface.INPUT, Surface.OUTPUT)),
)
def test_no_text_holds_a_mark_of_a_template(pieces: list[str], surface: Surface) -> None:
    # INVARIANT: no text that is scored ends its turn in the template of a model.
    text = "".join(pieces)
    for kind in GUARD_MODELS:
        settings = ModelSettings(kind=kind, prompt=OWN_PROMPT)  # type: ignore[arg-type]
        # What stands around a text holds marks itself.
        [empty, *_] = map(str, read_bodies(settings, ScorerText("", "", surface)))
        for body in map(str, read_bodies(settings, ScorerText(text, text, surface))):
            counts = {mark: body.count(mark) - empty.count(mark) for mark in TEMPLATE_MARKS}
            assert not any(counts.values()), counts
            own = (">>>", "###") if kind == "openai_compatible" else ()
            assert all(body.count(mark) == 1 for mark in own)
            assert text.replace(" ", "") in body.replace(" ", "")


def read_bodies(settings: ModelSettings, one: ScorerText) -> list[str]:
    calls = WIRE_FORMATS[settings.kind].build(settings, [one])
    return ["\n".join(read_words(call.body)) for call in calls]


def read_words(body: Mapping[str, Any]) -> list[str]:
    """Return what a model reads of a request."""
    return [body["prompt"]] if "prompt" in body else [one["content"] for one in body["messages"]]
