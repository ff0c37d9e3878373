"""Guard a FastMCP server: one middleware for tools, resources and prompts.

A tool call is decided before the tool runs; what it returned is looked at before it leaves,
and so are resources and prompts. Lists are not touched: a tool that is never allowed stays
listed, and says so when it is called.

Whatever is text is looked at, that of failures, places and `_meta` too: pictures, sound and
binary data pass, if they are some. So does what is asked of the client midway; the call that
brings the answer is decided again.
"""

from collections.abc import Callable
from typing import Any, cast

from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.gate.gate import Gate
from demur.integrations.extras import missing_extra
from demur.integrations.mcp_server.content import read_of, returned_of, wire
from demur.integrations.mcp_server.guard import Form, Hard, ServerGuard
from demur.integrations.mcp_server.occasions import occasion_from
from demur.integrations.mcp_server.refusals import result_of

try:
    from fastmcp.server.dependencies import get_access_token, get_http_request
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult
except ImportError as error:
    raise missing_extra("fastmcp") from error

__all__ = ["FastMCPGuard", "occasion_of"]

_FRAMEWORK = "fastmcp"


class FastMCPGuard(Middleware):
    """Middleware for `FastMCP(middleware=[...])`; put it last, next to the tools.

    A soft or workflow refusal is the result of the call, marked as an error: the model reads
    it and may go on. A hard one is an error of the protocol, because nothing that a model
    could try again would help; with `hard="result"` it is a result, too, for hosts that hide
    errors from the model. Resources and prompts have no place for a refusal in their results:
    there it is always an error. `occasion` says in which run and for whom a request comes;
    what it leaves open is filled in.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        hard: Hard = "error",
        occasion: Callable[[MiddlewareContext[Any]], Occasion] | None = None,
    ) -> None:
        form = Form(occasion_of, _returned, _texts, _refused, MCPError)
        self._guard = ServerGuard(enforcer, form, hard=hard, occasion=occasion)

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        """Return what the tool returned, or the refusal in its place.

        Raises:
            MCPError: The call was refused for good.
        """
        name, arguments = context.message.name, context.message.arguments or {}
        return cast("ToolResult", await self._guard.call(name, arguments, context, call_next))

    async def on_read_resource(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the resource.

        Raises:
            MCPError: What stands in it was refused.
        """
        return await self._guard.read("resources/read", context, call_next)

    async def on_get_prompt(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the prompt.

        Raises:
            MCPError: What stands in it was refused.
        """
        return await self._guard.read("prompts/get", context, call_next)


def occasion_of(context: MiddlewareContext[Any]) -> Occasion:
    """Return in which run a request comes, and for whom, as far as the server knows."""
    called = context.fastmcp_context
    known = called is not None and called.request_context is not None
    try:
        # `Context.session_id` is no help: under the stateless protocol each request has a new one.
        request: Any = get_http_request()
    except RuntimeError:
        request = None
    return occasion_from(
        _FRAMEWORK,
        token=get_access_token(),
        request=request,
        call_id=called.request_id if known and called is not None else None,
    )


def _returned(result: Any) -> Any:
    """Return what a tool returned; not done is a question to the client, or a task."""
    if not isinstance(result, ToolResult) or isinstance(result, InputRequiredToolResult):
        return None
    said = result.to_mcp_result()
    if isinstance(said, CallToolResult):
        return returned_of(wire(said))
    blocks = [wire(block) for block in result.content]
    return returned_of({"content": blocks, "structuredContent": result.structured_content})


def _texts(result: Any) -> list[Any]:
    contents = getattr(result, "contents", None) or ()
    messages = getattr(result, "messages", None) or ()
    return read_of(
        {
            # Its place is what the client asked for.
            "contents": [wire(one.to_mcp_resource_contents("")) for one in contents],
            "messages": [wire(one.to_mcp_prompt_message()) for one in messages],
            "description": getattr(result, "description", None),
            "_meta": getattr(result, "meta", None),
        }
    )


def _refused(ruling: Ruling, _context: MiddlewareContext[Any]) -> ToolResult:
    said = result_of(ruling)
    structured = said["structuredContent"]
    return ToolResult(content=ruling.message, structured_content=structured, is_error=True)
