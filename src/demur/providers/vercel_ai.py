"""Read the Vercel AI SDK: `content-filter`, and the raw reason that newer versions keep.

Older versions have lost the category of an Anthropic refusal by then.
"""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal
from demur.providers.upstream import by_block_reason, by_category, by_finish_reason

__all__ = ["NAME", "read"]

NAME = "vercel_ai"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a result or in the part that finishes a stream, or None."""
    own = shape.own
    reason = own["finishReason"]
    unified = reason["unified"] or reason
    judged = system(NAME).judge("finish_reason", unified.text)
    # The hyphen is this SDK's own: others write the same word with an underscore.
    if unified.text is None or "-" not in unified.text or judged.code is None:
        return None
    return _closer(own, reason) or judged.signal(unified)


def _closer(own: Node, reason: Node) -> Signal | None:
    """Return what the provider itself said, or None if that is lost."""
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
