"""The guard that the middlewares of MCP servers share; it knows neither framework.

A tool call is decided before the tool runs. Its result or failure is checked before it leaves,
and so are resources and prompts. Results are read as the proxy reads them.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Unpack, get_args

from demur.codes.vocabulary import Surface
from demur.emit.hosts import to_mcp, to_mcp_denial
from demur.enforce.changes import TextChanges
from demur.enforce.context import CallContext
from demur.enforce.describe import extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    ContextSource,
    adapt_enforcer,
    check_context,
    is_changed_fully,
)
from demur.integrations.mcp_proxy.addressing import session_run_name
from demur.integrations.mcp_proxy.content import readable_content

# Members of results and blocks that the protocol itself sets.
_RESULT_DEFAULTS = {"isError": (False, True), "resultType": ("complete",)}
_BLOCK_DEFAULTS = {"type": ("text", "image", "audio", "resource", "resource_link")}


def to_wire(value: Any) -> dict[str, Any]:
    """Return a result, or a part of one, in wire format."""
    if value is None or isinstance(value, dict):
        return value or {}
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def returned_texts(result: dict[str, Any]) -> Any:
    """Return a tool's output: its text, its data unless the text repeats it, and the rest."""
    text, rest = readable_content(result)
    data = rest.pop("structuredContent", None)
    found = [text] if data is None or _repeats_data(text, data) else [text, data]
    blocks = rest.get("content")
    if isinstance(blocks, list):
        rest["content"] = [left for one in blocks if (left := _drop_defaults(one, _BLOCK_DEFAULTS))]
    if rest := _drop_defaults(rest, _RESULT_DEFAULTS):
        found.append(rest)
    return text if found == [text] else found


def _drop_defaults(value: Any, known: dict[str, tuple[Any, ...]]) -> Any:
    """Return a value without empty members and default values."""
    if not isinstance(value, dict):
        return value
    return {
        name: item
        for name, item in value.items()
        if item not in (None, [], {}) and item not in known.get(name, ())
    }


def _repeats_data(text: str, data: Any) -> bool:
    """Return whether a text repeats the data, as servers do for clients that read no data."""
    values = [data, *data.values()] if isinstance(data, dict) and [*data] == ["result"] else [data]
    try:
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False


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


def refusal_result(result: CheckResult) -> dict[str, Any]:
    """Return the result of a refused call: words for the model, the envelope in `_meta`."""
    assert result.refusal is not None
    return {**to_mcp(result.refusal), "content": [{"type": "text", "text": result.model_message}]}


def refusal_error(result: CheckResult) -> tuple[int, str, Any]:
    """Return code, message and data of the error for a refusal; the data holds the envelope."""
    assert result.refusal is not None
    denial = to_mcp_denial(result.refusal)["error"]
    return denial["code"], denial["message"], denial["data"]


HardRefusal = Literal["error", "result"]
_ACTIONS = {"resources/read": "read_resource", "prompts/get": "get_prompt"}


class FrameworkForm(NamedTuple):
    """The functions that adapt a framework.

    `context_for` returns the call context of a request, `returned_content` a tool's output (None
    if it is not done), `content_texts` the texts of a resource or prompt, and `refusal_result` the
    result of a refused call. `error` is the exception for a protocol error, made of code, message
    and data. `with_arguments` returns a request with other arguments, and `change_result` a tool's
    result with changed texts.
    """

    context_for: Callable[[Any], CallContext]
    returned_content: Callable[[Any], Any]
    content_texts: Callable[[Any], Iterable[Any]]
    refusal_result: Callable[[CheckResult, Any], Any]
    error: type[Exception]
    with_arguments: Callable[[Any, Mapping[str, Any]], Any]
    change_result: Callable[[Any, TextChanges], Any]


_CARRIED = frozenset({Surface.TOOL_CALL, Surface.TOOL_RESULT})


class MCPServerGuard:
    """Guards one server; built by the middleware of its framework.

    `context` is a call context, or a function of the framework's request that returns one; the
    guard fills in missing fields. Calls and their results can be changed; failures, resources and
    prompts cannot.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        form: FrameworkForm,
        *,
        hard: HardRefusal,
        context: ContextSource | None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        self._enforcer = adapt_enforcer(enforcer, carried=_CARRIED, **options)
        self._plain = self._enforcer.refuse_changes()
        if hard not in get_args(HardRefusal):
            raise InputError(f"unknown setting `{hard}`", where="hard", help="`error` or `result`")
        self._form = form
        self._hard = hard
        self._context = check_context(context)

    async def guard_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: Any,
        call_next: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Return a tool's result or a refusal in its place; raise an error for a hard one."""
        at = self._build_context(context)
        check = await self._enforcer.acheck_tool_call(name, arguments, at)
        if not check.allowed:
            return self._refuse_call(check, context)
        if check.changes is not None:
            arguments = check.apply_changes(arguments)
            context = self._form.with_arguments(context, arguments)
        result, failure = await _try_request(context, call_next)
        output = self._texts_of(result, failure, self._form.returned_content)
        if output is not None:
            parts = (name, output, at)
            enforcer = self._enforcer if failure is None else self._plain
            check = await enforcer.acheck_tool_result(*parts, arguments=arguments)
            if check.changes is not None:
                result = self._form.change_result(result, check.changes)
                if not is_changed_fully(check, self._form.returned_content(result)):
                    check = await self._plain.acheck_tool_result(*parts, arguments=arguments)
        if not check.allowed:
            return self._refuse_call(check, context)
        if failure is not None:
            raise failure
        return result

    async def guard_read(
        self, method: str, context: Any, call_next: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Return a resource or a prompt; raise an error if it is refused."""
        result, failure = await _try_request(context, call_next)
        texts = self._texts_of(result, failure, self._form.content_texts)
        passage = {"text": "\n".join(map(extract_texts, texts)), "source": method}
        check = await self._enforcer.acheck_event(
            Surface.RETRIEVAL, passage, self._build_context(context), action=_ACTIONS[method]
        )
        if not check.allowed:
            raise self._form.error(*refusal_error(check))
        if failure is not None:
            raise failure
        return result

    def _build_context(self, context: Any) -> CallContext:
        usual, source = self._form.context_for(context), self._context
        own = source(context) if callable(source) else source or CallContext()
        return usual._replace(**{name: one for name, one in own._asdict().items() if one})

    def _texts_of(self, result: Any, failure: Exception | None, read: Callable[[Any], Any]) -> Any:
        """Return the texts of a result, or of a failure, that the client sees."""
        if failure is None:
            return read(result)
        data = getattr(failure, "data", None) if isinstance(failure, self._form.error) else None
        return [str(failure), *([] if data is None else [extract_texts(data)])]

    def _refuse_call(self, result: CheckResult, context: Any) -> Any:
        if result.is_hard and self._hard == "error":
            raise self._form.error(*refusal_error(result))
        return self._form.refusal_result(result, context)


async def _try_request(
    context: Any, call_next: Callable[[Any], Awaitable[Any]]
) -> tuple[Any, Exception | None]:
    """Return the result of a request, or its failure: the client sees both."""
    try:
        return await call_next(context), None
    except Exception as error:  # noqa: BLE001 - every failure is checked and raised again
        return None, error
