"""Mistral: a guardrail blocks with HTTP 403, and a guardrail that broke may do so too."""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "mistral"
_BLOCKED = 403


def read(shape: Shape) -> Signal | None:
    """Return what a 403, or the results of guardrails in an answer, say."""
    known = system(NAME)
    error = shape.body["error"] if shape.body["error"].present else shape.body
    signals = [_result(result, shape) for result in _guardrails(shape.body, error)]
    decided = strongest(signals)
    if decided is not None or not _is_block(shape, error):
        return decided
    broke = _says_it_broke(error)
    judged = known.judge("status", "403 without a verdict" if broke else "403")
    evidence = {"native_reason": error["type"].text, "message": error["message"].text}
    # It settles the matter: to anyone else, a guardrail's error reads like a block.
    return judged.signal(
        error, path="HTTP status", native=_BLOCKED, evidence=evidence, settles=True
    )


def _guardrails(body: Node, error: Node) -> list[Node]:
    return [result for place in (body, error, error["detail"]) for result in place["guardrails"]]


def _result(guardrail: Node, shape: Shape) -> Signal | None:
    """Return what one guardrail did: by its own action, or because the request failed."""
    known = system(NAME)
    for name in ("moderation_llm_v2", "moderation_llm_v1"):
        found = guardrail[name] if guardrail[name].present else guardrail
        action = found["action"]
        judged = known.judge("action", action.text or ("block" if shape.failed else "none"))
        hit = [word for word, flagged in found["categories"].fields() if flagged.true]
        if not action.present and not hit:
            continue
        if hit and judged.outcome is Outcome.REFUSAL:
            judged = known.judge("category", hit[0])
        return judged.signal(found, evidence={"categories": hit})
    return None


def _is_block(shape: Shape, error: Node) -> bool:
    """Return whether a 403 is one of a guardrail: others are about keys and rights."""
    if shape.status != _BLOCKED:
        return False
    ours = shape.package == "mistralai" or error["object"].text == "error"
    words = " ".join(filter(None, (error[name].text for name in ("type", "code", "message"))))
    return ours and any(word in words.casefold() for word in ("guardrail", "moderation"))


def _says_it_broke(error: Node) -> bool:
    words = " ".join(filter(None, (error[name].text for name in ("type", "code", "message"))))
    return any(word in words.casefold() for word in ("unavailable", "failed", "failure", "timeout"))
