"""Read Instructor: an assertion for a refusal, and exceptions that keep the last answer.

The assertion has no type and no fields, so its message is matched, and the signal carries
a confidence.
"""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system
from demur.providers.upstream import match_exception, read_category, read_finish_reason

__all__ = ["NAME", "read"]

NAME = "instructor"
_ASSERTION_PREFIX = "Unable to generate a response due to"
_WORDS_CONFIDENCE = 0.9


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an exception of Instructor, or None."""
    if shape.has_type("AssertionError") and shape.message.startswith(_ASSERTION_PREFIX):
        judged = load_system(NAME).interpret("assertion", _ASSERTION_PREFIX)
        message = Node(shape.message, "message")
        return judged.to_signal(message, detail=shape.message, confidence=_WORDS_CONFIDENCE)
    return _read_last_answer(shape.own["last_completion"]) if match_exception(NAME, shape) else None


def _read_last_answer(answer: Node) -> Signal | None:
    """Return the refusal in the answer that could not be parsed, or None."""
    for choice in answer["choices"]:
        words = choice["message"]["refusal"]
        if words.text:
            return load_system(NAME).interpret("refusal", "*").to_signal(words)
        return read_finish_reason(NAME, choice["finish_reason"])
    category = read_category(NAME, answer["stop_details"]["category"])
    return category or read_finish_reason(NAME, answer["stop_reason"])
