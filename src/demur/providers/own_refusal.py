"""Read a refusal of our own that comes back: an envelope, problem details, a line in its place.

Whatever carried it, the refusal that was made is the one that is read.
"""

from collections.abc import Iterator

from demur.providers.carried import carried
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal

__all__ = ["NAME", "read"]

NAME = "demur"


def read(shape: Shape) -> Signal | None:
    """Return the refusal that the object is or carries in the open, or None."""
    body = shape.body
    # Words of a model may quote a refusal anywhere; a guard's answer is one from its start.
    places = (shape.own, body, body["error"], body["error"]["data"])
    found = carried(NAME, *places, Node(shape.message, "message"))
    return found or carried(NAME, *_in_answers(body), last=True)


def _in_answers(body: Node) -> Iterator[Node]:
    """Yield where OpenAI's forms keep the words of a refusal, never those of an answer."""
    for choice in body["choices"]:
        yield choice["message"]["refusal"]
    for item in body["output"]:
        for part in item["content"]:
            yield part["refusal"]
