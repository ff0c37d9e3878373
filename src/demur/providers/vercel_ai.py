"""Read the Vercel AI SDK: `content-filter`, and the raw reason that newer versions keep.

Older versions drop the category of an Anthropic refusal.
"""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system
from demur.providers.upstream import read_block_reason, read_category, read_finish_reason

__all__ = ["NAME", "read"]

NAME = "vercel_ai"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a result or in the last part of a stream, or None."""
    own = shape.own
    reason = own["finishReason"]
    unified = reason["unified"] or reason
    judged = load_system(NAME).interpret("finish_reason", unified.text)
    # Only this SDK writes the reason with a hyphen.
    if unified.text is None or "-" not in unified.text or judged.code is None:
        return None
    return _read_provider_reason(own, reason) or judged.to_signal(unified)


def _read_provider_reason(own: Node, reason: Node) -> Signal | None:
    """Return the signal of the provider's own reason, or None if it was dropped."""
    metadata = own["providerMetadata"]
    google = metadata["google"] or metadata["vertex"]
    feedback = google["promptFeedback"]
    anthropic = metadata["anthropic"]
    ratings = google["safetyRatings"]
    found = (
        read_block_reason(NAME, feedback["blockReason"], feedback["safetyRatings"])
        or read_category(NAME, anthropic["stopDetails"]["category"])
        or read_finish_reason(NAME, own["rawFinishReason"] or reason["raw"], ratings)
    )
    return found if found is not None and found.outcome is SignalOutcome.REFUSAL else None
