"""Read LiteLLM: its exceptions, and the provider's native finish reason.

LiteLLM turns nineteen native reasons into `content_filter` and unknown ones into `stop`, so
the native reason decides if the answer still has it. `blocked_content = False` on a
guardrail's exception means that the guardrail failed, not that it refused.
"""

from typing import Any

from demur.providers.carried import carried
from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.raised import Raised, raised, stated
from demur.providers.shape import Shape, shaped
from demur.providers.signal import Signal, strongest
from demur.providers.upstream import by_error_behind, by_filter_results, by_finish_reason

__all__ = ["NAME", "read"]

NAME = "litellm"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in an answer or exception of LiteLLM, or None."""
    error = raised(NAME, shape)
    if error is not None:
        return _raised(error)
    choices = [*shape.body["choices"]]
    signals = [_choice(choice, shape.body) for choice in choices]
    found = strongest(signals)
    if found is None:
        return None
    kept = [
        choice.raw if said is None else shaped(choice, "finish_reason")
        for choice, said in zip(choices, signals, strict=True)
    ]
    return found._replace(leaves=_rest(shape, kept))


def _rest(shape: Shape, kept: list[Any]) -> Shape:
    """Return the answer without the finish reasons whose native reason was read."""
    body = shape.body.beside({**shaped(shape.body), "choices": kept})
    return shape._replace(own=body, body=body)


def _raised(error: Raised) -> Signal | None:
    own = error.shape.own
    if error.kind == "GuardrailRaisedException":
        return _guardrail(error)
    if error.kind == "BlockedPiiEntityError":
        entity = own["entity_type"]
        said = {"guard": own["guardrail_name"].text, "entity": entity.text}
        return error.signal(entity, evidence=stated(said))
    said = {"provider": own["llm_provider"].text}
    return _passed_on(own, error.shape.body) or error.signal(evidence=stated(said))


def _guardrail(error: Raised) -> Signal:
    own = error.shape.own
    evidence = stated({"guard": own["guardrail_name"].text})
    # The class prefixes the message of the guardrail.
    said = own.beside(error.shape.message.partition(", Message: ")[2], "message")
    if line := carried(NAME, said, evidence=evidence):
        return line
    blocked = own["blocked_content"]
    # Versions without the field raise this exception only for blocks.
    if blocked.raw is not False:
        return error.signal(evidence=evidence)
    judged = system(NAME).judge("blocked_content", "false")
    return judged.signal(blocked, detail=error.shape.message, evidence=evidence, settles=True)


def _passed_on(own: Node, body: Node) -> Signal | None:
    """Return the Azure filter result on the exception or its cause, or None."""
    for place in (own["provider_specific_fields"], body["error"]):
        for name in ("content_filter_result", "content_filter_results"):
            results = place["innererror"][name] or place[name]
            if found := by_filter_results(NAME, results):
                return found
    return by_error_behind(NAME, own)


def _choice(choice: Node, answer: Node) -> Signal | None:
    native = choice["provider_specific_fields"]["native_finish_reason"]
    if native:
        return by_finish_reason(NAME, native, _ratings(answer))
    # Without it, only the ratings explain why Gemini filtered an answer.
    filtered = choice["finish_reason"].text == "content_filter"
    ratings = _ratings(answer)
    return (
        by_finish_reason(NAME, choice["finish_reason"], ratings) if filtered and ratings else None
    )


def _ratings(answer: Node) -> Node:
    """Return the ratings of the first candidate; each candidate has its own list."""
    kept = answer["vertex_ai_safety_results"]
    first = next(iter(kept), kept)
    return first if isinstance(first.raw, list) else kept
