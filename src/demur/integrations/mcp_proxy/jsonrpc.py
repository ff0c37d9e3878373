"""JSON-RPC messages: parsed strictly, classified, encoded, and matched to open requests.

If a proxy and its neighbour read a message differently, that is a way around the proxy. So a key
that occurs twice, or that differs from a known one only in case, makes a message unreadable. From
an unreadable line only the ids are salvaged, so that nobody waits for ever.
"""

import json
import math
import re
from collections import OrderedDict
from collections.abc import Collection
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from demur.errors import DemurError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNREADABLE = -32603
# From the range for implementations.
SERVER_GONE = -32000

# Deeper nesting is an attack on the reader, not data.
MAX_DEPTH = 200
_MESSAGE_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

# The id of a request with its type: `1` is not `"1"`.
RequestKey = tuple[str, str | int]


class MessageError(DemurError):
    """A message is not JSON-RPC, or is ambiguous."""


class MessageKind(StrEnum):
    """The kind of a message."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


class RpcMessage(NamedTuple):
    """A message with its kind, method and request key."""

    kind: MessageKind
    value: dict[str, Any]
    method: str = ""
    key: RequestKey | None = None

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters by name; empty if they are missing or a list."""
        params = self.value.get("params")
        return params if isinstance(params, dict) else {}


def parse_json(raw: bytes | str) -> Any:
    """Return the JSON value in `raw`.

    Raises:
        MessageError: It is not JSON, or is ambiguous.
    """
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_reject_duplicates,
            parse_constant=_reject_constant,
            parse_float=_parse_finite,
        )
    except MessageError:
        raise
    except (ValueError, RecursionError) as error:
        raise MessageError("it is not JSON") from error
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise MessageError("it is nested too deep")
    return value


def _is_deep(value: Any) -> bool:
    """Return whether a value is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    return bool(level)


def parse_message(value: Any) -> RpcMessage:
    """Return a JSON value as a message.

    Raises:
        MessageError: It is not one.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise MessageError("not a message of JSON-RPC 2.0")
    if find_look_alikes(value, _MESSAGE_MEMBERS):
        raise MessageError("a member differs from a known one only in case")
    if "method" in value:
        return _parse_request(value)
    # Some servers send both `result` and `error`, one of them null.
    if "result" in value and "error" in value:
        null = "error" if value["error"] is None else "result"
        if value[null] is None:
            value = {key: item for key, item in value.items() if key != null}
    if "id" not in value or ("result" in value) == ("error" in value):
        raise MessageError("neither a request nor a response")
    if "error" in value and not isinstance(value["error"], dict):
        raise MessageError("the error is not an object")
    key = request_key(value["id"])
    if key is None and value["id"] is not None:
        raise MessageError("the id is neither a string nor a whole number")
    return RpcMessage(MessageKind.RESPONSE, value, key=key)


def _parse_request(value: dict[str, Any]) -> RpcMessage:
    method = value["method"]
    if not isinstance(method, str) or "result" in value or "error" in value:
        raise MessageError("neither a request nor a response")
    if not isinstance(value.get("params"), dict | list | None):
        raise MessageError("the parameters are neither an object nor a list")
    if "id" not in value:
        return RpcMessage(MessageKind.NOTIFICATION, value, method)
    key = request_key(value["id"])
    if key is None:
        raise MessageError("the id is neither a string nor a whole number")
    return RpcMessage(MessageKind.REQUEST, value, method, key)


def request_key(identity: Any) -> RequestKey | None:
    """Return the key of an id, or None if it is not a valid id."""
    if isinstance(identity, str):
        return "string", identity
    is_number = isinstance(identity, int | float) and not isinstance(identity, bool)
    if not is_number or not math.isfinite(identity):
        return None
    # Languages with one number type send `1` back as `1.0`.
    return ("number", int(identity)) if identity == int(identity) else None


def find_look_alikes(value: dict[str, Any], known: Collection[str]) -> list[str]:
    """Return the keys that differ from a known one only in case, which some readers ignore."""
    folded = {name.casefold() for name in known}
    return [key for key in value if key not in known and key.casefold() in folded]


def encode_message(value: Any) -> bytes:
    """Return the message as one line, without the line break."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def result_response(identity: Any, result: Any) -> dict[str, Any]:
    """Return the response with a result."""
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def error_response(identity: Any, code: int, message: str) -> dict[str, Any]:
    """Return the response with an error."""
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MessageError("an object has a duplicate key")
    return members


def _reject_constant(name: str) -> NoReturn:
    raise MessageError(f"`{name}` is not a JSON number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MessageError("a number is too large")
    return number


# The usual start of a message, for lines that are no JSON at all.
_MESSAGE_HEAD = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    rb'(-?\d{1,15}|"[^"\\\x00-\x1f]{0,200}")\s*,\s*"(result|error|method)"'
)


def salvage_messages(raw: bytes) -> list[Any]:
    """Return the messages that an unreadable line seems to hold; only their ids are reliable."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        head = _MESSAGE_HEAD.match(raw)
        if head is None:
            return []
        identity = json.loads(head[1].decode("utf-8", "replace"))
        return [{"id": identity, head[2].decode(): None}]
    return value if isinstance(value, list) else [value]


MAX_OPEN_REQUESTS = 10_000
# The answer to a cancelled request may come late, or never.
_MAX_CANCELLED = 1000


class OpenRequest(NamedTuple):
    """An open request, with its id exactly as written."""

    request_id: Any
    method: str
    params: dict[str, Any]


class OpenRequests:
    """The requests of one side that the other has not answered yet."""

    def __init__(self, max_open: int = MAX_OPEN_REQUESTS) -> None:
        self._max_open = max_open
        self._open: dict[RequestKey, OpenRequest] = {}
        self._cancelled: OrderedDict[RequestKey, None] = OrderedDict()

    def open(self, message: RpcMessage) -> str | None:
        """Keep a request until it is answered; return a problem, or None."""
        assert message.key is not None
        if message.key in self._open:
            return "the id is in use by another request"
        if len(self._open) >= self._max_open:
            return "too many requests wait for an answer"  # demur: allow prose-refusal - RPC error
        self._open[message.key] = OpenRequest(message.value["id"], message.method, message.params)
        return None

    def close(self, key: RequestKey | None) -> OpenRequest | None:
        """Close and return the request that is answered; None if there is none."""
        if key is None:
            return None
        self._cancelled.pop(key, None)
        return self._open.pop(key, None)

    def cancel(self, key: RequestKey | None) -> None:
        """Mark a request as cancelled; its answer may still come."""
        if key is None or key not in self._open:
            return
        self._cancelled[key] = None
        while len(self._cancelled) > _MAX_CANCELLED:
            oldest, _ = self._cancelled.popitem(last=False)
            del self._open[oldest]

    def drain(self) -> list[OpenRequest]:
        """Return the requests that are not cancelled, and forget all."""
        waiting = [one for key, one in self._open.items() if key not in self._cancelled]
        self._open.clear()
        self._cancelled.clear()
        return waiting
