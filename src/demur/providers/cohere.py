"""Cohere: a finish reason for toxic content in its older API; the newer API has none."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system, strongest_signal

__all__ = ["NAME", "read"]

NAME = "cohere"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a chat or generate answer, or of the last event of a stream."""
    body = shape.body
    places = [body, body["response"], body["delta"], *body["generations"]]
    return strongest_signal(_read_finish_reason(place["finish_reason"]) for place in places)


def _read_finish_reason(reason: Node) -> Signal | None:
    # Only Cohere writes the values of this field in capitals.
    if reason.text is None or not reason.text.isupper():
        return None
    return load_system(NAME).interpret("finish_reason", reason.text).to_signal(reason)
