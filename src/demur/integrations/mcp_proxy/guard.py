"""The guard of an MCP connection: a message in, the messages out that may pass or answer it.

It knows JSON-RPC and no transport. A method that it does not know passes unchanged if its texts
are allowed, so new protocol versions need no change here. An ambiguous message never passes.

A refused part that can be left out is left out: an entry of a list, the instructions of a server,
the text of a progress notification. Otherwise the refusal replaces the whole message.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.emit.hosts import to_mcp, to_mcp_denial
from demur.enforce.result import CheckResult
from demur.integrations.mcp_proxy.judge import (
    LIST_MEMBERS,
    READING_METHOD,
    ListFilter,
    Notify,
    ProxyJudge,
    drop_look_alikes,
)

TOOL_CALL_METHOD = "tools/call"
# Requests of newer clients name their version, and expect results with a `resultType`.
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


def refusal_response(
    request: rpc.OpenRequest, check_result: CheckResult, *, hard_as_error: bool = False
) -> dict[str, Any]:
    """Return the response to a refused request; `hard_as_error` turns hard ones into errors.

    Only the result of an immediate tool call can carry a refusal.
    """
    assert check_result.refusal is not None
    as_error = check_result.is_hard and hard_as_error
    if as_error or request.method != TOOL_CALL_METHOD or "task" in request.params:
        return to_mcp_denial(check_result.refusal, request_id=request.request_id)
    result = to_mcp(check_result.refusal)
    result["content"] = [{"type": "text", "text": check_result.model_message}]
    meta = request.params.get("_meta")
    if isinstance(meta, dict) and _VERSION_KEY in meta:
        result["resultType"] = "complete"
    return rpc.result_response(request.request_id, result)


# The recorded actions for notifications and requests of the server, whose methods it chooses.
NOTIFICATION_ACTION = "mcp.notification"
REQUEST_ACTION = "mcp.request"
_SAMPLING_METHOD = "sampling/createMessage"
# Methods whose results come from a tool.
_TOOL_METHODS = frozenset({TOOL_CALL_METHOD, "tasks/result"})
_ANSWER_MEMBERS = frozenset({"jsonrpc", "id", "result", "error"})
# Results with parts that can be left out, and their replacements; None removes the part.
_GREETING_PARTS: dict[str, Any] = {"instructions": None, "serverInfo": {}, "_meta": None}
_OPTIONAL_PARTS: dict[str, dict[str, Any]] = {
    "initialize": _GREETING_PARTS,
    "server/discover": _GREETING_PARTS,
    "completion/complete": {"completion": {"values": []}, "_meta": None},
    **{method: {"_meta": None} for method in LIST_MEMBERS},
}
# Texts that a client does not need.
_OPTIONAL_TEXTS = {
    "notifications/cancelled": "reason",
    "notifications/progress": "message",
    "notifications/tasks/status": "statusMessage",
}


# The members of an answer that hold what the server says.
_SPOKEN = ("result", "error")


class ServerFilter:
    """Filters a server's messages."""

    def __init__(
        self, judge: ProxyJudge, list_filter: ListFilter, notify: Notify, *, hard_as_error: bool
    ) -> None:
        self._judge = judge
        self._list_filter = list_filter
        self._notify = notify
        self._hard_as_error = hard_as_error

    async def filter_answer(
        self, request: rpc.OpenRequest, answer: dict[str, Any]
    ) -> dict[str, Any]:
        """Return an answer as the client may see it."""
        result = answer.get("result")
        if request.method in _OPTIONAL_PARTS and isinstance(result, dict):
            result, rest = await self._trim_result(request, result)
            answer = answer if result is answer["result"] else {**answer, "result": result}
        else:
            rest = answer["result"] if "result" in answer else answer["error"]
        if stray := {name: item for name, item in answer.items() if name not in _ANSWER_MEMBERS}:
            rest = [rest, stray]
        # INVARIANT: no text of the server reaches the client unchecked.
        check = await self._check_content(request, rest)
        if check.allowed:
            parts = {name: check.apply_changes(answer[name]) for name in _SPOKEN if name in answer}
            return answer if check.changes is None else {**answer, **parts}
        self._notify(f"withheld what `{_request_name(request)}` returned: {check.line}")
        return refusal_response(request, check, hard_as_error=self._hard_as_error)

    async def check_request(self, message: rpc.RpcMessage) -> CheckResult:
        """Return the check result of a server's request to the client, its model or its user."""
        source, identity = message.method[:100], message.value["id"]
        if message.method == _SAMPLING_METHOD:
            check = await self._judge.check_sampling(message.value.get("params"), identity)
        else:
            check = await self._judge.check_passage(message.value, source, REQUEST_ACTION, identity)
        if not check.allowed:
            self._notify(f"refused to ask the client `{source}`: {check.line}")
        return check

    async def filter_notification(self, message: rpc.RpcMessage) -> dict[str, Any] | None:
        """Return a notification as the client may see it; None if it is refused."""
        check = await self._check_notification(message.value)
        if check.allowed:
            return message.value
        optional = _OPTIONAL_TEXTS.get(message.method)
        if optional in message.params:
            rest = {name: item for name, item in message.params.items() if name != optional}
            spoken = {**message.value, "params": rest}
            if (await self._check_notification(spoken)).allowed:
                self._notify(f"left `{optional}` out of `{message.method}`: {check.line}")
                return spoken
        self._notify(f"dropped `{message.method[:100]}` of the server: {check.line}")
        return None

    async def _check_notification(self, value: dict[str, Any]) -> CheckResult:
        return await self._judge.check_passage(value, value["method"][:100], NOTIFICATION_ACTION)

    async def _trim_result(
        self, request: rpc.OpenRequest, result: dict[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Return a result without refused parts, and the rest that is still unchecked."""
        parts, member = _OPTIONAL_PARTS[request.method], LIST_MEMBERS.get(request.method)
        read = {*parts, *(() if member is None else (member,))}
        result = drop_look_alikes(result, read, self._notify)
        for name in [one for one in parts if one in result]:
            check = await self._judge.check_passage(
                result[name], name, request.method, request.request_id
            )
            if not check.allowed:
                self._notify(f"left out `{name}` of `{request.method}`: {check.line}")
                result = self._replace_part(result, name, parts[name])
        if member is not None and isinstance(result.get(member), list):
            result = await self._list_filter.filter_list(request, result)
        elif member is not None:
            read.discard(member)
        return result, {name: item for name, item in result.items() if name not in read}

    def _replace_part(self, result: dict[str, Any], name: str, instead: Any) -> dict[str, Any]:
        if instead is None:
            return {key: item for key, item in result.items() if key != name}
        # A client needs a server name, and already knows this one.
        named = {"name": self._judge.server, "version": "withheld"}
        return {**result, name: named if name == "serverInfo" else instead}

    async def _check_content(self, request: rpc.OpenRequest, content: Any) -> CheckResult:
        name = _request_name(request)
        if request.method in _TOOL_METHODS:
            arguments = request.params.get("arguments")
            arguments = arguments if isinstance(arguments, dict) else {}
            return await self._judge.check_result(name, content, arguments, request.request_id)
        return await self._judge.check_passage(content, name, request.method, request.request_id)


def _request_name(request: rpc.OpenRequest) -> str:
    """Return the name or URI that was requested, or the method."""
    name = request.params.get("name") or request.params.get("uri")
    return name if isinstance(name, str) else request.method


_CANCELLED_METHOD = "notifications/cancelled"
_CALL_PARAMS = frozenset({"name", "arguments", "_meta", "task"})
# Characters that some readers take for a line break.
_LINE_BREAKS = re.compile(rb"[\r\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")


class ProxyOutput(NamedTuple):
    """The output: lines for the client, and lines for the server."""

    to_client: tuple[bytes, ...] = ()
    to_server: tuple[bytes, ...] = ()


class _Disposition(NamedTuple):
    """What happens to one message: `on` is forwarded, `back` is sent to its sender."""

    on: Any = None
    back: Any = None


_DROP = _Disposition()


def _reply(identity: Any, code: int, problem: str) -> _Disposition:
    return _Disposition(back=rpc.error_response(identity, code, problem))


class ConnectionGuard:
    """Guards one connection. Each side's messages are passed in order, one at a time.

    `notify` gets one line for each message that was refused, hidden or dropped. `hard_as_error`
    answers a hard refusal with a JSON-RPC error instead of a result.
    """

    def __init__(self, judge: ProxyJudge, *, notify: Notify, hard_as_error: bool = False) -> None:
        self._judge = judge
        self._notify = notify
        self._hard_as_error = hard_as_error
        self._list_filter = ListFilter(judge, notify)
        self._filter = ServerFilter(judge, self._list_filter, notify, hard_as_error=hard_as_error)
        self._client_requests = rpc.OpenRequests()
        self._server_requests = rpc.OpenRequests()
        self._client_sends_batches = False

    async def from_client(self, raw: bytes | None) -> ProxyOutput:
        """Return the output for a line of the client; None is a line that was too long."""
        try:
            value = _parse_line(raw)
        except rpc.MessageError as error:
            on, back = self._reject_line(raw or b"", error.problem, self._server_requests)
            if not all(any(pair) for pair in zip(on, back, strict=True)) or not on:
                back.append(rpc.error_response(None, rpc.PARSE_ERROR, error.problem))
            return ProxyOutput(_encode_each(back), _encode_each(on))
        if value == []:
            empty = rpc.error_response(None, rpc.INVALID_REQUEST, "an empty batch")
            return ProxyOutput(to_client=(rpc.encode_message(empty),))
        self._client_sends_batches = self._client_sends_batches or isinstance(value, list)
        on, back = [], []
        for one in value if isinstance(value, list) else [value]:
            try:
                sent = await self._handle_client_message(rpc.parse_message(one))
            except rpc.MessageError as error:
                sent = self._reject_unreadable(one, error.problem, self._server_requests)
                if sent is _DROP:
                    sent = _reply(_message_id(one), rpc.INVALID_REQUEST, error.problem)
            on.append(sent.on)
            back.append(sent.back)
        return ProxyOutput(_encode_lines(value, back), _encode_lines(value, on, raw))

    async def from_server(self, raw: bytes | None) -> ProxyOutput:
        """Return the output for a line of the server; None is a line that was too long."""
        # INVARIANT: no unreadable message passes from the server to the client.
        try:
            value = _parse_line(raw)
        except rpc.MessageError as error:
            self._notify(f"dropped a line of the server: {error.problem}")
            if raw is None:
                # The request that it answers is unknown, so all open requests fail.
                return ProxyOutput(self.fail_open_requests("an answer of the server was too long"))
            on, back = self._reject_line(raw, error.problem, self._client_requests)
            return ProxyOutput(_encode_each(on), _encode_each(back))
        on, back = [], []
        for one in _flatten_batch(value):
            try:
                sent = await self._handle_server_message(rpc.parse_message(one))
            except rpc.MessageError as error:
                self._notify(f"dropped a message of the server: {error.problem}")
                sent = self._reject_unreadable(one, error.problem, self._client_requests)
            on.append(sent.on)
            back.append(sent.back)
        if isinstance(value, list) and not self._client_sends_batches:
            # A client that sends none may not read a batch, and would wait for ever.
            return ProxyOutput(_encode_each(on), _encode_lines(value, back))
        return ProxyOutput(_encode_lines(value, on, raw), _encode_lines(value, back))

    def fail_open_requests(self, reason: str) -> tuple[bytes, ...]:
        """Return an error for every open request of the client."""
        return tuple(
            rpc.encode_message(rpc.error_response(request.request_id, rpc.SERVER_GONE, reason))
            for request in self._client_requests.drain()
        )

    def _reject_line(
        self, raw: bytes, problem: str, waiting: rpc.OpenRequests
    ) -> tuple[list[Any], list[Any]]:
        """Return the errors to forward and to send back for an unreadable line."""
        rejected = [
            self._reject_unreadable(one, problem, waiting) for one in rpc.salvage_messages(raw)
        ]
        return [one.on for one in rejected], [one.back for one in rejected]

    @staticmethod
    def _reject_unreadable(value: Any, problem: str, waiting: rpc.OpenRequests) -> _Disposition:
        """Return an error for the peer that waits for an unreadable message, or that sent it.

        Otherwise it would wait for ever.
        """
        identity = _message_id(value)
        if identity is None:
            return _DROP
        if "method" in value:
            return _reply(identity, rpc.INVALID_REQUEST, problem)
        request = waiting.close(rpc.request_key(identity))
        if request is None:
            return _DROP
        reason = f"cannot read the answer: {problem}"
        return _Disposition(on=rpc.error_response(request.request_id, rpc.UNREADABLE, reason))

    # Messages of the client.

    async def _handle_client_message(self, message: rpc.RpcMessage) -> _Disposition:
        if message.kind is rpc.MessageKind.REQUEST:
            return await self._handle_client_request(message)
        is_response = message.kind is rpc.MessageKind.RESPONSE
        if is_response and self._server_requests.close(message.key) is None:
            self._notify("dropped an unsolicited answer of the client")
            return _DROP
        if message.method.strip().casefold() == TOOL_CALL_METHOD:
            # Without an id it cannot be answered.
            self._notify("dropped a tool call without an id")
            return _DROP
        if message.method == _CANCELLED_METHOD:
            self._client_requests.cancel(rpc.request_key(message.params.get("requestId")))
        return _Disposition(on=message.value)

    async def _handle_client_request(self, message: rpc.RpcMessage) -> _Disposition:
        identity, is_call = message.value["id"], message.method == TOOL_CALL_METHOD
        if not is_call and message.method.strip().casefold() == TOOL_CALL_METHOD:
            # A server that ignores case in names must not be a way around the guard.
            return _reply(identity, rpc.INVALID_REQUEST, "no such method")
        if problem := self._client_requests.open(message):
            return _reply(identity, rpc.INVALID_REQUEST, problem)
        request = message.value
        if is_call:
            request, back = await self._check_tool_call(message)
        else:
            is_reading = message.method == READING_METHOD
            back = await self._check_resource(message) if is_reading else None
        # INVARIANT: a tool call that is refused never reaches the server.
        if back is None:
            return _Disposition(on=request)
        # If it was closed meanwhile, the client already has an error.
        is_closed = self._client_requests.close(message.key) is None
        return _DROP if is_closed else _Disposition(back=back)

    async def _check_tool_call(
        self, message: rpc.RpcMessage
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the call as it may go on, and the response to a refused one, or None."""
        identity, params = message.value["id"], message.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            problem = "a call has the `name` of a tool, and `arguments` that are an object"
            return message.value, rpc.error_response(identity, rpc.INVALID_PARAMS, problem)
        if rpc.find_look_alikes(params, _CALL_PARAMS):
            problem = "a parameter of the call differs from a known one only in case"
            return message.value, rpc.error_response(identity, rpc.INVALID_PARAMS, problem)
        known = self._list_filter.find_tool(name)
        check = await self._judge.check_call(name, arguments or {}, known, identity)
        if check.changes is not None:
            changed = {**params, "arguments": check.apply_changes(arguments)}
            return {**message.value, "params": changed}, None
        if check.allowed:
            return message.value, None
        self._notify(f"refused a call of `{name}`: {check.line}")
        request = rpc.OpenRequest(identity, TOOL_CALL_METHOD, params)
        back = refusal_response(request, check, hard_as_error=self._hard_as_error)
        return message.value, back

    async def _check_resource(self, message: rpc.RpcMessage) -> dict[str, Any] | None:
        """Return the response to a refused reading of a resource, or None if it is allowed."""
        identity = message.value["id"]
        check = await self._judge.check_resource(message.params, identity)
        if check.refusal is None:
            return None
        self._notify(f"refused to read a resource: {check.line}")
        return to_mcp_denial(check.refusal, request_id=identity)

    # Messages of the server.

    async def _handle_server_message(self, message: rpc.RpcMessage) -> _Disposition:
        if message.kind is rpc.MessageKind.REQUEST:
            return await self._handle_server_request(message)
        if message.kind is rpc.MessageKind.NOTIFICATION:
            if message.method == _CANCELLED_METHOD:
                self._server_requests.cancel(rpc.request_key(message.params.get("requestId")))
            return _Disposition(on=await self._filter.filter_notification(message))
        request = self._client_requests.close(message.key)
        if request is None:
            self._notify("dropped an unsolicited answer of the server")
            return _DROP
        # The answer gets the id exactly as the client wrote it.
        return _Disposition(on=await self._filter.filter_answer(request, message.value))

    async def _handle_server_request(self, message: rpc.RpcMessage) -> _Disposition:
        identity = message.value["id"]
        if problem := self._server_requests.open(message):
            return _reply(identity, rpc.INVALID_REQUEST, problem)
        check = await self._filter.check_request(message)
        if check.refusal is None:
            return _Disposition(on=message.value)
        self._server_requests.close(message.key)
        return _Disposition(back=to_mcp_denial(check.refusal, request_id=identity))


def _flatten_batch(value: Any) -> list[Any]:
    """Return the messages of a batch, also those of a batch within it; or the one message."""
    if not isinstance(value, list):
        return [value]
    return [one for item in value for one in (item if isinstance(item, list) else [item])]


def _parse_line(raw: bytes | None) -> Any:
    if raw is None:
        raise rpc.MessageError("the message is too long")
    return rpc.parse_json(raw)


def _message_id(message: Any) -> Any:
    """Return the id of a value that may be a message, or None."""
    identity = message.get("id") if isinstance(message, dict) else None
    return None if rpc.request_key(identity) is None else identity


def _encode_each(messages: Iterable[Any]) -> tuple[bytes, ...]:
    return tuple(rpc.encode_message(one) for one in messages if one is not None)


def _encode_lines(value: Any, messages: list[Any], raw: bytes | None = None) -> tuple[bytes, ...]:
    """Return messages as lines; a batch stays one line, and unchanged messages keep their bytes."""
    left = [one for one in messages if one is not None]
    if not left:
        return ()
    # INVARIANT: a message is sent as one line, for every reader's line breaks.
    kept = raw if raw is not None and not _LINE_BREAKS.search(raw) else None
    if not isinstance(value, list):
        return (kept if kept is not None and left[0] is value else rpc.encode_message(left[0]),)
    same = len(left) == len(value) and all(a is b for a, b in zip(left, value, strict=True))
    return (kept if kept is not None and same else rpc.encode_message(left),)
