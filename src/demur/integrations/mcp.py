"""Guard an MCP server that is built with the Python SDK: one middleware on `MCPServer`.

A tool call is decided before the tool runs, by the arguments as they came over the wire; what
the tool returned is looked at before it leaves, and so are resources and prompts. `tools/list`
is not touched: a tool that is never allowed stays in the list, and says so when it is called.

Texts are looked at: images, sound and binary resources pass. So does what a tool asks of the
client midway (`input_required`); the call that brings the answer is decided like any other.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from demur.codes.vocabulary import Surface
from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Ruling
from demur.integrations.extras import missing_extra

try:
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise missing_extra("mcp") from error

__all__ = ["MCPGuard", "occasion_of"]

_FRAMEWORK = "mcp"
# A server that is spoken to over pipes has one client for as long as it runs.
_ONLY_CLIENT = "local"
_SESSION_HEADER = "mcp-session-id"
_READS = {"resources/read": "read_resource", "prompts/get": "get_prompt"}


class MCPGuard:
    """Middleware for `MCPServer(middleware=[...])`; put it last, next to the tools.

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
        occasion: Callable[[ServerRequestContext[Any, Any]], Occasion] | None = None,
    ) -> None:
        self._enforcer = enforcer
        self._hard = hard
        self._occasion = occasion_of if occasion is None else occasion

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
            return await self._read(ctx, call_next)
        if ctx.method != "tools/call" or not _is_call(name, arguments):
            # What is no call at all never reaches a tool: the server turns it down.
            return await call_next(ctx)
        at = self._occasion(ctx)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refused(ruling, ctx.protocol_version)
        result = await call_next(ctx)
        returned = result_of(wire(result))
        if returned is None:
            return result
        ruling = await self._enforcer.atool_result(name, returned, at, arguments=arguments)
        return result if ruling.allowed else self._refused(ruling, ctx.protocol_version)

    async def _read(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        result = await call_next(ctx)
        passage = {"text": "\n".join(read_texts(wire(result))), "source": ctx.method}
        ruling = await self._enforcer.acheck(
            Surface.RETRIEVAL, passage, self._occasion(ctx), action=_READS[ctx.method]
        )
        if not ruling.allowed:
            raise to_error(ruling)
        return result

    def _refused(self, ruling: Ruling, version: str) -> dict[str, Any]:
        if ruling.is_hard and self._hard == "error":
            raise to_error(ruling)
        # Whoever answers in the server's place owns the whole answer.
        kind = {"resultType": "complete"} if version in MODERN_PROTOCOL_VERSIONS else {}
        return {**to_result(ruling), **kind}


def occasion_of(ctx: ServerRequestContext[Any, Any]) -> Occasion:
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
    return Occasion(
        framework=_FRAMEWORK,
        run=_run(ctx.request, None if subject is None else str(subject["id"])),
        call_id=None if ctx.request_id is None else str(ctx.request_id),
        subject=subject,
    )


def _run(request: Any, who: str | None) -> str | None:
    if request is None:
        return _ONLY_CLIENT
    session: str | None = request.headers.get(_SESSION_HEADER)
    return session or who


def to_result(ruling: Ruling) -> dict[str, Any]:
    """Return the result of a call that was refused: words for the model, the envelope as data."""
    assert ruling.refusal is not None
    return {**to_mcp(ruling.refusal), "content": [{"type": "text", "text": ruling.message}]}


def to_error(ruling: Ruling) -> MCPError:
    """Return the protocol's error for a refusal, with the envelope in its data."""
    assert ruling.refusal is not None
    denial = to_mcp_denial(ruling.refusal)["error"]
    return MCPError(denial["code"], denial["message"], denial["data"])


def wire(result: HandlerResult) -> Mapping[str, Any]:
    """Return a result as it goes over the wire."""
    if result is None or isinstance(result, dict):
        return result or {}
    dumped: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def result_of(result: Mapping[str, Any]) -> str | None:
    """Return the texts that a tool returned, in blocks or as data; None if it is not done."""
    if result.get("resultType", "complete") != "complete":
        return None
    text = "\n".join(_texts(result.get("content") or ()))
    more = (leaf for leaf in _leaves(result.get("structuredContent")) if leaf not in text)
    return "\n".join((text, *more))


def read_texts(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a resource that was read, or of a prompt."""
    yield from _texts({"type": "resource", "resource": one} for one in result.get("contents", ()))
    yield from _texts(message["content"] for message in result.get("messages", ()))


def _texts(blocks: Any) -> Iterator[str]:
    for block in blocks:
        place = block.get("resource", {}) if block.get("type") == "resource" else block
        if isinstance(place.get("text"), str):
            yield place["text"]


def _leaves(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)


def _is_call(name: Any, arguments: Any) -> bool:
    return isinstance(name, str) and isinstance(arguments, Mapping)
