"""OpenRouter: a 403 of its own moderation, or of a provider that refused."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system

__all__ = ["NAME", "read"]

NAME = "openai_compatible"
_BLOCKED = 403
# The flagged input is the user's text, which must not be recorded.
_HIDDEN = {"flagged_input"}


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error of the router."""
    error = shape.body["error"]
    metadata = error["metadata"]
    if not metadata.present:
        return None
    known = load_system(NAME)
    for word in (error["type"], metadata["error_type"], error["code"]):
        judged = known.interpret("openrouter_error", word.text)
        if word.text and judged.outcome is SignalOutcome.REFUSAL:
            return _router_signal(judged.code, word, metadata)
    # The older format has only a 403 and reasons.
    if metadata["reasons"].present and _BLOCKED in {shape.status, error["code"].number}:
        return _router_signal("CONTENT_OTHER", error["code"], metadata)
    return None


def _router_signal(code: str | None, word: Node, metadata: Node) -> Signal:
    known = load_system(NAME)
    judged = known.interpret("openrouter_error", "content_policy_violation")
    if code == "MODEL_DECLINED":
        judged = known.interpret("openrouter_error", "refusal")
    reasons = [reason.text for reason in metadata["reasons"] if reason.text]
    narrow = [known.interpret("openrouter_reason", reason) for reason in reasons]
    exact = next((one for one in narrow if one.known), None)
    if exact is not None:
        judged = judged._replace(code=exact.code, refusal_class=exact.refusal_class)
    kept = {name: part.raw for name, part in metadata.fields() if name not in _HIDDEN}
    evidence = {
        "categories": reasons,
        "provider": metadata["provider_name"].text,
        "model": metadata["model_slug"].text,
    }
    return judged.to_signal(word, native={"code": word.raw, "metadata": kept}, evidence=evidence)
