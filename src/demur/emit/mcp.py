"""A refusal as the result of an MCP tool call.

The line is for the model, the envelope in `structuredContent` for the host. Only the
envelope is read back: text in a tool's result may be anyone's.
"""

from typing import Any

from demur.emit.envelope import from_envelope, nested_value, to_envelope
from demur.model.refusal import Refusal

__all__ = ["from_mcp", "to_mcp"]


def to_mcp(refusal: Refusal) -> dict[str, Any]:
    """Return a `CallToolResult` that refuses.

    Raises:
        InputError: The code allows.
    """
    # INVARIANT: an MCP tool result keeps the whole refusal.
    return {
        "content": [{"type": "text", "text": refusal.line}],
        "structuredContent": {"refusal": to_envelope(refusal)},
        "isError": True,
    }


def from_mcp(data: object) -> Refusal | None:
    """Return the refusal in a tool result that is marked as an error, or None."""
    if nested_value(data, "isError") is not True:
        return None
    return from_envelope(nested_value(data, "structuredContent", "refusal"))
