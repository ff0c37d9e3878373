"""Guard an MCP server that is built with the Python SDK: one middleware on `MCPServer`.

A tool call is decided before the tool runs, by the arguments as they came over the wire; what
the tool returned is looked at before it leaves, and so are resources and prompts. `tools/list`
is not touched: a tool that is never allowed stays in the list, and says so when it is called.

Whatever is text is looked at, that of failures, places and `_meta` too: pictures, sound and
binary data pass, if they are some. So does what a tool asks of the client midway
(`input_required`); the call that brings the answer is decided like any other.
"""

from collections.abc import Callable, Mapping
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
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise missing_extra("mcp") from error

__all__ = ["MCPGuard", "occasion_of"]

_FRAMEWORK = "mcp"
_READS = frozenset({"resources/read", "prompts/get"})


class MCPGuard:
    """Middleware for `MCPServer(middleware=[...])`; put it last, next to the tools.

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
        occasion: Callable[[ServerRequestContext[Any, Any]], Occasion] | None = None,
    ) -> None:
        form = Form(occasion_of, _returned, _texts, _refused, MCPError)
        self._guard = ServerGuard(enforcer, form, hard=hard, occasion=occasion)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message of the client.

        Raises:
            MCPError: It was refused, and there is no other place to say so.
        """
        params = ctx.params or {}
        name: Any = params.get("name")
        arguments = params.get("arguments") or {}
        if ctx.method in _READS:
            return cast("HandlerResult", await self._guard.read(ctx.method, ctx, call_next))
        if ctx.method != "tools/call" or not _is_call(name, arguments):
            # What is no call at all never reaches a tool: the server turns it down.
            return await call_next(ctx)
        return cast("HandlerResult", await self._guard.call(name, arguments, ctx, call_next))


def occasion_of(ctx: ServerRequestContext[Any, Any]) -> Occasion:
    """Return in which run a request comes, and for whom, as far as the server knows."""
    return occasion_from(
        _FRAMEWORK, token=get_access_token(), request=ctx.request, call_id=ctx.request_id
    )


def _returned(result: HandlerResult) -> Any:
    said = wire(result)
    if said.get("resultType", "complete") != "complete":
        return None
    return returned_of(said)


def _texts(result: HandlerResult) -> list[Any]:
    return read_of(wire(result))


def _refused(ruling: Ruling, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    # Whoever answers in the server's place owns the whole answer.
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return {**result_of(ruling), **({"resultType": "complete"} if modern else {})}


def _is_call(name: Any, arguments: Any) -> bool:
    return isinstance(name, str) and isinstance(arguments, Mapping)
