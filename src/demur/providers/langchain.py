"""Read LangChain: messages with refusal blocks, exceptions, and human decisions.

LangChain makes refusal blocks from only some provider reasons, so the message metadata is
read as well. Two of its exceptions contain the flagged content, even personal data. That
is left out, and the evidence says so.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried, enveloped
from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.raised import Raised, raised, stated
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest
from demur.providers.upstream import by_block_reason, by_category, by_finish_reason, by_moderation

__all__ = ["NAME", "read"]

NAME = "langchain"
_MESSAGES = ("AIMessage", "AIMessageChunk")
_VAGUE = frozenset({"FILTERED_UNSPECIFIED", "MODEL_DECLINED"})
_STAGES = {"input": Surface.INPUT, "output": Surface.OUTPUT, "tool": Surface.TOOL_RESULT}


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a message, exception or decision of LangChain, or None."""
    error = raised(NAME, shape)
    if error is not None:
        return _raised(error)
    own = shape.own
    if shape.named(*_MESSAGES) or own["response_metadata"]:
        return message(own)
    return _tool_message(own) or _rejected(own)


def message(said: Node) -> Signal | None:
    """Return the refusal in a message of a model, or None."""
    metadata = said["response_metadata"]
    feedback = metadata["prompt_feedback"]
    prompt = by_block_reason(NAME, feedback["block_reason"], feedback["safety_ratings"])
    ratings = metadata["safety_ratings"]
    reason = metadata["finish_reason"] or metadata["stop_reason"] or metadata["stopReason"]
    ended = by_category(NAME, metadata["stop_details"]["category"])
    ended = ended or by_finish_reason(NAME, reason, ratings)
    blocked = _blocks(said)
    return strongest((prompt, _specific(ended), _specific(blocked), ended, blocked, _text(said)))


def _specific(signal: Signal | None) -> Signal | None:
    """Return the signal unless its code is vague."""
    return None if signal is None or signal.code in _VAGUE else signal


def _blocks(said: Node) -> Signal | None:
    return strongest(_block(block) for block in said["content"] if block["type"].text == "refusal")


def _block(block: Node) -> Signal | None:
    extras = block["extras"]
    found = (
        by_block_reason(NAME, extras["block_reason"], extras["safety_ratings"])
        or by_category(NAME, extras["category"])
        or by_finish_reason(NAME, extras["finish_reason"], extras["safety_ratings"])
    )
    if found is not None and found.outcome is Outcome.REFUSAL:
        return found
    line = carried(NAME, block["refusal"], last=True)
    return line or system(NAME).judge("refusal_block", "refusal").signal(block)


def _text(said: Node) -> Signal | None:
    """Return the refusal in OpenAI's `refusal` text, or None."""
    words = said["additional_kwargs"]["refusal"]
    if not words.text:
        return None
    return carried(NAME, words, last=True) or system(NAME).judge("refusal_text", "*").signal(words)


def _raised(error: Raised) -> Signal | None:
    own = error.shape.own
    if error.kind == "PIIDetectionError":
        found = sum(1 for _ in own["matches"])
        said = {"entity": own["pii_type"].text, "count": found, "left_out": ["matches"]}
        return error.signal(
            own["pii_type"], evidence=stated(said), detail=str(own["pii_type"].text)
        )
    if error.kind == "OpenAIModerationError":
        return _moderated(error)
    # Another framework has an exception of the same name, with the text in `refusal`.
    if error.kind == "ModelRefusalError" and own["refusal"].text and not own["raw_message"]:
        return None
    behind = message(own["raw_message"])
    return behind if behind is not None and behind.tells else error.signal()


def _moderated(error: Raised) -> Signal:
    own = error.shape.own
    stage = own["stage"].text
    more: dict[str, Any] = {
        "surface": _STAGES.get(stage or ""),
        "detail": f"flagged by moderation: {stage}",
    }
    evidence = stated({"stage": stage, "left_out": ["content"]})
    found = by_moderation(NAME, own["result"], evidence=evidence, **more)
    return found or error.signal(evidence=evidence, **more)


def _tool_message(own: Node) -> Signal | None:
    """Return the refusal that replaces a tool's result, or None."""
    if own["tool_call_id"].text is None or own["status"].text != "error":
        return None
    return enveloped(NAME, own["artifact"], own["content"])


def _rejected(own: Node) -> Signal | None:
    """Return the refusal of a human who was asked to approve tool calls, or None."""
    answers = [own, *own["decisions"]]
    return strongest(_decision(answer) for answer in answers)


def _decision(answer: Node) -> Signal | None:
    kind = answer["type"]
    if kind.text != "reject" or {name for name, _ in answer.fields()} - {"type", "message"}:
        return None
    words = answer["message"]
    line = carried(NAME, words, last=True)
    return line or system(NAME).judge("decision", "reject").signal(kind, detail=words.text or "")
