"""Which refusal an exception is, by the name of its class, and what may be kept of it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.providers.mapping import Interpretation, load_system
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signal import Signal

__all__ = ["ListedException", "match_exception", "drop_missing"]


class ListedException(NamedTuple):
    """An exception listed in the mapping of a framework: its class and its meaning."""

    kind: str
    judged: Interpretation
    shape: ResponseShape

    def to_signal(self, node: Node | None = None, **more: Any) -> Signal:
        """Return the signal at `node` or at the class, with the message of the exception."""
        at = node or Node(self.kind, "exception")
        return self.judged.to_signal(at, **{"detail": self.shape.message, **more})


def match_exception(name: str, shape: ResponseShape) -> ListedException | None:
    """Return the listed exception by its nearest class, or None."""
    if not shape.failed:
        return None
    listed = load_system(name)["exception"]
    for kind in shape.types:
        judged = listed.interpret(kind)
        if judged.known:
            return ListedException(kind, judged, shape)
    return None


def drop_missing(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping without the values that are None."""
    return {name: value for name, value in said.items() if value is not None}
