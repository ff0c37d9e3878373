"""Read Semantic Kernel and the Microsoft Agent Framework, which raise for filtered answers.

Some of their exceptions have the results of Azure's filter. The others have only the error
of the client as their cause.
"""

from demur.providers.raised import raised
from demur.providers.shape import Shape
from demur.providers.signal import Signal
from demur.providers.upstream import by_error_behind, by_filter_results

__all__ = ["NAME", "read"]

NAME = "microsoft_agents"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in one of their content filter exceptions, or None."""
    error = raised(NAME, shape)
    if error is None:
        return None
    own = shape.own
    found = by_filter_results(NAME, own["content_filter_result"])
    found = found or by_error_behind(NAME, own)
    return found or error.signal(own["content_filter_code"] or None)
