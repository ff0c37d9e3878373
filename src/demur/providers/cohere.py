"""Cohere: one finish reason of its older API tells of toxic content; the newer has none."""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest

__all__ = ["NAME", "read"]

NAME = "cohere"


def read(shape: Shape) -> Signal | None:
    """Return what an answer of chat or generate says, or the last event of a stream."""
    body = shape.body
    places = [body, body["response"], body["delta"], *body["generations"]]
    return strongest(_finished(place["finish_reason"]) for place in places)


def _finished(reason: Node) -> Signal | None:
    # Cohere shouts; other systems with a field of this name do not.
    if reason.text is None or not reason.text.isupper():
        return None
    return system(NAME).judge("finish_reason", reason.text).signal(reason)
