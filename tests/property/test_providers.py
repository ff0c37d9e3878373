"""Normalising: an answer for anything, and never success for a value that reads like a block."""

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from demur.model.refusal import Refusal
from demur.providers.normalization import StreamReader, normalize
from demur.providers.signals import load_system, looks_like_policy

NAMES = [
    *("choices", "message", "delta", "refusal", "finish_reason", "error", "code", "type", "status"),
    *(
        "stop_reason",
        "stop_details",
        "category",
        "content",
        "promptFeedback",
        "blockReason",
        "body",
    ),
    *("candidates", "finishReason", "safetyRatings", "blocked", "trace", "guardrail", "action"),
    *("stopReason", "assessments", "contentPolicy", "filters", "results", "categories", "output"),
    *("sanitizationResult", "filterMatchState", "filterResults", "response", "status_code", "data"),
    *(
        "content_filter_results",
        "filtered",
        "innererror",
        "hook_results",
        "model",
        "event",
        "chunk",
    ),
]
WORDS = [
    "refusal",
    "content_filter",
    "SAFETY",
    "BLOCKED",
    "guardrail_intervened",
    "deny",
    "unsafe\nS1",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(WORDS)
    | st.binary(max_size=8)
)
KEYS = st.sampled_from(NAMES) | st.text(max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


class Hostile:
    """An object whose every attribute does something else that is wrong."""

    def __init__(self, how: str) -> None:
        object.__setattr__(self, "how", how)

    def __getattribute__(self, name: str) -> Any:
        how = object.__getattribute__(self, "how")
        if how == "raise":
            raise RuntimeError(name)
        if how == "itself":
            return self
        if how == "deeper":
            return Hostile(how)
        return object.__getattribute__(self, name)

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Any:
        if object.__getattribute__(self, "how") == "raise":
            raise RuntimeError
        return iter([self] * 10)


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): as_object(item) for key, item in value.items()})
    return [as_object(item) for item in value] if isinstance(value, list) else value


def is_answer(answer: object) -> bool:
    return answer is None or (isinstance(answer, Refusal) and answer.code != "INTERNAL_ERROR")


@given(VALUES)
def test_any_value_gives_an_answer(value: Any) -> None:
    """INVARIANT: normalising any object gives an answer, never an exception."""
    assert is_answer(normalize(value))
    assert is_answer(normalize(as_object(value)))


@given(st.text() | st.binary() | VALUES.map(lambda value: json.dumps(value, default=str)))
def test_any_text_gives_an_answer(text: str | bytes) -> None:
    assert is_answer(normalize(text))


@given(st.sampled_from(["raise", "itself", "deeper", "plain"]), st.sampled_from(NAMES))
def test_hostile_objects_give_an_answer(how: str, name: str) -> None:
    assert is_answer(normalize(Hostile(how)))
    assert is_answer(normalize({name: Hostile(how)}))
    assert is_answer(normalize(SimpleNamespace(**{name: [Hostile(how)]})))


@given(st.sampled_from(NAMES), st.integers(1, 3000))
def test_deep_nesting_gives_an_answer(name: str, depth: int) -> None:
    deep: Any = {"refusal": "no"}
    for _ in range(depth):
        deep = {name: deep}
    assert is_answer(normalize(deep))
    # Text that is too deep to be read was not judged, and says so.
    text = normalize(f'{{"{name}":' * depth + "1" + "}" * depth)
    assert is_answer(text) or (text is not None and not text.decided)


@given(st.lists(VALUES, max_size=6))
def test_any_stream_gives_an_answer(events: list[Any]) -> None:
    stream = StreamReader()
    for event in events:
        assert is_answer(stream.feed(event).refusal)


@given(VALUES)
def test_the_same_value_gives_the_same_answer(value: Any) -> None:
    # Compared as text: a number that is none does not equal itself.
    assert repr(normalize(value)) == repr(normalize(value))


PLACES: dict[tuple[str, str], Any] = {
    ("openai", "finish_reason"): lambda word: {"choices": [{"finish_reason": word}]},
    ("openai", "incomplete_reason"): lambda word: {
        "object": "response",
        "incomplete_details": {"reason": word},
    },
    ("openai", "error_code"): lambda word: (400, {"error": {"code": word}}),
    ("openai", "realtime_reason"): lambda word: {"status_details": {"reason": word}},
    ("anthropic", "stop_reason"): lambda word: {"type": "message", "stop_reason": word},
    ("anthropic", "category"): lambda word: {
        "stop_reason": "refusal",
        "stop_details": {"category": word},
    },
    ("gemini", "block_reason"): lambda word: {"promptFeedback": {"blockReason": word}},
    ("gemini", "finish_reason"): lambda word: {"candidates": [{"finishReason": word}]},
    ("gemini", "turn_complete_reason"): lambda word: {
        "serverContent": {"turnCompleteReason": word}
    },
    ("bedrock", "stop_reason"): lambda word: {"stopReason": word},
    ("azure_openai", "category"): lambda word: {
        "choices": [{"content_filter_results": {word: {"filtered": True}}}]
    },
}
POLICY = st.tuples(
    st.text("abcdefgh_", min_size=1, max_size=6),
    st.sampled_from(["blocked", "filtered", "policy", "safety", "prohibited", "refused"]),
).map("_".join)


@given(st.sampled_from(sorted(PLACES)), POLICY)
def test_a_policy_looking_value_is_never_success(place: tuple[str, str], word: str) -> None:
    assert looks_like_policy(word)
    judged = load_system(place[0]).interpret(place[1], word)
    refusal = normalize(PLACES[place](word))

    assert refusal is not None
    assert refusal.code == (judged.code if judged.known else "FILTERED_UNSPECIFIED")
