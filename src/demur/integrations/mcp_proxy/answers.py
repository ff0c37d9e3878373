"""Refusals as answers to requests: a result that says so, or a JSON-RPC error."""

from typing import Any

from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.ruling import Ruling
from demur.integrations.mcp_proxy.message import result_to
from demur.integrations.mcp_proxy.open_requests import Asked

__all__ = ["CALL", "refusal_to"]

CALL = "tools/call"
# Requests of newer clients name their version, and expect results with a `resultType`.
_VERSION = "io.modelcontextprotocol/protocolVersion"


def refusal_to(asked: Asked, ruling: Ruling, *, hard_as_error: bool = False) -> dict[str, Any]:
    """Return the response to a refused request; `hard_as_error` turns hard ones into errors.

    Only the result of an immediate tool call can carry a refusal.
    """
    assert ruling.refusal is not None
    as_error = ruling.is_hard and hard_as_error
    if as_error or asked.method != CALL or "task" in asked.params:
        return to_mcp_denial(ruling.refusal, request_id=asked.identity)
    result = to_mcp(ruling.refusal)
    result["content"] = [{"type": "text", "text": ruling.message}]
    meta = asked.params.get("_meta")
    if isinstance(meta, dict) and _VERSION in meta:
        result["resultType"] = "complete"
    return result_to(asked.identity, result)
