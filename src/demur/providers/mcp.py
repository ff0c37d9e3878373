"""Read MCP messages: tool results, JSON-RPC errors and answers to elicitation.

A denial and a failure both set `isError`, so only an envelope makes a result a refusal: its
text may come from anyone. An error number refuses only if the protocol says so.
"""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system
from demur.providers.upstream import find_envelope, find_own_refusal

__all__ = ["NAME", "read"]

NAME = "mcp"
_ERRORS = ("McpError", "MCPError", "UrlElicitationRequiredError")
_ELICITATIONS = (
    "ElicitResult",
    "AcceptedElicitation",
    "DeclinedElicitation",
    "CancelledElicitation",
)
_ELICITED = frozenset({"action", "content", "data", "_meta", "meta", "resultType", "result_type"})


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an MCP message, or None."""
    if shape.has_type(*_ERRORS):
        return _read_error(shape.own["error"] or shape.own)
    message = shape.own
    if message["jsonrpc"]:
        return _read_error(message["error"]) or _read_result(message["result"])
    return _read_result(message)


def _read_result(result: Node) -> Signal | None:
    return _read_tool_result(result) or _read_elicitation(result)


def _read_tool_result(result: Node) -> Signal | None:
    # The envelope counts without `isError` too, which some servers forget.
    return find_envelope(NAME, result["structuredContent"]["refusal"])


def _read_error(error: Node) -> Signal | None:
    number = error["code"].number
    if number is None:
        return None
    found = find_own_refusal(NAME, error["data"]["refusal"], error["message"])
    if found is not None:
        return found
    if denial := error["data"]["authorization"]:
        reason = denial["reason"]
        return load_system(NAME).interpret("denial", reason.text).to_signal(reason or denial)
    judged = load_system(NAME).interpret("error_code", f"{number:.0f}")
    return judged.to_signal(error["code"]) if judged.known else None


def _read_elicitation(result: Node) -> Signal | None:
    action = result["action"]
    kind = type(result.raw).__name__
    answers = kind in _ELICITATIONS or {name for name, _ in result.fields()} <= _ELICITED
    if action.text is None or not answers:
        return None
    judged = load_system(NAME).interpret("elicitation", action.text)
    return judged.to_signal(action) if judged.known else None
