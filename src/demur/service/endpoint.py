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
from demur.service.call import ApiAnswer, ApiCall, encode_json
from demur.service.headers import (
    SECURITY_HEADERS,
    check_host,
    check_origin,
    is_forwarded,
    read_headers,
    safe_headers,
    read_token,
    with_security,
)
from demur.service.parameters import read_query
from demur.service.problem import PROBLEM_MEDIA_TYPE, ProblemError, invalid_request, problem_details
from demur.service.route import ApiRoute
from demur.service.service import Service
from demur.service.settings import is_loopback
from demur.store.backend import StorageError

__all__ = ["Endpoint", "send_answer"]

_log = logging.getLogger("demur.service")
_API_PREFIX = "/v1/"
_NO_SLOT = nullcontext()


class Endpoint:
    """Answers the calls of one route."""

    def __init__(self, route: ApiRoute, service: Service) -> None:
        self.route = route
        self._service = service
        settings = service.settings
        self._max_bytes = settings.largest_log if route.log else settings.largest_body
        self._names = frozenset(name.lower() for name in (settings.host, *settings.hosts))
        # Pages ignore unknown parameters, which links may carry. The API rejects them as typos.
        self._parameters = route.query if route.path.startswith(_API_PREFIX) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        headers: dict[str, str] = {}
        try:
            headers = read_headers(scope["headers"])
            answer = await self._answer_call(scope, headers, receive)
        except ProblemError as error:
            answer = self.error_answer(error, headers)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            answer = self.error_answer(self._problem_from(error), headers)
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    def error_answer(self, error: ProblemError, headers: Mapping[str, str]) -> ApiAnswer:  # noqa: ARG002 - pages do
        """Return the answer for an error."""
        return ApiAnswer(
            encode_json(problem_details(error)), error.status, PROBLEM_MEDIA_TYPE, error.headers
        )

    async def _answer_call(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive
    ) -> ApiAnswer:
        host, method = headers.get("host", ""), scope["method"]
        check_host(host, self._names)
        check_origin(method, headers.get("sec-fetch-site", ""), headers.get("origin", ""), host)
        caller = await self._identify_caller(scope, headers)
        await self._check_access(caller)
        query = read_query(scope["query_string"], self._parameters)
        call = ApiCall(self._service, caller, scope.get("path_params", {}), query, b"", headers)
        if method in {"GET", "HEAD"}:
            return await self._run_handler(call)
        with self._service.reserve_log_slot() if self.route.log else _NO_SLOT:
            timeout_s = self._service.settings.body_timeout_s
            body = await read_body(self.route, headers, receive, self._max_bytes, timeout_s)
            return await self._run_handler(call._replace(body=body))

    async def _run_handler(self, call: ApiCall) -> ApiAnswer:
        try:
            async with asyncio.timeout(self._service.settings.timeout_s):
                return await self.route.handler(call)
        except TimeoutError:
            raise _timeout_error() from None

    async def _identify_caller(self, scope: Scope, headers: Mapping[str, str]) -> Principal:
        token, door = read_token(headers), self._service.authenticator
        # Calls that a proxy forwarded do not count as local.
        here = token is None and _is_local_call(scope, headers)
        known = door.cached_principal(token, is_local=here)
        if known is not None:
            return known
        return NOBODY if self.route.role is None else await door.authenticate(token, is_local=here)

    async def _check_access(self, caller: Principal) -> None:
        """Refuse a caller that lacks the role or exceeds its rate."""
        role = self.route.role
        if role is None:
            return
        await self._service.count_call(caller)
        if not caller.has_role(role):
            raise ProblemError(403, ReasonCode.PERMISSION_DENIED, f"this key has no role `{role}`")
        if self.route.all_tenants and caller.tenant is not None:
            raise ProblemError(403, ReasonCode.PERMISSION_DENIED, "this needs a key of all tenants")

    def _problem_from(self, error: Exception) -> ProblemError:
        """Return the problem that a caller gets for an error."""
        if isinstance(error, StorageError | LimiterUnavailableError):
            _log.warning("%s: %s", self.route.name, error.problem)
            return _store_unavailable_error()
        if isinstance(error, MissingExtraError):
            return ProblemError(
                501, ReasonCode.GUARDRAIL_UNAVAILABLE, error.problem, help=error.help
            )
        # Errors of a caller are errors of value, type or key. All others are demur's own.
        if isinstance(error, DemurError) and isinstance(
            error, ValueError | TypeError | LookupError
        ):
            return invalid_request(422, error.problem, error.where, error.help)
        # Log only the type and the traceback: an error's text may quote the call.
        place = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s failed: %s\n%s", self.route.name, type(error).__name__, place)
        return _internal_error()


def _is_local_call(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return whether a call came directly from this machine, not through a proxy."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0]) and not is_forwarded(headers)


_CONTENT_TYPES = {
    kind: (b"content-type", kind.encode()) for kind in ("application/json", PROBLEM_MEDIA_TYPE)
}


async def send_answer(answer: ApiAnswer, send: Send, *, head: bool = False) -> None:
    """Send an answer with the security headers."""
    kind = _CONTENT_TYPES.get(answer.media_type) or (b"content-type", answer.media_type.encode())
    length = (b"content-length", b"%d" % len(answer.content))
    headers = (
        with_security([kind, length, *safe_headers(answer.headers)])
        if answer.headers
        else [kind, length, *SECURITY_HEADERS]
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.content})


def _store_unavailable_error() -> ProblemError:
    return ProblemError(
        503,
        ReasonCode.STORAGE_UNAVAILABLE,
        "the store is unavailable",
        headers={"retry-after": "1"},
    )


def _timeout_error() -> ProblemError:
    return ProblemError(
        503,
        ReasonCode.INTERNAL_ERROR,
        "the call timed out",
        headers={"retry-after": "1"},
    )


def _internal_error() -> ProblemError:
    return ProblemError(500, ReasonCode.INTERNAL_ERROR, "internal error in demur")
