"""Read the Vercel AI SDK: `content-filter`, and the raw reason that newer versions keep.

Older versions drop the category of an Anthropic refusal.
"""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal
from demur.providers.upstream import by_block_reason, by_category, by_finish_reason

__all__ = ["NAME", "read"]

NAME = "vercel_ai"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a result or in the last part of a stream, or None."""
    own = shape.own
    reason = own["finishReason"]
    unified = reason["unified"] or reason
    judged = system(NAME).judge("finish_reason", unified.text)
    # Only this SDK writes the reason with a hyphen.
    if unified.text is None or "-" not in unified.text or judged.code is None:
        return None
    return _closer(own, reason) or judged.signal(unified)


def _closer(own: Node, reason: Node) -> Signal | None:
    """Return the signal of the provider's own reason, or None if it was dropped."""
    metadata = own["providerMetadata"]
    google = metadata["google"] or metadata["vertex"]
    feedback = google["promptFeedback"]
    anthropic = metadata["anthropic"]
    ratings = google["safetyRatings"]
    found = (
        by_block_reason(NAME, feedback["blockReason"], feedback["safetyRatings"])
        or by_category(NAME, anthropic["stopDetails"]["category"])
        or by_finish_reason(NAME, own["rawFinishReason"] or reason["raw"], ratings)
    )
    return found if found is not None and found.outcome is Outcome.REFUSAL else None
