"""Read LangChain: messages with refusal blocks, exceptions, and human decisions.

LangChain makes refusal blocks from only some provider reasons, so the message metadata is
read as well. Two of its exceptions contain the flagged content, even personal data. That
is left out, and the evidence says so.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system, strongest_signal
from demur.providers.upstream import (
    ListedException,
    drop_missing,
    find_envelope,
    find_own_refusal,
    match_exception,
    read_block_reason,
    read_category,
    read_finish_reason,
    read_moderation,
)

__all__ = ["NAME", "read"]

NAME = "langchain"
_MESSAGES = ("AIMessage", "AIMessageChunk")
_VAGUE = frozenset({"FILTERED_UNSPECIFIED", "MODEL_DECLINED"})
_STAGES = {"input": Surface.INPUT, "output": Surface.OUTPUT, "tool": Surface.TOOL_RESULT}


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a message, exception or decision of LangChain, or None."""
    error = match_exception(NAME, shape)
    if error is not None:
        return _read_exception(error)
    own = shape.own
    if shape.has_type(*_MESSAGES) or own["response_metadata"]:
        return read_message(own)
    return _read_tool_message(own) or _read_rejections(own)


def read_message(said: Node) -> Signal | None:
    """Return the refusal in a message of a model, or None."""
    metadata = said["response_metadata"]
    feedback = metadata["prompt_feedback"]
    prompt = read_block_reason(NAME, feedback["block_reason"], feedback["safety_ratings"])
    ratings = metadata["safety_ratings"]
    reason = metadata["finish_reason"] or metadata["stop_reason"] or metadata["stopReason"]
    ended = read_category(NAME, metadata["stop_details"]["category"])
    ended = ended or read_finish_reason(NAME, reason, ratings)
    blocked = _read_blocks(said)
    return strongest_signal(
        (
            prompt,
            _unless_vague(ended),
            _unless_vague(blocked),
            ended,
            blocked,
            _read_refusal_text(said),
        )
    )


def _unless_vague(signal: Signal | None) -> Signal | None:
    """Return the signal unless its code is vague."""
    return None if signal is None or signal.code in _VAGUE else signal


def _read_blocks(said: Node) -> Signal | None:
    return strongest_signal(
        _read_block(block) for block in said["content"] if block["type"].text == "refusal"
    )


def _read_block(block: Node) -> Signal | None:
    extras = block["extras"]
    found = (
        read_block_reason(NAME, extras["block_reason"], extras["safety_ratings"])
        or read_category(NAME, extras["category"])
        or read_finish_reason(NAME, extras["finish_reason"], extras["safety_ratings"])
    )
    if found is not None and found.outcome is SignalOutcome.REFUSAL:
        return found
    line = find_own_refusal(NAME, block["refusal"], last=True)
    return line or load_system(NAME).interpret("refusal_block", "refusal").to_signal(block)


def _read_refusal_text(said: Node) -> Signal | None:
    """Return the refusal in OpenAI's `refusal` text, or None."""
    words = said["additional_kwargs"]["refusal"]
    if not words.text:
        return None
    return find_own_refusal(NAME, words, last=True) or load_system(NAME).interpret(
        "refusal_text", "*"
    ).to_signal(words)


def _read_exception(error: ListedException) -> Signal | None:
    own = error.shape.own
    if error.kind == "PIIDetectionError":
        found = sum(1 for _ in own["matches"])
        said = {"entity": own["pii_type"].text, "count": found, "left_out": ["matches"]}
        return error.to_signal(
            own["pii_type"], evidence=drop_missing(said), detail=str(own["pii_type"].text)
        )
    if error.kind == "OpenAIModerationError":
        return _read_moderation_error(error)
    # Another framework has an exception of the same name, with the text in `refusal`.
    if error.kind == "ModelRefusalError" and own["refusal"].text and not own["raw_message"]:
        return None
    behind = read_message(own["raw_message"])
    return behind if behind is not None and behind.must_report else error.to_signal()


def _read_moderation_error(error: ListedException) -> Signal:
    own = error.shape.own
    stage = own["stage"].text
    more: dict[str, Any] = {
        "surface": _STAGES.get(stage or ""),
        "detail": f"flagged by moderation: {stage}",
    }
    evidence = drop_missing({"stage": stage, "left_out": ["content"]})
    found = read_moderation(NAME, own["result"], evidence=evidence, **more)
    return found or error.to_signal(evidence=evidence, **more)


def _read_tool_message(own: Node) -> Signal | None:
    """Return the refusal that replaces a tool's result, or None."""
    if own["tool_call_id"].text is None or own["status"].text != "error":
        return None
    return find_envelope(NAME, own["artifact"], own["content"])


def _read_rejections(own: Node) -> Signal | None:
    """Return the refusal of a human who was asked to approve tool calls, or None."""
    answers = [own, *own["decisions"]]
    return strongest_signal(_read_decision(answer) for answer in answers)


def _read_decision(answer: Node) -> Signal | None:
    kind = answer["type"]
    if kind.text != "reject" or {name for name, _ in answer.fields()} - {"type", "message"}:
        return None
    words = answer["message"]
    line = find_own_refusal(NAME, words, last=True)
    return line or load_system(NAME).interpret("decision", "reject").to_signal(
        kind, detail=words.text or ""
    )
