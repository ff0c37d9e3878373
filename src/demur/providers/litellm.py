"""Read LiteLLM: its exceptions, and the provider's native finish reason.

LiteLLM turns nineteen native reasons into `content_filter` and unknown ones into `stop`, so
the native reason decides if the answer still has it. `blocked_content = False` on a
guardrail's exception means that the guardrail failed, not that it refused.
"""

from typing import Any

from demur.providers.node import Node
from demur.providers.shape import ResponseShape, fields_without
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import (
    ListedException,
    drop_missing,
    find_own_refusal,
    match_exception,
    read_error_behind,
    read_filter_results,
    read_finish_reason,
)

__all__ = ["NAME", "read"]

NAME = "litellm"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an answer or exception of LiteLLM, or None."""
    error = match_exception(NAME, shape)
    if error is not None:
        return _read_exception(error)
    choices = [*shape.body["choices"]]
    signals = [_read_choice(choice, shape.body) for choice in choices]
    found = strongest_signal(signals)
    if found is None:
        return None
    kept = [
        choice.raw if said is None else fields_without(choice, "finish_reason")
        for choice, said in zip(choices, signals, strict=True)
    ]
    return found._replace(leaves=_without_known_reasons(shape, kept))


def _without_known_reasons(shape: ResponseShape, kept: list[Any]) -> ResponseShape:
    """Return the answer without the finish reasons whose native reason was read."""
    body = shape.body.derive({**fields_without(shape.body), "choices": kept})
    return shape._replace(own=body, body=body)


def _read_exception(error: ListedException) -> Signal | None:
    own = error.shape.own
    if error.kind == "GuardrailRaisedException":
        return _read_guardrail(error)
    if error.kind == "BlockedPiiEntityError":
        entity = own["entity_type"]
        said = {"guard": own["guardrail_name"].text, "entity": entity.text}
        return error.to_signal(entity, evidence=drop_missing(said))
    said = {"provider": own["llm_provider"].text}
    return _read_filter_behind(own, error.shape.body) or error.to_signal(
        evidence=drop_missing(said)
    )


def _read_guardrail(error: ListedException) -> Signal:
    own = error.shape.own
    evidence = drop_missing({"guard": own["guardrail_name"].text})
    # The class prefixes the message of the guardrail.
    said = own.derive(error.shape.message.partition(", Message: ")[2], "message")
    if line := find_own_refusal(NAME, said, evidence=evidence):
        return line
    blocked = own["blocked_content"]
    # Versions without the field raise this exception only for blocks.
    if blocked.raw is not False:
        return error.to_signal(evidence=evidence)
    judged = load_system(NAME).interpret("blocked_content", "false")
    return judged.to_signal(blocked, detail=error.shape.message, evidence=evidence, settles=True)


def _read_filter_behind(own: Node, body: Node) -> Signal | None:
    """Return the Azure filter result on the exception or its cause, or None."""
    for place in (own["provider_specific_fields"], body["error"]):
        for name in ("content_filter_result", "content_filter_results"):
            results = place["innererror"][name] or place[name]
            if found := read_filter_results(NAME, results):
                return found
    return read_error_behind(NAME, own)


def _read_choice(choice: Node, answer: Node) -> Signal | None:
    native = choice["provider_specific_fields"]["native_finish_reason"]
    if native:
        return read_finish_reason(NAME, native, _first_ratings(answer))
    # Without it, only the ratings explain why Gemini filtered an answer.
    filtered = choice["finish_reason"].text == "content_filter"
    ratings = _first_ratings(answer)
    return (
        read_finish_reason(NAME, choice["finish_reason"], ratings) if filtered and ratings else None
    )


def _first_ratings(answer: Node) -> Node:
    """Return the ratings of the first candidate; each candidate has its own list."""
    kept = answer["vertex_ai_safety_results"]
    first = next(iter(kept), kept)
    return first if isinstance(first.raw, list) else kept
