"""The shape of a response for readers: the object, its body, and how it failed.

Responses, dictionaries, JSON text, exceptions and HTTP errors all become one
`ResponseShape`. This module knows how Python carries answers and errors, and no provider.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from demur.providers.node import ABSENT, Node, ReadBudget, ResponseTooLargeError, safe_value

_STATUSES = ("status_code", "statusCode", "HTTPStatusCode", "status", "http_status", "code")
_REQUEST_IDS = ("request_id", "_request_id", "requestId", "RequestId")
_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")
_MAX_JSON_LENGTH = 32_000_000
_MAX_MESSAGE_LENGTH = 4000
_JSON = re.compile(r"[\ufeff \t\r\n]*[{\[]")


class ResponseShape(NamedTuple):
    """A response as readers see it.

    `body` is the answer, or the body of an error with its fields under `error`. `own` is the
    original object, such as the exception. `status` is the HTTP status if there is one.
    `types` are the names of the object's classes, nearest first, and `package` is their
    package. `message` is the text of an exception. `failed` is true for exceptions and error
    statuses.
    """

    own: Node
    body: Node
    status: int | None = None
    types: tuple[str, ...] = ()
    package: str = ""
    message: str = ""
    failed: bool = False
    request_id: str | None = None

    def has_type(self, *names: str) -> bool:
        """Return whether the object has a class with one of these names."""
        return not set(names).isdisjoint(self.types)

    def with_body(self, raw: Any) -> "ResponseShape":
        """Return the shape with another answer in its place."""
        body = self.body.derive(raw)
        return self._replace(own=body, body=body)

    @property
    def text(self) -> str | None:
        """The answer, if it is plain text."""
        return self.body.text


def shape_of(obj: Any, budget: ReadBudget | None = None) -> ResponseShape:
    """Return the shape of any object; the budget limits how much of it is read.

    Raises:
        TooMuchError: It is JSON text that is too large.
    """
    own = Node(parse_json(obj), budget=budget)
    raw = own.raw
    envelope = _http_envelope(own)
    if envelope is not None:
        status, inner = envelope
        failed = status >= 400
        body = own.derive(parse_json(inner))
        body = _error_body(body) if failed else body
        return ResponseShape(own, body, status, failed=failed, request_id=_request_id(own, body))
    if isinstance(raw, BaseException):
        return _shape_exception(raw, own)
    return ResponseShape(own, own, None, *_type_names(raw), request_id=_request_id(own, own))


def parse_json(raw: Any) -> Any:
    """Return the value of JSON text or bytes; return anything else unchanged.

    Raises:
        TooMuchError: The JSON is too long or nested too deeply.
    """
    raw = safe_value(raw)
    if isinstance(raw, bytes | bytearray | memoryview):
        raw = bytes(raw).decode("utf-8", "replace")
    if not isinstance(raw, str) or not _JSON.match(raw):
        return raw
    if len(raw) > _MAX_JSON_LENGTH:
        raise ResponseTooLargeError("the response is longer than demur can read")
    try:
        return json.loads(raw.lstrip("\ufeff"))
    except ValueError:
        return raw
    except RecursionError:
        raise ResponseTooLargeError("the response has too many levels") from None


def fields_without(node: Node, *without: str) -> dict[str, Any]:
    """Return the fields of an object by name, except the given ones."""
    return {name: field.raw for name, field in node.fields() if name not in without}


def _shape_exception(error: BaseException, own: Node) -> ResponseShape:
    response = own["response"]
    body = next(_error_bodies(own, response), ABSENT)
    places = (own, response, response["ResponseMetadata"])
    status = next((found for place in places if (found := _http_status(place))), None)
    types, package = _type_names(error)
    return ResponseShape(
        own,
        _error_body(body),
        status,
        types,
        package,
        _exception_message(error),
        failed=True,
        request_id=_request_id(own, body) or _request_id(response, response),
    )


def _error_bodies(own: Node, response: Node) -> Iterator[Node]:
    """Yield the possible bodies of an exception, the likeliest first."""
    content = own.derive(_response_content(response))
    for place in (own["body"], content, response, own["details"]):
        value = parse_json(place.raw)
        if isinstance(value, Mapping) and value:
            yield own.derive(value)
    # Texts that are not JSON, such as a proxy's error page, come last.
    for place in (own["body"], content):
        if isinstance(parse_json(place.raw), str):
            yield own.derive(parse_json(place.raw))


def _http_envelope(node: Node) -> tuple[int, Any] | None:
    """Return status and body of an HTTP response: an object, a pair, or a mapping."""
    raw = node.raw
    if isinstance(raw, tuple) and len(raw) == 2 and _is_status(raw[0]):
        return raw[0], raw[1]
    if isinstance(raw, BaseException) or raw is None or isinstance(raw, str | int | float):
        return None
    status = _http_status(node)
    if status is None:
        return None
    if isinstance(raw, Mapping):
        return (status, raw["body"]) if "body" in raw else None
    content = _response_content(node)
    return None if content is None else (status, content)


def _response_content(node: Node) -> Any:
    """Return the body of an HTTP response if it was read already; never read it here."""
    kept = getattr(node.raw, "__dict__", None)
    if isinstance(kept, dict) and "_content" in kept:
        return kept["_content"] or None
    for name in ("content", "text", "body", "data"):
        found = node[name].raw
        if isinstance(found, str | bytes | Mapping):
            return found
    return None


def _error_body(body: Node) -> Node:
    """Return the body of an error, with `error` added if the SDK has unwrapped it."""
    raw = body.raw
    bare = isinstance(raw, Mapping) and not {"error", "Error", "errors"} & set(raw)
    if bare and {"message", "code", "type"} & set(raw) and not {"choices", "candidates"} & set(raw):
        return body.derive({"error": raw})
    return body


def _http_status(node: Node) -> int | None:
    for name in _STATUSES:
        found = node[name].raw
        if _is_status(found):
            return int(found)
    return None


def _is_status(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599


def _request_id(own: Node, body: Node) -> str | None:
    for node in (own, body, body["ResponseMetadata"]):
        for name in _REQUEST_IDS:
            if found := node[name].text:
                return found
    return _header_request_id(own["headers"]) or _header_request_id(own["response"]["headers"])


def _header_request_id(headers: Node) -> str | None:
    return next((found for name in _HEADERS if (found := headers[name].text)), None)


def _type_names(raw: Any) -> tuple[tuple[str, ...], str]:
    kinds = type(raw).__mro__[:-1]
    package = str(getattr(type(raw), "__module__", "")).partition(".")[0]
    return tuple(kind.__name__ for kind in kinds), package


def _exception_message(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE_LENGTH]
    except Exception:  # noqa: BLE001 - someone else's __str__ may raise anything
        return ""
