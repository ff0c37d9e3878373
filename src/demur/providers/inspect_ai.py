"""Read Inspect: the output of a model, its stop reason and its stop details.

Inspect turns an unknown stop reason into `unknown`, which may hide a refusal. The output
has no other trace of it, so none is reported.
"""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import read_category

__all__ = ["NAME", "read"]

NAME = "inspect_ai"
_GEMINI = "HARM_CATEGORY_"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a model's output, or None."""
    return strongest_signal(
        _read_choice(choice) for choice in shape.own["choices"] if choice["stop_reason"]
    )


def _read_choice(choice: Node) -> Signal | None:
    reason = choice["stop_reason"]
    judged = load_system(NAME).interpret("stop_reason", reason.text)
    if judged.code is None:
        return None
    details = choice["stop_details"]
    named = [details["category"], *(one["category"] for one in details["categories"])]
    return strongest_signal(_read_category(node) for node in named if node) or judged.to_signal(
        reason
    )


def _read_category(node: Node) -> Signal | None:
    """Return the meaning of a category; Inspect passes on those of any provider."""
    if (node.text or "").startswith(_GEMINI):
        return (
            load_system("gemini")
            .interpret("rating", node.text)
            .to_signal(node, evidence={"via": NAME})
        )
    azure = load_system("azure_openai").interpret("category", node.text)
    if azure.known:
        return azure.to_signal(node, evidence={"via": NAME})
    return read_category(NAME, node)
