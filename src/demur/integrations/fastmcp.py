"""Guard a FastMCP server: one middleware for tools, resources and prompts.

A tool call is decided before the tool runs. Its result is checked before it leaves, and so are
resources and prompts. Lists are not filtered: a tool that is never allowed stays listed, and its
calls are refused.

All text is checked, also that of failures, URIs and `_meta`. Valid pictures, sound and binary
data pass. So do questions to the client; the call that brings the answer is decided again.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, Unpack, cast

from demur.enforce.changes import TextChanges
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.integrations._kit import AdapterOptions, ContextSource, missing_extra
from demur.integrations._kit.model_api import change_model
from demur.integrations._mcp_server import (
    FrameworkForm,
    HardRefusal,
    MCPServerGuard,
    context_from_request,
    refusal_result,
    returned_texts,
    to_wire,
)
from demur.integrations.mcp_proxy.content import readable_content

try:
    from fastmcp.server.dependencies import get_access_token, get_http_request
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult
except ImportError as error:
    raise missing_extra("fastmcp") from error

__all__ = ["FastMCPGuard", "request_context"]

_FRAMEWORK = "fastmcp"


class FastMCPGuard(Middleware):
    """Middleware for `FastMCP(middleware=[...])`; put it last, next to the tools.

    A soft or workflow refusal is the result of the call, marked as an error: the model reads it
    and may continue. A hard refusal is a protocol error, because a retry by the model would not
    help; with `hard="result"` it is a result, too, for hosts that hide errors from the model.
    Resources and prompts cannot carry a refusal, so there it is always an error. `context` is
    a call context, or a function of the request; the guard fills in missing fields. `on_finding`
    (for calls and their results), `mode` and `tools` are those of all adapters.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        hard: HardRefusal = "error",
        context: ContextSource | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        form = FrameworkForm(
            context_for=request_context,
            returned_content=_returned_content,
            content_texts=_content_texts,
            refusal_result=_refusal_result,
            error=MCPError,
            with_arguments=_with_arguments,
            change_result=_change_result,
        )
        self._guard = MCPServerGuard(enforcer, form, hard=hard, context=context, **options)

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        """Return the tool's result, or the refusal in its place.

        Raises:
            MCPError: The call was refused for good.
        """
        name, arguments = context.message.name, context.message.arguments or {}
        return cast("ToolResult", await self._guard.guard_call(name, arguments, context, call_next))

    async def on_read_resource(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the resource.

        Raises:
            MCPError: Its content was refused.
        """
        return await self._guard.guard_read("resources/read", context, call_next)

    async def on_get_prompt(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the prompt.

        Raises:
            MCPError: Its content was refused.
        """
        return await self._guard.guard_read("prompts/get", context, call_next)


def request_context(context: MiddlewareContext[Any]) -> CallContext:
    """Return the call context of a request, as far as the server knows it."""
    called = context.fastmcp_context
    is_known = called is not None and called.request_context is not None
    try:
        # Not `Context.session_id`: under the stateless protocol each request has a new one.
        request: Any = get_http_request()
    except RuntimeError:
        request = None
    return context_from_request(
        _FRAMEWORK,
        token=get_access_token(),
        request=request,
        call_id=called.request_id if is_known and called is not None else None,
    )


def _returned_content(result: Any) -> Any:
    """Return a tool's output; None for a question to the client, or a task."""
    if not isinstance(result, ToolResult) or isinstance(result, InputRequiredToolResult):
        return None
    wire = result.to_mcp_result()
    if isinstance(wire, CallToolResult):
        return returned_texts(to_wire(wire))
    blocks = [to_wire(block) for block in result.content]
    return returned_texts({"content": blocks, "structuredContent": result.structured_content})


def _content_texts(result: Any) -> list[Any]:
    contents = getattr(result, "contents", None) or ()
    messages = getattr(result, "messages", None) or ()
    return readable_content(
        {
            # The URI is the client's own, so it is not checked.
            "contents": [to_wire(one.to_mcp_resource_contents("")) for one in contents],
            "messages": [to_wire(one.to_mcp_prompt_message()) for one in messages],
            "description": getattr(result, "description", None),
            "_meta": getattr(result, "meta", None),
        }
    )


def _refusal_result(result: CheckResult, _context: MiddlewareContext[Any]) -> ToolResult:
    meta = refusal_result(result)["_meta"]
    return ToolResult(content=result.model_message, meta=meta, is_error=True)


def _with_arguments(
    context: MiddlewareContext[Any], arguments: Mapping[str, Any]
) -> MiddlewareContext[Any]:
    message = context.message.model_copy(update={"arguments": dict(arguments)})
    return context.copy(message=message)


def _change_result(result: ToolResult, changes: TextChanges) -> ToolResult:
    changed = copy(result)
    changed.content = [change_model(block, changes) for block in result.content]
    changed.structured_content = changes.apply(result.structured_content)
    return changed
