"""Errors of OpenAI, read by their code alone: the message is for people."""

from demur.providers.mapping import System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal

__all__ = ["NAME", "explained", "read"]

NAME = "openai"


def read(shape: Shape) -> Signal | None:
    """Return the signal of an error body or error object."""
    error = shape.body["error"]
    if not error.present and shape.named("SessionTurnError", "ResponseError"):
        error = shape.body
    if error["metadata"].present or error["details"].present:
        # An error of a router or another provider, which has its own reader.
        return None
    return explained(error, system(NAME), listed=shape.failed)


def explained(error: Node, known: System, *, listed: bool = False) -> Signal | None:
    """Return the signal of an `error` object, refined by the kind of stopped action.

    Errors of other servers look the same: if only `listed` codes count, later readers get
    the rest.
    """
    kind = error["misalignment"]["error_type"]
    for word in (error["code"], error["type"]):
        judged = known.judge("error_code", word.text)
        if judged.outcome is not Outcome.REFUSAL or (listed and not judged.known):
            continue
        evidence = {"native_reason": word.text, "message": error["message"].text}
        if error["misalignment"].present:
            return _misaligned(error["misalignment"], kind, known, evidence)
        return judged.signal(word, evidence=evidence)
    return None


def _misaligned(
    details: Node, kind: Node, known: System, evidence: dict[str, str | None]
) -> Signal:
    judged = known.judge("misalignment", kind.text)
    if not judged.known:
        judged = known.judge("misalignment", "other")
    said = {
        "kind": kind.text,
        "review_target": details["review_target"].text,
        "steer": details["steer"]["message"].text,
    }
    words = details["detailed_explanation"].text
    return judged.signal(details, detail=words or "", evidence={**evidence, **said})
