"""Read Strands Agents: why an agent stopped.

Its Gemini model reports most reasons, and a blocked prompt, as `end_turn`. It keeps nothing
of the provider's answer, so such a refusal cannot be read.
"""

from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system

__all__ = ["NAME", "read"]

NAME = "strands"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an agent's result, or None."""
    own = shape.own
    if not shape.has_type("AgentResult") and not (own["metrics"] and own["message"]):
        return None
    reason = own["stop_reason"]
    judged = load_system(NAME).interpret("stop_reason", reason.text)
    return None if judged.code is None else judged.to_signal(reason)
