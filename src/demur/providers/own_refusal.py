"""Read a refusal of demur that comes back: an envelope, problem details, or a line.

The original refusal is read, whatever carried it.
"""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal
from demur.providers.upstream import find_own_refusal

__all__ = ["NAME", "read"]

NAME = "demur"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal of demur in the object, or None."""
    body = shape.body
    # A model's text may quote a refusal anywhere; a guard's answer begins with it.
    places = (shape.own, body, body["error"], body["error"]["data"])
    found = find_own_refusal(NAME, *places, Node(shape.message, "message"))
    return found or find_own_refusal(NAME, *_refusal_words(body), last=True)


def _refusal_words(body: Node) -> Iterator[Node]:
    """Yield the refusal texts in OpenAI's formats, never the texts of answers."""
    for choice in body["choices"]:
        yield choice["message"]["refusal"]
    for item in body["output"]:
        for part in item["content"]:
            yield part["refusal"]
