"""Guard a FastMCP server: one middleware for tools, resources and prompts.

A tool call is decided before the tool runs; what it returned is looked at before it leaves,
and so are resources and prompts. Lists are not touched: a tool that is never allowed stays
listed, and says so when it is called.

Texts and structured content are looked at: images, sound and binary resources pass. So does
what a tool asks of the client midway; the call that brings the answer is decided again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, cast

from demur.codes.vocabulary import Surface
from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Ruling
from demur.integrations.extras import missing_extra

try:
    from fastmcp.server.dependencies import get_access_token, get_http_request
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.tools.base import InputRequiredToolResult, ToolResult
    from mcp.shared.exceptions import MCPError
except ImportError as error:
    raise missing_extra("fastmcp") from error

__all__ = ["FastMCPGuard", "occasion_of"]

_FRAMEWORK = "fastmcp"
# A server that is spoken to over pipes has one client for as long as it runs.
_ONLY_CLIENT = "local"
_SESSION_HEADER = "mcp-session-id"


class FastMCPGuard(Middleware):
    """Middleware for `FastMCP(middleware=[...])`; put it last, next to the tools.

    A soft or workflow refusal is the result of the call, marked as an error: the model reads
    it and may go on. A hard one is an error of the protocol, because nothing that a model
    could try again would help; with `hard="result"` it is a result, too, for hosts that hide
    errors from the model. Resources and prompts have no place for a refusal in their results:
    there it is always an error. `occasion` says in which run and for whom a request comes.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        *,
        hard: Literal["error", "result"] = "error",
        occasion: Callable[[MiddlewareContext[Any]], Occasion] | None = None,
    ) -> None:
        self._enforcer = enforcer
        self._hard = hard
        self._occasion = occasion_of if occasion is None else occasion

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        """Return what the tool returned, or the refusal in its place.

        Raises:
            MCPError: The call was refused for good.
        """
        name, arguments = context.message.name, context.message.arguments or {}
        at = self._occasion(context)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refused(ruling)
        result: Any = await call_next(context)
        if not isinstance(result, ToolResult) or isinstance(result, InputRequiredToolResult):
            # Not done yet: a question to the client, or a task in the background.
            return cast("ToolResult", result)
        ruling = await self._enforcer.atool_result(name, result_of(result), at, arguments=arguments)
        return result if ruling.allowed else self._refused(ruling)

    async def on_read_resource(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the resource.

        Raises:
            MCPError: What stands in it was refused.
        """
        result = await call_next(context)
        contents = [one.content for one in result.contents]
        texts = [content for content in contents if isinstance(content, str)]
        await self._look(texts, context, "resources/read", "read_resource")
        return result

    async def on_get_prompt(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the prompt.

        Raises:
            MCPError: What stands in it was refused.
        """
        result = await call_next(context)
        texts = block_texts(message.content for message in result.messages)
        await self._look(texts, context, "prompts/get", "get_prompt")
        return result

    async def _look(
        self, texts: Iterable[str], context: MiddlewareContext[Any], source: str, action: str
    ) -> None:
        passage = {"text": "\n".join(texts), "source": source}
        ruling = await self._enforcer.acheck(
            Surface.RETRIEVAL, passage, self._occasion(context), action=action
        )
        if not ruling.allowed:
            raise to_error(ruling)

    def _refused(self, ruling: Ruling) -> ToolResult:
        if ruling.is_hard and self._hard == "error":
            raise to_error(ruling)
        return to_result(ruling)


def occasion_of(context: MiddlewareContext[Any]) -> Occasion:
    """Return in which run a request comes, and for whom.

    The run is the session where the transport has one, else the authenticated client, and
    over pipes the process. A request over HTTP that has none of these belongs to no run:
    loops are not seen there.
    """
    token = get_access_token()
    subject = None
    if token is not None:
        who = token.subject or token.client_id
        kind = "user" if token.subject else "client"
        subject = {"id": who, "type": kind, "roles": list(token.scopes)}
    called = context.fastmcp_context
    known = called is not None and called.request_context is not None
    return Occasion(
        framework=_FRAMEWORK,
        run=_run(None if subject is None else str(subject["id"])),
        call_id=called.request_id if known and called is not None else None,
        subject=subject,
    )


def _run(who: str | None) -> str | None:
    try:
        request = get_http_request()
    except RuntimeError:
        return _ONLY_CLIENT
    # `Context.session_id` is no help: under the stateless protocol each request has a new one.
    session: str | None = request.headers.get(_SESSION_HEADER)
    return session or who


def to_result(ruling: Ruling) -> ToolResult:
    """Return the result of a call that was refused: words for the model, the envelope as data."""
    assert ruling.refusal is not None
    structured = to_mcp(ruling.refusal)["structuredContent"]
    return ToolResult(content=ruling.message, structured_content=structured, is_error=True)


def to_error(ruling: Ruling) -> MCPError:
    """Return the protocol's error for a refusal, with the envelope in its data."""
    assert ruling.refusal is not None
    denial = to_mcp_denial(ruling.refusal)["error"]
    return MCPError(denial["code"], denial["message"], denial["data"])


def result_of(result: ToolResult) -> str:
    """Return the texts that a tool returned, in blocks of content or as structured content."""
    text = "\n".join(block_texts(result.content))
    more = (leaf for leaf in _leaves(result.structured_content) if leaf not in text)
    return "\n".join((text, *more))


def block_texts(blocks: Iterable[Any]) -> Iterator[str]:
    """Yield the texts among blocks of content, embedded resources with them."""
    for block in blocks:
        text = getattr(getattr(block, "resource", block), "text", None)
        if isinstance(text, str):
            yield text


def _leaves(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
