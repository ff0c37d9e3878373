"""The call context of a request to an MCP server."""

from typing import Any

from demur.enforce.occasion import CallContext
from demur.integrations.mcp_proxy.naming import session_run_name

__all__ = ["context_from_request"]

# A server over stdio has one client for as long as it runs.
_STDIO_RUN = "local"
_SESSION_HEADER = "mcp-session-id"


def context_from_request(framework: str, *, token: Any, request: Any, call_id: Any) -> CallContext:
    """Return the call context: `token` authenticates the caller, `request` is the HTTP request.

    The run is the session where the transport has one, else the authenticated client, and over
    stdio the process. An HTTP request without these has no run, so loops are not detected.
    """
    subject = None
    if token is not None:
        who = token.subject or token.client_id
        kind = "user" if token.subject else "client"
        subject = {"id": who, "type": kind, "roles": list(token.scopes)}
    run: str | None = _STDIO_RUN
    if request is not None:
        session = request.headers.get(_SESSION_HEADER)
        run = session_run_name(session) if session else None if subject is None else subject["id"]
    return CallContext(
        framework=framework,
        run=run,
        call_id=None if call_id is None else str(call_id),
        subject=subject,
    )
