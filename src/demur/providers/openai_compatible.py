"""Errors of servers with OpenAI's format and error codes of their own."""

from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system

__all__ = ["NAME", "read"]

NAME = "openai_compatible"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error code of a known server."""
    for place in (shape.body["error"], shape.body):
        code = place["code"]
        judged = load_system(NAME).interpret("inspection_error", code.text)
        if code.text and judged.known:
            return judged.to_signal(code, evidence={"native_reason": code.text})
    return None
