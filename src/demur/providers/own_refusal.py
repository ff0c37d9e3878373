"""Read a refusal of demur that comes back: an envelope, problem details, or a line.

The original refusal is read, whatever carried it.
"""

from collections.abc import Iterator

from demur.providers.carried import carried
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal

__all__ = ["NAME", "read"]

NAME = "demur"


def read(shape: Shape) -> Signal | None:
    """Return the refusal of demur in the object, or None."""
    body = shape.body
    # A model's text may quote a refusal anywhere; a guard's answer begins with it.
    places = (shape.own, body, body["error"], body["error"]["data"])
    found = carried(NAME, *places, Node(shape.message, "message"))
    return found or carried(NAME, *_in_answers(body), last=True)


def _in_answers(body: Node) -> Iterator[Node]:
    """Yield the refusal texts in OpenAI's formats, never the texts of answers."""
    for choice in body["choices"]:
        yield choice["message"]["refusal"]
    for item in body["output"]:
        for part in item["content"]:
            yield part["refusal"]
