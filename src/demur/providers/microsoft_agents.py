"""Read Semantic Kernel and the Microsoft Agent Framework, which raise for filtered answers.

Some of their exceptions have the results of Azure's filter. The others have only the error
of the client as their cause.
"""

from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal
from demur.providers.upstream import match_exception, read_error_behind, read_filter_results

__all__ = ["NAME", "read"]

NAME = "microsoft_agents"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in one of their content filter exceptions, or None."""
    error = match_exception(NAME, shape)
    if error is None:
        return None
    own = shape.own
    found = read_filter_results(NAME, own["content_filter_result"])
    found = found or read_error_behind(NAME, own)
    return found or error.to_signal(own["content_filter_code"] or None)
