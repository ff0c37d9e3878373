"""Read MCP messages: tool results, JSON-RPC errors and answers to elicitation.

A denial and a failure both set `isError`, so only an envelope makes a result a refusal: its
text may come from anyone. An error number refuses only if the protocol says so.
"""

from demur.providers.carried import carried, enveloped
from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal

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


def read(shape: Shape) -> Signal | None:
    """Return the refusal in an MCP message, or None."""
    if shape.named(*_ERRORS):
        return _error(shape.own["error"] or shape.own)
    message = shape.own
    if message["jsonrpc"]:
        return _error(message["error"]) or _result(message["result"])
    return _result(message)


def _result(result: Node) -> Signal | None:
    return _tool_result(result) or _elicited(result)


def _tool_result(result: Node) -> Signal | None:
    # The envelope counts without `isError` too, which some servers forget.
    return enveloped(NAME, result["structuredContent"]["refusal"])


def _error(error: Node) -> Signal | None:
    number = error["code"].number
    if number is None:
        return None
    found = carried(NAME, error["data"]["refusal"], error["message"])
    if found is not None:
        return found
    if denial := error["data"]["authorization"]:
        reason = denial["reason"]
        return system(NAME).judge("denial", reason.text).signal(reason or denial)
    judged = system(NAME).judge("error_code", f"{number:.0f}")
    return judged.signal(error["code"]) if judged.known else None


def _elicited(result: Node) -> Signal | None:
    action = result["action"]
    kind = type(result.raw).__name__
    answers = kind in _ELICITATIONS or {name for name, _ in result.fields()} <= _ELICITED
    if action.text is None or not answers:
        return None
    judged = system(NAME).judge("elicitation", action.text)
    return judged.signal(action) if judged.known else None
