"""Read Instructor: an assertion for a refusal, and exceptions that keep the last answer.

The assertion has no type and no fields, so its message is matched, and the signal carries
a confidence.
"""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.raised import raised
from demur.providers.shape import Shape
from demur.providers.signal import Signal
from demur.providers.upstream import by_category, by_finish_reason

__all__ = ["NAME", "read"]

NAME = "instructor"
_WORDS = "Unable to generate a response due to"
_CERTAIN_ENOUGH = 0.9


def read(shape: Shape) -> Signal | None:
    """Return the refusal in an exception of Instructor, or None."""
    if shape.named("AssertionError") and shape.message.startswith(_WORDS):
        judged = system(NAME).judge("assertion", _WORDS)
        message = Node(shape.message, "message")
        return judged.signal(message, detail=shape.message, confidence=_CERTAIN_ENOUGH)
    return _last_answer(shape.own["last_completion"]) if raised(NAME, shape) else None


def _last_answer(answer: Node) -> Signal | None:
    """Return the refusal in the answer that could not be parsed, or None."""
    for choice in answer["choices"]:
        words = choice["message"]["refusal"]
        if words.text:
            return system(NAME).judge("refusal", "*").signal(words)
        return by_finish_reason(NAME, choice["finish_reason"])
    category = by_category(NAME, answer["stop_details"]["category"])
    return category or by_finish_reason(NAME, answer["stop_reason"])
