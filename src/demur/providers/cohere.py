"""Cohere: a finish reason for toxic content in its older API; the newer API has none."""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest

__all__ = ["NAME", "read"]

NAME = "cohere"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a chat or generate answer, or of the last event of a stream."""
    body = shape.body
    places = [body, body["response"], body["delta"], *body["generations"]]
    return strongest(_finished(place["finish_reason"]) for place in places)


def _finished(reason: Node) -> Signal | None:
    # Only Cohere writes the values of this field in capitals.
    if reason.text is None or not reason.text.isupper():
        return None
    return system(NAME).judge("finish_reason", reason.text).signal(reason)
