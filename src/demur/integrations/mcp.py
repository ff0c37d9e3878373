"""Guard an MCP server that is built with the Python SDK: one middleware on `MCPServer`.

A tool call is decided before the tool runs, by the arguments as they came over the wire; what
the tool returned is looked at before it leaves, and so are resources and prompts. `tools/list`
is not touched: a tool that is never allowed stays in the list, and says so when it is called.

Texts are looked at, those of failures too: images, sound and binary resources pass. So does
what a tool asks of the client midway (`input_required`); the call that brings the answer is
decided like any other.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

from demur.codes.vocabulary import Surface
from demur.emit.mcp import to_mcp
from demur.emit.mcp_denial import to_mcp_denial
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError, InputTypeError
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
# What of a block of content a model may read.
_READ = ("text", "name", "title", "description", "uri")

Hard = Literal["error", "result"]


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
        enforcer: Enforcer,
        *,
        hard: Hard = "error",
        occasion: Callable[[ServerRequestContext[Any, Any]], Occasion] | None = None,
    ) -> None:
        if not isinstance(enforcer, Enforcer):
            raise InputTypeError.expected("enforcer", "an `Enforcer`", enforcer)
        if hard not in get_args(Hard):
            raise InputError(f"unknown setting `{hard}`", where="hard", help="`error` or `result`")
        self._enforcer = enforcer
        self._hard = hard
        self._occasion = occasion

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
        at = self._at(ctx)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refused(ruling, ctx.protocol_version)
        result, failure = await _tried(ctx, call_next)
        returned = result_of(wire(result)) if failure is None else texts_of(failure)
        if returned is None:
            return result
        ruling = await self._enforcer.atool_result(name, returned, at, arguments=arguments)
        if not ruling.allowed:
            return self._refused(ruling, ctx.protocol_version)
        return _as_it_came(result, failure)

    async def _read(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        result, failure = await _tried(ctx, call_next)
        texts = read_texts(wire(result)) if failure is None else texts_of(failure)
        passage = {"text": "\n".join(map(texts_in, texts)), "source": ctx.method}
        ruling = await self._enforcer.acheck(
            Surface.RETRIEVAL, passage, self._at(ctx), action=_READS[ctx.method]
        )
        if not ruling.allowed:
            raise to_error(ruling)
        return _as_it_came(result, failure)

    def _at(self, ctx: ServerRequestContext[Any, Any]) -> Occasion:
        usual = occasion_of(ctx)
        said = Occasion() if self._occasion is None else self._occasion(ctx)
        return usual._replace(**{name: one for name, one in said._asdict().items() if one})

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


async def _tried(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> tuple[HandlerResult, Exception | None]:
    """Return the answer of the server, or why there is none: the client is told of both."""
    try:
        return await call_next(ctx), None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at and raised again
        return None, error


def _as_it_came(result: HandlerResult, failure: Exception | None) -> HandlerResult:
    if failure is not None:
        raise failure
    return result


def wire(result: HandlerResult) -> Mapping[str, Any]:
    """Return a result as it goes over the wire."""
    if result is None or isinstance(result, dict):
        return result or {}
    dumped: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def result_of(result: Mapping[str, Any]) -> Any:
    """Return what a tool returned, in blocks and as data; None if it is not done."""
    if result.get("resultType", "complete") != "complete":
        return None
    text = "\n".join(_texts(result.get("content") or ()))
    data: Any = result.get("structuredContent")
    return text if data is None or _says(text, data) else [text, data]


def _says(text: str, data: Any) -> bool:
    """Return whether a text is the data, as a server repeats it for those who read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False


def texts_of(failure: Exception) -> list[str]:
    """Return the texts of a failure that the client is told."""
    data = failure.data if isinstance(failure, MCPError) else None
    return [str(failure), *([] if data is None else [texts_in(data)])]


def read_texts(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a resource that was read, or of a prompt."""
    yield from _texts({"type": "resource", "resource": one} for one in result.get("contents", ()))
    yield str(result.get("description") or "")
    yield from _texts(message["content"] for message in result.get("messages", ()))


def _texts(blocks: Any) -> Iterator[str]:
    for block in blocks:
        place = block.get("resource", {}) if block.get("type") == "resource" else block
        # The place of a resource is said by its client, that of a link by the server.
        read = _READ if block.get("type") == "resource_link" else _READ[:1]
        yield from (place[name] for name in read if isinstance(place.get(name), str))


def _is_call(name: Any, arguments: Any) -> bool:
    return isinstance(name, str) and isinstance(arguments, Mapping)
