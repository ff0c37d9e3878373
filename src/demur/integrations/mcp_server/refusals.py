"""Refusals in MCP: the result of a call, or an error."""

from typing import Any

from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.ruling import CheckResult

__all__ = ["refusal_error", "refusal_result"]


def refusal_result(result: CheckResult) -> dict[str, Any]:
    """Return the result of a refused call: words for the model, the envelope as data."""
    assert result.refusal is not None
    return {**to_mcp(result.refusal), "content": [{"type": "text", "text": result.model_message}]}


def refusal_error(result: CheckResult) -> tuple[int, str, Any]:
    """Return code, message and data of the error for a refusal; the data holds the envelope."""
    assert result.refusal is not None
    denial = to_mcp_denial(result.refusal)["error"]
    return denial["code"], denial["message"], denial["data"]
