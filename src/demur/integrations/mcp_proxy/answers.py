"""Refusals as answers to requests: a result that says so, or a JSON-RPC error."""

from typing import Any

from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.ruling import CheckResult
from demur.integrations.mcp_proxy.message import result_response
from demur.integrations.mcp_proxy.open_requests import OpenRequest

__all__ = ["TOOL_CALL_METHOD", "refusal_response"]

TOOL_CALL_METHOD = "tools/call"
# Requests of newer clients name their version, and expect results with a `resultType`.
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def refusal_response(
    request: OpenRequest, check_result: CheckResult, *, hard_as_error: bool = False
) -> dict[str, Any]:
    """Return the response to a refused request; `hard_as_error` turns hard ones into errors.

    Only the result of an immediate tool call can carry a refusal.
    """
    assert check_result.refusal is not None
    as_error = check_result.is_hard and hard_as_error
    if as_error or request.method != TOOL_CALL_METHOD or "task" in request.params:
        return to_mcp_denial(check_result.refusal, request_id=request.request_id)
    result = to_mcp(check_result.refusal)
    result["content"] = [{"type": "text", "text": check_result.model_message}]
    meta = request.params.get("_meta")
    if isinstance(meta, dict) and _VERSION_KEY in meta:
        result["resultType"] = "complete"
    return result_response(request.request_id, result)
