"""Anthropic's Messages: refusals with status 200, hand-overs to another model, and errors."""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    ProviderSystem,
    Signal,
    SignalOutcome,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "anthropic"
# A known phrase in a typed error is still free text.
_WORDS_CONFIDENCE = 0.9


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a message, its delta or an error."""
    known = load_system(NAME)
    body = shape.body
    message = body["message"] if body["type"].text == "message_start" else body
    signals = [_read_stop_reason(place, known) for place in (message, body["delta"])]
    handed = list(_read_fallbacks(message, known))
    return strongest_signal([*signals, *handed, *_read_errors(shape, known)])


def _read_stop_reason(message: Node, known: ProviderSystem) -> Signal | None:
    reason = message["stop_reason"]
    if reason.text is None:
        return None
    judged = known.interpret("stop_reason", reason.text)
    if judged.outcome is not SignalOutcome.REFUSAL:
        return judged.to_signal(reason)
    details = message["stop_details"]
    category = details["category"]
    evidence = {
        "native_reason": reason.text,
        "category": category.text,
        "explanation": details["explanation"].text,
        "recommended_model": details["recommended_model"].text,
    }
    if category.text:
        judged = known.interpret("category", category.text)
    return judged.to_signal(
        details if details.present else reason,
        detail=_stop_detail(reason.text, category.text),
        evidence=_drop_absent(evidence),
    )


def _read_fallbacks(message: Node, known: ProviderSystem) -> Iterator[Signal]:
    """Yield a refusal for each model that declined before another one answered."""
    refused = message["stop_reason"].text == "refusal"
    for block in message["content"]:
        if block["type"].text != "fallback":
            continue
        trigger = block["trigger"]
        category = trigger["category"].text
        judged = known.interpret("category", category) if category else None
        judged = judged or known.interpret("fallback", trigger["type"].text or "refusal")
        gave_up = block["from"]["model"].text or block["from_"]["model"].text
        served = block["to"]["model"].text or message["model"].text or "another model"
        yield judged.to_signal(
            block,
            detail=_stop_detail("refusal", category),
            evidence=_drop_absent({"category": category, "model": gave_up}),
            served_by=None if refused else served,
        )


def _read_errors(shape: ResponseShape, known: ProviderSystem) -> Iterator[Signal]:
    error = shape.body["error"]
    code = error["details"]["error_code"]
    if code.text:
        details = error["details"]
        evidence = {
            "native_reason": code.text,
            "appeal_url": details["appeal_url"].text,
            "field": details["field"].text,
        }
        judged = known.interpret("error_code", code.text)
        yield judged.to_signal(code, evidence=_drop_absent(evidence))
    words = error["message"]
    [phrase] = known["error_message"].values
    if words.text and phrase.value.casefold() in words.text.casefold():
        judged = known.interpret("error_message", phrase.value)
        yield judged.to_signal(words, confidence=_WORDS_CONFIDENCE)


def _stop_detail(reason: str, category: str | None) -> str:
    return f"stop_reason: {reason} ({category})" if category else f"stop_reason: {reason}"


def _drop_absent(evidence: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in evidence.items() if value is not None}
