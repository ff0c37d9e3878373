"""Errors of OpenAI, read by their code alone: the message is for people."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import ProviderSystem, Signal, SignalOutcome, load_system

__all__ = ["NAME", "read", "read_error"]

NAME = "openai"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error body or error object."""
    error = shape.body["error"]
    if not error.present and shape.has_type("SessionTurnError", "ResponseError"):
        error = shape.body
    if error["metadata"].present or error["details"].present:
        # An error of a router or another provider, which has its own reader.
        return None
    return read_error(error, load_system(NAME), listed=shape.failed)


def read_error(error: Node, known: ProviderSystem, *, listed: bool = False) -> Signal | None:
    """Return the signal of an `error` object, refined by the kind of stopped action.

    Errors of other servers look the same: if only `listed` codes count, later readers get
    the rest.
    """
    kind = error["misalignment"]["error_type"]
    for word in (error["code"], error["type"]):
        judged = known.interpret("error_code", word.text)
        if judged.outcome is not SignalOutcome.REFUSAL or (listed and not judged.known):
            continue
        evidence = {"native_reason": word.text, "message": error["message"].text}
        if error["misalignment"].present:
            return _misalignment_signal(error["misalignment"], kind, known, evidence)
        return judged.to_signal(word, evidence=evidence)
    return None


def _misalignment_signal(
    details: Node, kind: Node, known: ProviderSystem, evidence: dict[str, str | None]
) -> Signal:
    judged = known.interpret("misalignment", kind.text)
    if not judged.known:
        judged = known.interpret("misalignment", "other")
    said = {
        "kind": kind.text,
        "review_target": details["review_target"].text,
        "steer": details["steer"]["message"].text,
    }
    words = details["detailed_explanation"].text
    return judged.to_signal(details, detail=words or "", evidence={**evidence, **said})
