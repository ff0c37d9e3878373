"""What the provider behind a framework said, where the framework still passes it on.

Frameworks fold the reasons of many providers into one or two words, and differ in how.
Most keep the provider's own word somewhere beside it; that word decides here, by the
mapping of the provider it came from.
"""

from typing import Any

from demur.providers.mapping import Judged, looks_like_policy, system
from demur.providers.node import ABSENT, Node
from demur.providers.shape import shape_of
from demur.providers.signal import Outcome, Signal, strongest

__all__ = [
    "by_block_reason",
    "by_category",
    "by_error_behind",
    "by_filter_results",
    "by_finish_reason",
    "by_moderation",
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
_REFINED = frozenset({"CONTENT_OTHER", "FILTERED_UNSPECIFIED"})


def by_finish_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of a provider's finish reason, refined by the ratings that blocked."""
    if node.text is None:
        return None
    for name, field in _FINISH_REASONS:
        judged = system(name).judge(field, node.text)
        if judged.known:
            return _refined(_signal(via, judged, node), via, ratings)
    if not looks_like_policy(node.text):
        return None
    judged = system("openai_compatible").judge("other_finish_reason", node.text)
    return _refined(_signal(via, judged, node, name=via), via, ratings)


def by_block_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of Gemini's block reason for a prompt, or None."""
    if node.text is None:
        return None
    return _refined(
        _signal(via, system("gemini").judge("block_reason", node.text), node), via, ratings
    )


def by_category(via: str, node: Node, **more: Any) -> Signal | None:
    """Return the meaning of Anthropic's refusal category, or None."""
    if node.text is None:
        return None
    return _signal(via, system("anthropic").judge("category", node.text), node, **more)


def by_filter_results(via: str, results: Node) -> Signal | None:
    """Return the strictest category that Azure's filter acted on, not one it only detected."""
    azure = system("azure_openai")
    acted = ((name, found) for name, found in results.fields() if found["filtered"].true)
    return strongest(
        _signal(via, azure.judge("category", name), found, evidence={"category": name})
        for name, found in acted
    )


def by_error_behind(via: str, own: Node) -> Signal | None:
    """Return the Azure filter result in the client error behind an exception, or None."""
    for name in ("inner_exception", "__cause__", "__context__"):
        raw = own[name].raw
        if isinstance(raw, BaseException):
            inner = shape_of(raw).body["error"]["innererror"]
            if found := by_filter_results(via, inner["content_filter_result"]):
                return found
    return None


def by_moderation(via: str, result: Node, **more: Any) -> Signal | None:
    """Return the strictest category that OpenAI's moderation flagged, as a refusal.

    Only for callers that know that a request was blocked: a flag alone blocks nothing.
    """
    flagged = [name for name, found in result["categories"].fields() if found.true]
    field = system("openai")["moderation_category"]
    spelled = {_squashed(value.value): value.value for value in field.values}
    more = {"native": {"flagged": flagged}, "outcome": Outcome.REFUSAL, **more}
    judged = (field.judge(spelled.get(_squashed(name), name)) for name in flagged)
    return strongest(_signal(via, one, result, **more) for one in judged if one.code)


def _squashed(name: str) -> str:
    """Return a category's name as its field in Python: `self-harm/intent` is `self_harm_intent`."""
    return name.replace("/", "_").replace("-", "_")


def _refined(signal: Signal, via: str, ratings: Node) -> Signal:
    """Return the signal; a vague one gets the code of the strictest rating that blocked."""
    if signal.outcome is not Outcome.REFUSAL or signal.code not in _REFINED:
        return signal
    gemini = system("gemini")
    blocked = (rating for rating in ratings if rating["blocked"].true)
    closer = strongest(
        _signal(via, gemini.judge("rating", rating["category"].text), rating["category"])
        for rating in blocked
    )
    if closer is None or closer.code in _REFINED:
        return signal
    return signal._replace(code=closer.code, refusal_class=closer.refusal_class)


def _signal(via: str, judged: Judged, node: Node, **more: Any) -> Signal:
    evidence = {"via": via, **more.pop("evidence", {})}
    return judged.signal(node, evidence=evidence, **more)
