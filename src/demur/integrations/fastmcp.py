"""Guard a FastMCP server: one middleware for tools, resources and prompts.

A tool call is decided before the tool runs; what it returned is looked at before it leaves,
and so are resources and prompts. Lists are not touched: a tool that is never allowed stays
listed, and says so when it is called.

Texts and structured content are looked at, and the texts of failures: images, sound and binary
resources pass. So does what is asked of the client midway; the call that brings the answer is
decided again.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, cast, get_args

from demur.codes.vocabulary import Surface
from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError, InputTypeError
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
# What of a link to a resource a model may read.
_LINK = ("name", "title", "description", "uri")

Hard = Literal["error", "result"]


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
        enforcer: Enforcer,
        *,
        hard: Hard = "error",
        occasion: Callable[[MiddlewareContext[Any]], Occasion] | None = None,
    ) -> None:
        if not isinstance(enforcer, Enforcer):
            raise InputTypeError.expected("enforcer", "an `Enforcer`", enforcer)
        if hard not in get_args(Hard):
            raise InputError(f"unknown setting `{hard}`", where="hard", help="`error` or `result`")
        self._enforcer = enforcer
        self._hard = hard
        self._occasion = occasion

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        """Return what the tool returned, or the refusal in its place.

        Raises:
            MCPError: The call was refused for good.
        """
        name, arguments = context.message.name, context.message.arguments or {}
        at = self._at(context)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refused(ruling)
        result, failure = await _tried(context, call_next)
        returned = result_of(result) if failure is None else texts_of(failure)
        if returned is not None:
            ruling = await self._enforcer.atool_result(name, returned, at, arguments=arguments)
        if not ruling.allowed:
            return self._refused(ruling)
        return cast("ToolResult", _as_it_came(result, failure))

    async def on_read_resource(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the resource.

        Raises:
            MCPError: What stands in it was refused.
        """
        return await self._read(context, call_next, "resources/read", "read_resource")

    async def on_get_prompt(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Return the prompt.

        Raises:
            MCPError: What stands in it was refused.
        """
        return await self._read(context, call_next, "prompts/get", "get_prompt")

    async def _read(
        self,
        context: MiddlewareContext[Any],
        call_next: CallNext[Any, Any],
        source: str,
        action: str,
    ) -> Any:
        result, failure = await _tried(context, call_next)
        texts = read_texts(result) if failure is None else texts_of(failure)
        passage = {"text": "\n".join(map(texts_in, texts)), "source": source}
        ruling = await self._enforcer.acheck(
            Surface.RETRIEVAL, passage, self._at(context), action=action
        )
        if not ruling.allowed:
            raise to_error(ruling)
        return _as_it_came(result, failure)

    def _at(self, context: MiddlewareContext[Any]) -> Occasion:
        usual = occasion_of(context)
        said = Occasion() if self._occasion is None else self._occasion(context)
        return usual._replace(**{name: one for name, one in said._asdict().items() if one})

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


async def _tried(
    context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
) -> tuple[Any, Exception | None]:
    """Return what came of a request, or why nothing did: the client is told of both."""
    try:
        return await call_next(context), None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at and raised again
        return None, error


def _as_it_came(result: Any, failure: Exception | None) -> Any:
    if failure is not None:
        raise failure
    return result


def result_of(result: Any) -> Any:
    """Return what a tool returned, in blocks and as data; None if it is not done.

    Not done is a question to the client, or a task in the background.
    """
    if not isinstance(result, ToolResult) or isinstance(result, InputRequiredToolResult):
        return None
    text, data = "\n".join(block_texts(result.content)), result.structured_content
    return text if data is None or _says(text, data) else [text, data]


def _says(text: str, data: dict[str, Any]) -> bool:
    """Return whether a text is the data, as a server repeats it for those who read no data."""
    values = [data, *data.values()] if [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False


def texts_of(failure: Exception) -> list[str]:
    """Return the texts of a failure that the client is told."""
    data = failure.data if isinstance(failure, MCPError) else None
    return [str(failure), *([] if data is None else [texts_in(data)])]


def read_texts(result: Any) -> Iterator[str]:
    """Yield the texts of a resource that was read, or of a prompt."""
    contents = (one.content for one in getattr(result, "contents", None) or ())
    yield from (content for content in contents if isinstance(content, str))
    yield str(getattr(result, "description", None) or "")
    yield from block_texts(message.content for message in getattr(result, "messages", None) or ())


def block_texts(blocks: Iterable[Any]) -> Iterator[str]:
    """Yield the texts among blocks of content: embedded resources with them, and links."""
    for block in blocks:
        place = getattr(block, "resource", block)
        read = _LINK if block.type == "resource_link" else ("text",)
        texts = (getattr(place, name, None) for name in read)
        yield from (str(text) for text in texts if text is not None)
