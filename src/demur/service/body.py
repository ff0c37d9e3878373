"""Read the body of a call, up to a size and within a time."""

import asyncio
from collections.abc import Mapping

from starlette.types import Receive

from demur.service.problem import ProblemError, invalid_request
from demur.service.route import ApiRoute

__all__ = ["LOG_TYPES", "read_body"]

LOG_TYPES = (
    *("text/plain", "application/octet-stream", "application/gzip"),
    *("application/zstd", "application/x-ndjson"),
)
# Close the connection, so that the rest of the body need not be read.
_CLOSE_HEADERS = {"connection": "close"}


async def read_body(
    route: ApiRoute, headers: Mapping[str, str], receive: Receive, max_bytes: int, timeout_s: float
) -> bytes:
    """Return the whole body.

    Raises:
        ProblemError: It is too large, too slow, incomplete, or of another type.
    """
    try:
        _check_head(route, headers, max_bytes)
        async with asyncio.timeout(timeout_s):
            return await _read_parts(receive, max_bytes)
    except TimeoutError:
        raise _close_connection(
            invalid_request(408, f"the body was not received within {timeout_s:g} s")
        ) from None
    except ProblemError as error:
        raise _close_connection(error) from None


def _check_head(route: ApiRoute, headers: Mapping[str, str], max_bytes: int) -> None:
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large_error(max_bytes)
    if route.takes is None:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    allowed = LOG_TYPES if route.log else (route.body_type,)
    if kind not in allowed:
        raise invalid_request(415, f"the body must be {' or '.join(allowed)}", "content-type")


async def _read_parts(receive: Receive, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise invalid_request(400, "the body is incomplete")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large_error(max_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large_error(max_bytes: int) -> ProblemError:
    return invalid_request(413, f"the body must not exceed {max_bytes} bytes")


def _close_connection(error: ProblemError) -> ProblemError:
    error.headers = {**error.headers, **_CLOSE_HEADERS}
    return error
