"""An endpoint: one route as an ASGI application.

It checks in the order of cost: caller, rate, role, and only then the body, which it reads up to
a size and within a time. Every failure becomes a problem with a reason code; no internals of
demur are shown.
"""

import asyncio
import logging
import traceback
from collections.abc import Mapping
from contextlib import nullcontext

from starlette.types import Receive, Scope, Send

from demur.codes.reason_code import ReasonCode
from demur.errors import DemurError, MissingExtraError
from demur.gate.limiter import LimiterUnavailableError
from demur.service.access import NOBODY, Principal
from demur.service.body import read_body
from demur.service.call import Answer, Call, json_bytes
from demur.service.headers import (
    SECURITY,
    check_host,
    check_origin,
    is_forwarded,
    read_headers,
    safe_headers,
    token_of,
    with_security,
)
from demur.service.parameters import read_query
from demur.service.problem import MEDIA_TYPE, ProblemError, invalid, problem_of
from demur.service.route import Route
from demur.service.service import Service
from demur.service.settings import is_loopback
from demur.store.backend import StorageError

__all__ = ["Endpoint", "send_answer"]

_log = logging.getLogger("demur.service")
_API = "/v1/"
_NOTHING = nullcontext()


class Endpoint:
    """Answers the calls of one route."""

    def __init__(self, route: Route, service: Service) -> None:
        self.route = route
        self._service = service
        settings = service.settings
        self._largest = settings.largest_log if route.log else settings.largest_body
        self._names = frozenset(name.lower() for name in (settings.host, *settings.hosts))
        # Pages ignore unknown parameters, which links may carry. The API rejects them as typos.
        self._known = route.query if route.path.startswith(_API) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        headers: dict[str, str] = {}
        try:
            headers = read_headers(scope["headers"])
            answer = await self._answered(scope, headers, receive)
        except ProblemError as error:
            answer = self.refused(error, headers)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            answer = self.refused(self._problem(error), headers)
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    def refused(self, error: ProblemError, headers: Mapping[str, str]) -> Answer:  # noqa: ARG002 - pages do
        """Return the answer for an error."""
        return Answer(json_bytes(problem_of(error)), error.status, MEDIA_TYPE, error.headers)

    async def _answered(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Answer:
        host, method = headers.get("host", ""), scope["method"]
        check_host(host, self._names)
        check_origin(method, headers.get("sec-fetch-site", ""), headers.get("origin", ""), host)
        caller = await self._caller(scope, headers)
        await self._admitted(caller)
        query = read_query(scope["query_string"], self._known)
        call = Call(self._service, caller, scope.get("path_params", {}), query, b"", headers)
        if method in {"GET", "HEAD"}:
            return await self._handled(call)
        with self._service.taking_log() if self.route.log else _NOTHING:
            timeout_s = self._service.settings.body_timeout_s
            body = await read_body(self.route, headers, receive, self._largest, timeout_s)
            return await self._handled(call._replace(body=body))

    async def _handled(self, call: Call) -> Answer:
        try:
            async with asyncio.timeout(self._service.settings.timeout_s):
                return await self.route.handler(call)
        except TimeoutError:
            raise _late() from None

    async def _caller(self, scope: Scope, headers: Mapping[str, str]) -> Principal:
        token, door = token_of(headers), self._service.doorkeeper
        # Calls that a proxy forwarded do not count as local.
        here = token is None and _is_here(scope, headers)
        known = door.remembered(token, here=here)
        if known is not None:
            return known
        return NOBODY if self.route.role is None else await door.admit(token, here=here)

    async def _admitted(self, caller: Principal) -> None:
        """Refuse a caller that lacks the role or exceeds its rate."""
        role = self.route.role
        if role is None:
            return
        await self._service.count(caller)
        if not caller.may(role):
            raise ProblemError(403, ReasonCode.PERMISSION_DENIED, f"this key has no role `{role}`")
        if self.route.all_tenants and caller.tenant is not None:
            raise ProblemError(403, ReasonCode.PERMISSION_DENIED, "this needs a key of all tenants")

    def _problem(self, error: Exception) -> ProblemError:
        """Return the problem that a caller gets for an error."""
        if isinstance(error, StorageError | LimiterUnavailableError):
            _log.warning("%s: %s", self.route.name, error.problem)
            return _unavailable()
        if isinstance(error, MissingExtraError):
            return ProblemError(
                501, ReasonCode.GUARDRAIL_UNAVAILABLE, error.problem, help=error.help
            )
        # Errors of a caller are errors of value, type or key. All others are demur's own.
        if isinstance(error, DemurError) and isinstance(
            error, ValueError | TypeError | LookupError
        ):
            return invalid(422, error.problem, error.where, error.help)
        # Log only the type and the traceback: an error's text may quote the call.
        place = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s failed: %s\n%s", self.route.name, type(error).__name__, place)
        return _failed()


def _is_here(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return whether a call came directly from this machine, not through a proxy."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0]) and not is_forwarded(headers)


_PLAIN = {kind: (b"content-type", kind.encode()) for kind in ("application/json", MEDIA_TYPE)}


async def send_answer(answer: Answer, send: Send, *, head: bool = False) -> None:
    """Send an answer with the security headers."""
    kind = _PLAIN.get(answer.media_type) or (b"content-type", answer.media_type.encode())
    length = (b"content-length", b"%d" % len(answer.content))
    headers = (
        with_security([kind, length, *safe_headers(answer.headers)])
        if answer.headers
        else [kind, length, *SECURITY]
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.content})


def _unavailable() -> ProblemError:
    return ProblemError(
        503,
        ReasonCode.STORAGE_UNAVAILABLE,
        "the store is unavailable",
        headers={"retry-after": "1"},
    )


def _late() -> ProblemError:
    return ProblemError(
        503,
        ReasonCode.INTERNAL_ERROR,
        "the call timed out",
        headers={"retry-after": "1"},
    )


def _failed() -> ProblemError:
    return ProblemError(500, ReasonCode.INTERNAL_ERROR, "internal error in demur")
