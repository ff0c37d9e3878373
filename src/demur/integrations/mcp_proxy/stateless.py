"""Clients of protocol versions without sessions: each request stands alone.

The requests of one caller share a server and a guard. Their ids are unique only within one
request, so they are replaced on the way to the server and restored on the way back.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import demur.integrations.mcp_proxy.jsonrpc as rpc
from demur.integrations.mcp_proxy.addressing import (
    DeclaredHeaders,
    find_header_mismatch,
    message_version,
)
from demur.integrations.mcp_proxy.sessions import EventStream, HttpDownstream

HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
# Versions with a handshake, and so with sessions; newer clients fall back to one of them.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_DISCOVER_METHOD = "server/discover"
CANCELLED_METHOD = "notifications/cancelled"
_PARAM_PREFIX = "mcp-param-"
_SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
_LOG_METHOD = "notifications/message"
_NO_CHANNEL = "this protocol version has no requests to the client"
_MAX_LIST_PAGES = 100
_LIST_TIMEOUT_S = 30.0
# The HTTP status of an error, by its code; any other answer has status 200.
_STATUS_BY_CODE = {
    **dict.fromkeys((rpc.PARSE_ERROR, rpc.INVALID_REQUEST, rpc.INVALID_PARAMS), 400),
    **dict.fromkeys((HEADER_MISMATCH, -32021, UNSUPPORTED_VERSION), 400),
    rpc.METHOD_NOT_FOUND: 404,
    rpc.SERVER_GONE: 502,
}
# What a server without the newer versions says to a request of them.
_UNKNOWN_TO_OLDER = frozenset({rpc.INVALID_REQUEST, rpc.METHOD_NOT_FOUND, rpc.SERVER_GONE})


def answer_status(answer: Mapping[str, Any]) -> int:
    """Return the HTTP status of an answer."""
    error = answer.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return _STATUS_BY_CODE.get(code, 200) if isinstance(code, int) else 200


def unsupported_version(identity: Any, version: str | None) -> dict[str, Any]:
    """Return the response that has a client fall back to a version with a handshake."""
    response = rpc.error_response(identity, UNSUPPORTED_VERSION, "unsupported protocol version")
    versions = {"supported": list(HANDSHAKE_VERSIONS), "requested": (version or "")[:100]}
    response["error"]["data"] = versions
    return response


class StatelessDownstream(HttpDownstream):
    """The requests of one caller, each with a stream of its own.

    `is_older` says that the server knows no version without sessions.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.is_greeted = True
        self._count = 0
        self._requests: dict[rpc.RequestKey, rpc.RpcMessage] = {}
        self._headers = DeclaredHeaders()
        self._listed = asyncio.Lock()
        self.is_older = False

    async def post_request(
        self, line: bytes, message: rpc.RpcMessage, *, resumable: bool = False
    ) -> EventStream | None:
        """Queue a request under a new id, and return the stream of its answer.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        del line, resumable
        self._count += 1
        params = message.params
        meta = params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            params = {**params, "_meta": {**meta, "progressToken": self._count}}
        value = {**message.value, "id": self._count}
        if "params" in value and isinstance(value["params"], dict):
            value["params"] = params
        renamed = rpc.parse_message(value)
        assert renamed.key is not None
        self._requests[renamed.key] = message
        return await super().post_request(rpc.encode_message(value), renamed)

    def _client_id(self, key: rpc.RequestKey) -> Any:
        return self._requests[key].value["id"]

    async def find_mismatch(
        self, message: rpc.RpcMessage, headers: Mapping[str, str]
    ) -> str | None:
        """Return the header that differs from the message, or None.

        For a call with headers of its own, the tools are listed first if they are unknown.
        """
        if found := find_header_mismatch(message, headers):
            return found
        if message.method != "tools/call":
            return None
        if any(name.startswith(_PARAM_PREFIX) for name in headers):
            with contextlib.suppress(TimeoutError):
                await self._list_tools(message)
        return self._headers.find_mismatch(message, headers)

    async def _list_tools(self, message: rpc.RpcMessage) -> None:
        async with self._listed, asyncio.timeout(_LIST_TIMEOUT_S):
            params = {"_meta": message.params.get("_meta")}
            for _ in range(0 if self._headers.knows(message) else _MAX_LIST_PAGES):
                asked = {"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": params}
                stream = await self.post_request(b"", rpc.parse_message(asked))
                assert stream is not None
                lines = [line async for line in stream.lines(_LIST_TIMEOUT_S) if line]
                result = rpc.parse_json(lines[-1]).get("result") if lines else None
                cursor = result.get("nextCursor") if isinstance(result, dict) else None
                if not isinstance(cursor, str):
                    return
                params = {**params, "cursor": cursor}

    def abandon(self, stream: EventStream) -> None:
        """Cancel the request of a stream whose client is gone."""
        for key in [key for key, one in self._waiting.items() if one is stream]:
            params = {"requestId": key[1], "reason": "the client has disconnected"}
            self._append_line(
                rpc.encode_message({"jsonrpc": "2.0", "method": CANCELLED_METHOD, "params": params})
            )
        self.forget_stream(stream)

    def forget_stream(self, stream: EventStream) -> None:
        """End a stream, and forget its request."""
        for key in [key for key, one in self._waiting.items() if one is stream]:
            self._requests.pop(key, None)
        super().forget_stream(stream)

    async def _deliver_answer(self, _line: bytes, answer: dict[str, Any]) -> None:
        key = rpc.request_key(answer["id"])
        request = None if key is None else self._requests.get(key)
        if request is None:
            return
        if request.method == "tools/list":
            self._headers.learn_tools(answer.get("result"))
        identity = request.value["id"]
        answer = {**answer, "id": identity}
        error = answer.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if request.method == _DISCOVER_METHOD and code in _UNKNOWN_TO_OLDER:
            self.is_older = code != rpc.SERVER_GONE
            answer = unsupported_version(identity, message_version(request))
        assert key is not None
        stream = self._waiting[key]
        await stream.put(rpc.encode_message(_restore(answer, request)))
        self.forget_stream(stream)

    async def _deliver_unasked(self, _line: bytes, message: dict[str, Any]) -> None:
        if "id" in message:
            error = rpc.error_response(message["id"], rpc.METHOD_NOT_FOUND, _NO_CHANNEL)
            self._append_line(rpc.encode_message(error))
            return
        key = self._request_of(message)
        if key is None or key not in self._waiting:
            return
        value = _restore(message, self._requests[key])
        stream = self._waiting[key]
        if not await stream.put(rpc.encode_message(value)):
            self.forget_stream(stream)

    def _request_of(self, message: dict[str, Any]) -> rpc.RequestKey | None:
        """Return the request that a notification belongs to, or None."""
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        named = meta.get(_SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        for identity in (params.get("progressToken"), params.get("requestId"), named):
            if identity is not None:
                return rpc.request_key(identity)
        if message["method"] != _LOG_METHOD:
            return None
        metas = {key: one.params.get("_meta") for key, one in self._requests.items()}
        open_for_logs = [
            key for key, meta in metas.items() if isinstance(meta, dict) and _LOG_LEVEL_KEY in meta
        ]
        return open_for_logs[-1] if open_for_logs else None


def _restore(message: dict[str, Any], request: rpc.RpcMessage) -> dict[str, Any]:
    """Return a message with the ids that the client gave to its request."""
    name = "result" if "result" in message else "params"
    part = message.get(name)
    if not isinstance(part, dict):
        return message
    part = dict(part)
    meta, own = part.get("_meta"), request.params.get("_meta")
    if isinstance(meta, dict) and _SUBSCRIPTION_KEY in meta:
        part["_meta"] = {**meta, _SUBSCRIPTION_KEY: request.value["id"]}
    if name == "params" and "requestId" in part:
        part["requestId"] = request.value["id"]
    if name == "params" and "progressToken" in part and isinstance(own, dict):
        part["progressToken"] = own.get("progressToken")
    return {**message, name: part}
