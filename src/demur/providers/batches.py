"""Lines of batches: the response of a request among many, as providers write it to a file."""

from collections.abc import Mapping
from typing import Any

from demur.providers.node import Node

__all__ = ["read_batch_line"]

_BATCH_KEYS = ("custom_id", "key", "recordId", "request")


def read_batch_line(line: Node) -> Any:
    """Return the response or error in a batch line, or None if it is not a batch line."""
    if not any(line[name].present for name in _BATCH_KEYS):
        return None
    response, result = line["response"], line["result"]
    if response["status_code"].number is not None and response["body"].present:
        return response["status_code"].raw, response["body"].raw
    if result["message"].present:
        return result["message"].raw
    for failed in (result["error"], line["error"]):
        if isinstance(failed.raw, Mapping):
            return failed.raw if failed["error"].present else {"error": failed.raw}
    return next((one.raw for one in (response, line["modelOutput"]) if one.present), None)
