"""Anthropic's Messages: refusals with status 200, hand-overs to another model, and errors."""

from collections.abc import Iterator

from demur.providers.mapping import System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "anthropic"
# A known phrase in a typed error is still free text.
_WORDS_CONFIDENCE = 0.9


def read(shape: Shape) -> Signal | None:
    """Return the signal of a message, its delta or an error."""
    known = system(NAME)
    body = shape.body
    message = body["message"] if body["type"].text == "message_start" else body
    signals = [_stopped(place, known) for place in (message, body["delta"])]
    handed = list(_handed_over(message, known))
    return strongest([*signals, *handed, *_errors(shape, known)])


def _stopped(message: Node, known: System) -> Signal | None:
    reason = message["stop_reason"]
    if reason.text is None:
        return None
    judged = known.judge("stop_reason", reason.text)
    if judged.outcome is not Outcome.REFUSAL:
        return judged.signal(reason)
    details = message["stop_details"]
    category = details["category"]
    evidence = {
        "native_reason": reason.text,
        "category": category.text,
        "explanation": details["explanation"].text,
        "recommended_model": details["recommended_model"].text,
    }
    if category.text:
        judged = known.judge("category", category.text)
    return judged.signal(
        details if details.present else reason,
        detail=_said(reason.text, category.text),
        evidence=_present(evidence),
    )


def _handed_over(message: Node, known: System) -> Iterator[Signal]:
    """Yield a refusal for each model that declined before another one answered."""
    refused = message["stop_reason"].text == "refusal"
    for block in message["content"]:
        if block["type"].text != "fallback":
            continue
        trigger = block["trigger"]
        category = trigger["category"].text
        judged = known.judge("category", category) if category else None
        judged = judged or known.judge("fallback", trigger["type"].text or "refusal")
        gave_up = block["from"]["model"].text or block["from_"]["model"].text
        served = block["to"]["model"].text or message["model"].text or "another model"
        yield judged.signal(
            block,
            detail=_said("refusal", category),
            evidence=_present({"category": category, "model": gave_up}),
            served_by=None if refused else served,
        )


def _errors(shape: Shape, known: System) -> Iterator[Signal]:
    error = shape.body["error"]
    code = error["details"]["error_code"]
    if code.text:
        details = error["details"]
        evidence = {
            "native_reason": code.text,
            "appeal_url": details["appeal_url"].text,
            "field": details["field"].text,
        }
        judged = known.judge("error_code", code.text)
        yield judged.signal(code, evidence=_present(evidence))
    words = error["message"]
    [phrase] = known["error_message"].values
    if words.text and phrase.value.casefold() in words.text.casefold():
        judged = known.judge("error_message", phrase.value)
        yield judged.signal(words, confidence=_WORDS_CONFIDENCE)


def _said(reason: str, category: str | None) -> str:
    return f"stop_reason: {reason} ({category})" if category else f"stop_reason: {reason}"


def _present(evidence: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in evidence.items() if value is not None}
