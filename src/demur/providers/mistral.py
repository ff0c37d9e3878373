"""Mistral: a guardrail blocks with HTTP 403, and so may a guardrail that failed."""

import re

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system, strongest_signal

__all__ = ["NAME", "read"]

NAME = "mistral"
_BLOCKED = 403
_FAULT = re.compile(r"unavailable|time_?d?_?out|internal|serv(?:er|ice)_error|failure")
# A request may fail a guardrail, or a guardrail may fail; only then nothing was judged.
_FAULT_WORDS = re.compile(
    r"unavailable|timed? ?out|block_on_error|(?:service|server|internal) (?:error|failure)"
    r"|(?:guardrails?|moderation)(?: \w+){0,2} (?:failed|failure|errored|crashed)"
    r"|(?:could not|cannot|unable to|failed to) (?:be )?(?:run|reach|load|call|respond|start)",
    re.IGNORECASE,
)


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a 403, or of guardrail results in an answer."""
    known = load_system(NAME)
    error = shape.body["error"] if shape.body["error"].present else shape.body
    signals = [_read_guardrail(result, shape) for result in _find_guardrails(shape.body, error)]
    decided = strongest_signal(signals)
    if decided is not None or not _is_block(shape, error):
        return decided
    broke = _is_fault(error)
    judged = known.interpret("status", "403 without a verdict" if broke else "403")
    evidence = {"native_reason": error["type"].text, "message": error["message"].text}
    # Final: to other readers, a guardrail's failure looks like a block.
    return judged.to_signal(
        error, path="HTTP status", native=_BLOCKED, evidence=evidence, settles=True
    )


def _find_guardrails(body: Node, error: Node) -> list[Node]:
    return [result for place in (body, error, error["detail"]) for result in place["guardrails"]]


def _read_guardrail(guardrail: Node, shape: ResponseShape) -> Signal | None:
    """Return the signal of one guardrail, by its action or because the request failed."""
    known = load_system(NAME)
    for name in ("moderation_llm_v2", "moderation_llm_v1"):
        found = guardrail[name] if guardrail[name].present else guardrail
        action = found["action"]
        judged = known.interpret("action", action.text or ("block" if shape.failed else "none"))
        hit = [word for word, flagged in found["categories"].fields() if flagged.is_true]
        if not action.present and not hit:
            continue
        if hit and judged.outcome is SignalOutcome.REFUSAL:
            judged = known.interpret("category", hit[0])
        return judged.to_signal(found, evidence={"categories": hit})
    return None


def _is_block(shape: ResponseShape, error: Node) -> bool:
    """Return whether a 403 comes from a guardrail: others are about keys and permissions."""
    if shape.status != _BLOCKED:
        return False
    ours = shape.package == "mistralai" or error["object"].text == "error"
    words = " ".join(filter(None, (error[name].text for name in ("type", "code", "message"))))
    return ours and any(word in words.casefold() for word in ("guardrail", "moderation"))


def _is_fault(error: Node) -> bool:
    """Return whether the guardrail itself failed, by typed fields and then by the message."""
    typed = " ".join(filter(None, (error[name].text for name in ("type", "code"))))
    if _FAULT.search(typed):
        return True
    words = error["message"].text or ""
    # A message that names a category means that the guardrail did judge.
    named = any(
        _names_category(words, value.value) for value in load_system(NAME)["category"].values
    )
    return not named and _FAULT_WORDS.search(words) is not None


def _names_category(words: str, category: str) -> bool:
    spelled = category.replace("_", "[ _]")
    return re.search(rf"[:(\['`]\s*{spelled}\b", words, re.IGNORECASE) is not None
