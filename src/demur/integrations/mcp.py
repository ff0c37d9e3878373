"""Guard an MCP server that uses the Python SDK: one middleware for `MCPServer`.

A tool call is decided before the tool runs, by the arguments as received. Its result is checked
before it leaves, and so are resources and prompts. `tools/list` is not filtered: a tool that is
never allowed stays listed, and its calls are refused.

All text is checked, also that of failures, URIs and `_meta`. Valid pictures, sound and binary
data pass. So do questions of a tool to the client (`input_required`); the call that brings the
answer is decided like any other.
"""

from collections.abc import Mapping
from dataclasses import replace
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
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise missing_extra("mcp") from error

__all__ = ["MCPGuard", "request_context"]

_FRAMEWORK = "mcp"
_READ_METHODS = frozenset({"resources/read", "prompts/get"})


class MCPGuard:
    """Middleware for `MCPServer(middleware=[...])`; put it last, next to the tools.

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

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message of the client.

        Raises:
            MCPError: The message was refused, and its result cannot carry a refusal.
        """
        params = ctx.params or {}
        name: Any = params.get("name")
        arguments = params.get("arguments") or {}
        if ctx.method in _READ_METHODS:
            return cast("HandlerResult", await self._guard.guard_read(ctx.method, ctx, call_next))
        is_call = isinstance(name, str) and isinstance(arguments, Mapping)
        if ctx.method != "tools/call" or not is_call:
            # An invalid call never reaches a tool: the server rejects it.
            return await call_next(ctx)
        return cast("HandlerResult", await self._guard.guard_call(name, arguments, ctx, call_next))


def request_context(ctx: ServerRequestContext[Any, Any]) -> CallContext:
    """Return the call context of a request, as far as the server knows it."""
    return context_from_request(
        _FRAMEWORK, token=get_access_token(), request=ctx.request, call_id=ctx.request_id
    )


def _returned_content(result: HandlerResult) -> Any:
    wire = to_wire(result)
    is_complete = wire.get("resultType", "complete") == "complete"
    return returned_texts(wire) if is_complete else None


def _content_texts(result: HandlerResult) -> list[Any]:
    return readable_content(to_wire(result))


def _refusal_result(result: CheckResult, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    # This replaces the server's own result, so it has to set `resultType` as well.
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return {**refusal_result(result), **({"resultType": "complete"} if modern else {})}


def _with_arguments(
    ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any]
) -> ServerRequestContext[Any, Any]:
    return replace(ctx, params={**(ctx.params or {}), "arguments": dict(arguments)})


def _change_result(result: HandlerResult, changes: TextChanges) -> HandlerResult:
    if result is None or isinstance(result, dict):
        return cast("HandlerResult", changes.apply(result))
    return cast("HandlerResult", change_model(result, changes))
