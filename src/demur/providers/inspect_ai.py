"""Read Inspect: the output of a model, its stop reason and its stop details.

Inspect turns an unknown stop reason into `unknown`, which may hide a refusal. The output
has no other trace of it, so none is reported.
"""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest
from demur.providers.upstream import by_category

__all__ = ["NAME", "read"]

NAME = "inspect_ai"
_GEMINI = "HARM_CATEGORY_"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a model's output, or None."""
    return strongest(_choice(choice) for choice in shape.own["choices"] if choice["stop_reason"])


def _choice(choice: Node) -> Signal | None:
    reason = choice["stop_reason"]
    judged = system(NAME).judge("stop_reason", reason.text)
    if judged.code is None:
        return None
    details = choice["stop_details"]
    named = [details["category"], *(one["category"] for one in details["categories"])]
    return strongest(_category(node) for node in named if node) or judged.signal(reason)


def _category(node: Node) -> Signal | None:
    """Return the meaning of a category; Inspect passes on those of any provider."""
    if (node.text or "").startswith(_GEMINI):
        return system("gemini").judge("rating", node.text).signal(node, evidence={"via": NAME})
    azure = system("azure_openai").judge("category", node.text)
    if azure.known:
        return azure.signal(node, evidence={"via": NAME})
    return by_category(NAME, node)
