"""A refusal as the MCP denial envelope that is still a draft (SEP-2643).

`error.data.authorization` says why and what would help, in hints that a client may know
or must skip; the envelope stands beside it. The draft has no error number yet: ours is
from the range that implementations may use.
"""

from typing import Any

from demur.codes.registry import Registry
from demur.emit.envelope import from_envelope, nested_value, to_envelope
from demur.model.next_step import NextStep, next_step
from demur.model.refusal import Refusal

__all__ = ["DENIAL_ERROR_CODE", "HINT_PREFIX", "DENIAL_REASON", "from_mcp_denial", "to_mcp_denial"]

DENIAL_ERROR_CODE = -32010
HINT_PREFIX = "demur/"
DENIAL_REASON = "insufficient_authorization"


def to_mcp_denial(
    refusal: Refusal, *, request_id: int | str | None = None, registry: Registry | None = None
) -> dict[str, Any]:
    """Return the JSON-RPC response to `request_id` that denies it.

    The decision's id is the `authorizationContextId` that a retry can echo.

    Raises:
        InputError: The code allows.
    """
    authorization: dict[str, Any] = {"reason": DENIAL_REASON}
    if refusal.decision_id is not None:
        authorization["authorizationContextId"] = refusal.decision_id
    authorization["remediationHints"] = _remediation_hints(
        refusal, next_step(refusal, registry=registry)
    )
    # INVARIANT: an MCP denial keeps the whole refusal.
    data = {"authorization": authorization, "refusal": to_envelope(refusal)}
    error = {"code": DENIAL_ERROR_CODE, "message": refusal.line, "data": data}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def from_mcp_denial(data: object) -> Refusal | None:
    """Return the refusal in a JSON-RPC error, or None."""
    return from_envelope(nested_value(data, "error", "data", "refusal"))


def _remediation_hints(refusal: Refusal, step: NextStep) -> list[dict[str, Any]]:
    """Return the next step as a hint of demur's own type, and an appeal URL as another."""
    hint: dict[str, Any] = {
        "type": f"{HINT_PREFIX}{step.advice}",
        "retry": step.retry,
        "description": step.sentence,
    }
    if step.wait is not None:
        hint["retryAfter"] = step.wait
    if step.ask is not None:
        hint["ask"] = str(step.ask)
    if step.needs:
        hint["needs"] = list(step.needs)
    url = refusal.evidence.get("appeal_url")
    is_address = isinstance(url, str) and url.startswith("https://")
    return [hint, {"type": "url", "url": url}] if is_address else [hint]
