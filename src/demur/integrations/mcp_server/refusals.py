"""Refusals in MCP: the result of a call, or an error."""

from typing import Any

from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.ruling import Ruling

__all__ = ["error_of", "result_of"]


def result_of(ruling: Ruling) -> dict[str, Any]:
    """Return the result of a refused call: words for the model, the envelope as data."""
    assert ruling.refusal is not None
    return {**to_mcp(ruling.refusal), "content": [{"type": "text", "text": ruling.message}]}


def error_of(ruling: Ruling) -> tuple[int, str, Any]:
    """Return code, message and data of the error for a refusal; the data holds the envelope."""
    assert ruling.refusal is not None
    denial = to_mcp_denial(ruling.refusal)["error"]
    return denial["code"], denial["message"], denial["data"]
