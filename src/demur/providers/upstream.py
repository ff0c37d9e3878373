"""What the provider behind a framework said, where the framework still passes it on.

Frameworks fold the reasons of many providers into one or two words, and differ in how.
Most keep the provider's own word somewhere beside it; that word decides here, by the
mapping of the provider it came from.
"""

from typing import Any

from demur.providers.mapping import Interpretation, looks_like_policy, load_system
from demur.providers.node import ABSENT, Node
from demur.providers.shape import shape_of
from demur.providers.signal import SignalOutcome, Signal, strongest_signal

__all__ = [
    "read_block_reason",
    "read_category",
    "read_error_behind",
    "read_filter_results",
    "read_finish_reason",
    "read_moderation",
]

# A framework rarely names the provider of a finish reason. No reason has different meanings
# for two providers.
_FINISH_REASONS = (
    ("gemini", "finish_reason"),
    ("anthropic", "stop_reason"),
    ("bedrock", "stop_reason"),
    ("openai", "finish_reason"),
    ("cohere", "finish_reason"),
    ("openai_compatible", "zhipu_finish_reason"),
)
_VAGUE_CODES = frozenset({"CONTENT_OTHER", "FILTERED_UNSPECIFIED"})


def read_finish_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of a provider's finish reason, refined by the ratings that blocked."""
    if node.text is None:
        return None
    for name, field in _FINISH_REASONS:
        judged = load_system(name).interpret(field, node.text)
        if judged.known:
            return _refine_by_ratings(_upstream_signal(via, judged, node), via, ratings)
    if not looks_like_policy(node.text):
        return None
    judged = load_system("openai_compatible").interpret("other_finish_reason", node.text)
    return _refine_by_ratings(_upstream_signal(via, judged, node, name=via), via, ratings)


def read_block_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of Gemini's block reason for a prompt, or None."""
    if node.text is None:
        return None
    return _refine_by_ratings(
        _upstream_signal(via, load_system("gemini").interpret("block_reason", node.text), node),
        via,
        ratings,
    )


def read_category(via: str, node: Node, **more: Any) -> Signal | None:
    """Return the meaning of Anthropic's refusal category, or None."""
    if node.text is None:
        return None
    return _upstream_signal(
        via, load_system("anthropic").interpret("category", node.text), node, **more
    )


def read_filter_results(via: str, results: Node) -> Signal | None:
    """Return the strictest category that Azure's filter acted on, not one it only detected."""
    azure = load_system("azure_openai")
    acted = ((name, found) for name, found in results.fields() if found["filtered"].is_true)
    return strongest_signal(
        _upstream_signal(via, azure.interpret("category", name), found, evidence={"category": name})
        for name, found in acted
    )


def read_error_behind(via: str, own: Node) -> Signal | None:
    """Return the Azure filter result in the client error behind an exception, or None."""
    for name in ("inner_exception", "__cause__", "__context__"):
        raw = own[name].raw
        if isinstance(raw, BaseException):
            inner = shape_of(raw).body["error"]["innererror"]
            if found := read_filter_results(via, inner["content_filter_result"]):
                return found
    return None


def read_moderation(via: str, result: Node, **more: Any) -> Signal | None:
    """Return the strictest category that OpenAI's moderation flagged, as a refusal.

    Only for callers that know that a request was blocked: a flag alone blocks nothing.
    """
    flagged = [name for name, found in result["categories"].fields() if found.is_true]
    field = load_system("openai")["moderation_category"]
    spelled = {_field_spelling(value.value): value.value for value in field.values}
    more = {"native": {"flagged": flagged}, "outcome": SignalOutcome.REFUSAL, **more}
    judged = (field.interpret(spelled.get(_field_spelling(name), name)) for name in flagged)
    return strongest_signal(
        _upstream_signal(via, one, result, **more) for one in judged if one.code
    )


def _field_spelling(name: str) -> str:
    """Return a category's name as its field in Python: `self-harm/intent` is `self_harm_intent`."""
    return name.replace("/", "_").replace("-", "_")


def _refine_by_ratings(signal: Signal, via: str, ratings: Node) -> Signal:
    """Return the signal; a vague one gets the code of the strictest rating that blocked."""
    if signal.outcome is not SignalOutcome.REFUSAL or signal.code not in _VAGUE_CODES:
        return signal
    gemini = load_system("gemini")
    blocked = (rating for rating in ratings if rating["blocked"].is_true)
    closer = strongest_signal(
        _upstream_signal(
            via, gemini.interpret("rating", rating["category"].text), rating["category"]
        )
        for rating in blocked
    )
    if closer is None or closer.code in _VAGUE_CODES:
        return signal
    return signal._replace(code=closer.code, refusal_class=closer.refusal_class)


def _upstream_signal(via: str, judged: Interpretation, node: Node, **more: Any) -> Signal:
    evidence = {"via": via, **more.pop("evidence", {})}
    return judged.to_signal(node, evidence=evidence, **more)
