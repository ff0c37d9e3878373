"""Read Anthropic: Messages with status 200, hand-overs to another model, errors, agents."""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, interpret, load_system, max_signal

_ANTHROPIC = "anthropic"
# A known phrase in a typed error is still free text.
_WORDS_CONFIDENCE = 0.9


def read_anthropic(shape: ResponseShape) -> Signal | None:
    """Return the signal of a message, its delta or an error."""
    body = shape.body
    message = body["message"] if body["type"].text == "message_start" else body
    signals = [_read_stop_reason(place) for place in (message, body["delta"])]
    return max_signal([*signals, *_read_fallbacks(message), *_read_errors(shape)])


def _read_stop_reason(message: Node) -> Signal | None:
    reason = message["stop_reason"]
    if reason.text is None:
        return None
    judged = interpret(_ANTHROPIC, "stop_reason", reason.text)
    if judged.outcome is not SignalOutcome.REFUSAL:
        return judged.to_signal(reason)
    details = message["stop_details"]
    category = details["category"]
    named = ("category", "explanation", "recommended_model")
    evidence = {"native_reason": reason.text, **{name: details[name].text for name in named}}
    if category.text:
        judged = interpret(_ANTHROPIC, "category", category.text)
    return judged.to_signal(
        details if details.present else reason,
        detail=_stop_detail(reason.text, category.text),
        evidence=_drop_absent(evidence),
    )


def _read_fallbacks(message: Node) -> Iterator[Signal]:
    """Yield a refusal for each model that declined before another one answered."""
    refused = message["stop_reason"].text == "refusal"
    for block in message["content"]:
        if block["type"].text != "fallback":
            continue
        trigger = block["trigger"]
        category = trigger["category"].text
        judged = interpret(_ANTHROPIC, "category", category) if category else None
        judged = judged or interpret(_ANTHROPIC, "fallback", trigger["type"].text or "refusal")
        gave_up = block["from"]["model"].text or block["from_"]["model"].text
        served = block["to"]["model"].text or message["model"].text or "another model"
        yield judged.to_signal(
            block,
            detail=_stop_detail("refusal", category),
            evidence=_drop_absent({"category": category, "model": gave_up}),
            served_by=None if refused else served,
        )


def _read_errors(shape: ResponseShape) -> Iterator[Signal]:
    error = shape.body["error"]
    code = error["details"]["error_code"]
    if code.text:
        named = {name: error["details"][name].text for name in ("appeal_url", "field")}
        evidence = {"native_reason": code.text, **named}
        judged = interpret(_ANTHROPIC, "error_code", code.text)
        yield judged.to_signal(code, evidence=_drop_absent(evidence))
    words = error["message"]
    [phrase] = load_system(_ANTHROPIC)["error_message"].values
    if words.text and phrase.value.casefold() in words.text.casefold():
        judged = interpret(_ANTHROPIC, "error_message", phrase.value)
        yield judged.to_signal(words, confidence=_WORDS_CONFIDENCE)


def _stop_detail(reason: str, category: str | None) -> str:
    return f"stop_reason: {reason} ({category})" if category else f"stop_reason: {reason}"


def _drop_absent(evidence: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in evidence.items() if value is not None}


def read_anthropic_agents(shape: ResponseShape) -> Signal | None:
    """Return the signal of a session event about a tool call."""
    body = shape.body
    if body["type"].text == "user.tool_confirmation":
        judged = interpret(_ANTHROPIC, "confirmation", body["result"].text)
        words = body["deny_message"].text or ""
        return judged.to_signal(body["result"], detail=words, evidence=_call_evidence(body))
    for place in (body["evaluated_permission"], body["permission"], body):
        if place["type"].text == "deny" or (place is not body and place["type"].text):
            return _read_permission(place, body)
    return None


def _read_permission(permission: Node, event: Node) -> Signal | None:
    judged = interpret(_ANTHROPIC, "permission", permission["type"].text)
    reason = permission["reason_code"]
    if judged.outcome is SignalOutcome.REFUSAL and reason.text:
        exact = interpret(_ANTHROPIC, "deny_reason", reason.text)
        # The list is open: an unknown reason still denies the action.
        judged = exact if exact.known else judged
    evidence = {**_call_evidence(event), "native_reason": reason.text}
    return judged.to_signal(permission, evidence=evidence)


def _call_evidence(event: Node) -> dict[str, str]:
    found = {"tool": event["name"].text, "call": event["tool_use_id"].text or event["id"].text}
    return {key: value for key, value in found.items() if value}
