"""The ASGI application: each route as an endpoint, and all of them behind one entry point.

An endpoint checks in the order of cost: caller, rate, role, and only then the body, which it
reads up to a size and a time. Every failure becomes a problem with a reason code; no internals
of demur are shown.
"""

import asyncio
import logging
import re
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Message, Receive, Scope, Send

from demur.codes.reason_code import ReasonCode
from demur.emit.envelope import PROBLEM_MEDIA_TYPE
from demur.errors import DemurError, MissingExtraError
from demur.gate.rate import LimiterUnavailableError
from demur.listener import is_loopback
from demur.service.access import TRACE, CallWatch, WatchedCall
from demur.service.authentication import LOCAL, NOBODY, Principal
from demur.service.calls import (
    SECURITY_HEADERS,
    ApiAnswer,
    ApiCall,
    ApiRoute,
    check_host,
    check_origin,
    format_event,
    is_forwarded,
    read_body,
    read_headers,
    read_query,
    read_token,
    safe_headers,
    stream_body,
    with_security,
)
from demur.service.cookies import SESSION_COOKIE, CallOrigin, read_cookie, read_origin
from demur.service.json_body import encode_json
from demur.service.problem import (
    ProblemError,
    forbidden,
    invalid_call,
    problem_details,
    unavailable,
)
from demur.service.routes import ROUTES
from demur.service.service import Service
from demur.store.backend import StorageError

_log = logging.getLogger("demur.service")
_API_PREFIX = "/v1/"
_NO_SLOT = nullcontext()
_NO_ORIGIN = CallOrigin()
_MAX_LINGER_S = 2.0
_PATH_CONVERTER = re.compile(r":\w+\}")


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
        # The route as metrics and the access log name it.
        self.pattern = _PATH_CONVERTER.sub("}", route.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        trace: WatchedCall | None = scope.get(TRACE)
        if trace is not None:
            trace.route = self.pattern
        if not self.route.stream:
            await self._reply(scope, receive, send)
            return
        linger_s = min(self._service.settings.body_timeout_s, _MAX_LINGER_S)
        receive, send = _read_on_at_end(receive, send, linger_s)
        try:
            # A stream holds its slot until its last event is sent.
            with self._service.reserve_stream_slot():
                await self._reply(scope, receive, send)
        except ProblemError as error:
            await send_answer(await self.error_answer(error, ErrorContext()), send)

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = ErrorContext()
        try:
            context.headers = read_headers(scope["headers"])
            answer = await self._answer_call(scope, context, receive)
        except ProblemError as error:
            answer = await self.error_answer(error, context)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            answer = await self.error_answer(self._problem_from(error), context)
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    async def error_answer(self, error: ProblemError, context: "ErrorContext") -> ApiAnswer:  # noqa: ARG002 - pages do
        """Return the answer for an error."""
        return ApiAnswer(
            encode_json(problem_details(error)), error.status, PROBLEM_MEDIA_TYPE, error.headers
        )

    async def _answer_call(
        self, scope: Scope, context: "ErrorContext", receive: Receive
    ) -> ApiAnswer:
        headers = context.headers
        host, method = headers.get("host", ""), scope["method"]
        check_host(host, self._names)
        check_origin(method, headers.get("sec-fetch-site", ""), headers.get("origin", ""), host)
        origin = context.origin = self._origin_of(scope, headers)
        caller = context.caller = await self._identify_caller(scope, headers, origin)
        if (trace := scope.get(TRACE)) is not None:
            trace.caller = caller.name
        await self._check_access(caller)
        query = read_query(scope["query_string"], self._parameters)
        path = scope.get("path_params", {})
        # Databases do not store NUL in a text, so nothing can have such a name.
        if any("\0" in value for value in path.values()):
            raise invalid_call(422, "a path has no NUL")
        call = ApiCall(
            self._service, caller, path, query, b"", headers, receive=receive, origin=origin
        )
        if method in {"GET", "HEAD"}:
            return await self._run_handler(call)
        if self.route.stream:
            return await self._open_stream(call, receive)
        with self._service.reserve_log_slot() if self.route.log else _NO_SLOT:
            timeout_s = self._service.settings.body_timeout_s
            body = await read_body(self.route, headers, receive, self._max_bytes, timeout_s)
            return await self._run_handler(call._replace(body=body))

    async def _open_stream(self, call: ApiCall, receive: Receive) -> ApiAnswer:
        settings = self._service.settings
        parts = stream_body(
            self.route,
            call.headers,
            receive,
            self._max_bytes,
            first_s=settings.body_timeout_s,
            total_s=settings.stream_timeout_s,
        )
        try:
            answer = await self.route.handler(call._replace(parts=parts))
        except ProblemError as error:
            error.headers["connection"] = "close"
            raise
        assert answer.events is not None
        return answer._replace(events=self._report_failures(answer.events))

    async def _report_failures(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the events of a stream; an error becomes the last event."""
        try:
            async for event in events:
                yield event
        except ProblemError as problem:
            error = problem
        except Exception as failure:  # noqa: BLE001 - every failure becomes an event
            error = self._problem_from(failure)
        else:
            return
        yield format_event("problem", problem_details(error))

    async def _run_handler(self, call: ApiCall) -> ApiAnswer:
        size, run = len(call.body), MeasuredRun(self.route.handler(call))
        try:
            limit_s = self._service.settings.timeout_s + self.route.waits_s
            async with asyncio.timeout(limit_s):
                answer = await run
                size += len(answer.content)
                return answer
        except TimeoutError:
            raise unavailable("the call timed out", ReasonCode.INTERNAL_ERROR) from None
        finally:
            self._service.budgets.charge(call.caller.name, size=size, cpu_s=run.cpu_s)

    def _origin_of(self, scope: Scope, headers: Mapping[str, str]) -> CallOrigin:
        """Return the origin of a call, which matters only to pages and cookies."""
        if self._parameters is not None and "cookie" not in headers:
            return _NO_ORIGIN
        behind_tls = self._service.settings.behind_tls
        return read_origin(scope, headers, self._service.proxies, behind_tls=behind_tls)

    async def _identify_caller(
        self, scope: Scope, headers: Mapping[str, str], origin: CallOrigin
    ) -> Principal:
        token, door = read_token(headers), self._service.authenticator
        if token is None and "cookie" in headers:
            session = read_cookie(headers, SESSION_COOKIE, is_secure=origin.is_secure)
            caller = door.cached_session(session)
            if caller is None and self.route.role is not None:
                caller = await door.find_session(session)
            if caller is not None:
                return caller
        # Calls that a proxy forwarded do not count as local.
        is_local = (
            token is None
            and (client := scope.get("client")) is not None
            and is_loopback(client[0])
            and not is_forwarded(headers)
        )
        caller = door.cached_principal(token, is_local=is_local)
        if caller is None and self.route.role is not None:
            return await door.authenticate(token, is_local=is_local)
        return caller or NOBODY

    async def _check_access(self, caller: Principal) -> None:
        """Refuse a caller that lacks the role or exceeds its rate."""
        role = self.route.role
        if role is None:
            return
        await self._service.count_call(caller)
        if not caller.has_role(role):
            if caller == LOCAL:
                raise forbidden(
                    f"a call without a key has no role `{role}`",
                    help=f"`demur keys create --role {role}` makes a key that has it",
                )
            raise forbidden(f"this {caller.kind} has no role `{role}`")
        if self.route.all_tenants and caller.tenant is not None:
            raise forbidden(f"this needs a {caller.kind} of all tenants")

    def _problem_from(self, error: Exception) -> ProblemError:
        """Return the problem that a caller gets for an error."""
        if isinstance(error, StorageError | LimiterUnavailableError):
            _log.warning("%s: %s", self.route.name, error.problem)
            return unavailable("the store is unavailable")
        if isinstance(error, MissingExtraError):
            code = ReasonCode.GUARDRAIL_UNAVAILABLE
            return ProblemError(501, code, error.problem, help=error.help)
        # Errors of a caller are errors of value, type or key. All others are demur's own.
        is_callers = isinstance(error, ValueError | TypeError | LookupError)
        if isinstance(error, DemurError) and is_callers:
            return invalid_call(422, error.problem, error.where, error.help)
        # Log only the type and the traceback: an error's text may quote the call.
        place = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s failed: %s\n%s", self.route.name, type(error).__name__, place)
        return ProblemError(500, ReasonCode.INTERNAL_ERROR, "internal error in demur")


class ErrorContext:
    """What is known of a call when it fails: as far as it came, its headers, origin and caller."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}
        self.origin = _NO_ORIGIN
        self.caller = NOBODY


class MeasuredRun:
    """Awaits a handler, and adds up the processor time of its own steps on the event loop."""

    def __init__(self, handler: Awaitable[ApiAnswer]) -> None:
        self._steps = handler.__await__()
        self.cpu_s = 0.0

    def __await__(self) -> Generator[Any, None, ApiAnswer]:
        error: BaseException | None = None
        while True:
            began = time.thread_time()
            try:
                step = next(self._steps) if error is None else self._steps.throw(error)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                self.cpu_s += time.thread_time() - began
            error = None
            try:
                yield step
            except BaseException as thrown:  # noqa: BLE001 - the handler gets it
                error = thrown


_CONTENT_TYPES = {
    kind: (b"content-type", kind.encode()) for kind in ("application/json", PROBLEM_MEDIA_TYPE)
}


async def send_answer(answer: ApiAnswer, send: Send, *, head: bool = False) -> None:
    """Send an answer with the security headers."""
    kind = _CONTENT_TYPES.get(answer.media_type) or (b"content-type", answer.media_type.encode())
    if answer.events is not None:
        await _send_events(answer, answer.events, kind, send, head=head)
        return
    length = (b"content-length", b"%d" % len(answer.content))
    headers = (
        with_security([kind, length, *safe_headers(answer.headers)])
        if answer.headers
        else [kind, length, *SECURITY_HEADERS]
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.content})


async def _send_events(
    answer: ApiAnswer,
    events: AsyncIterator[bytes],
    kind: tuple[bytes, bytes],
    send: Send,
    *,
    head: bool,
) -> None:
    # The caller may still be sending when the last event is out: then nobody reads the rest.
    own = [kind, (b"connection", b"close"), *safe_headers(answer.headers)]
    headers = with_security(own)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for event in _no_events() if head else events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _no_events() -> AsyncIterator[bytes]:
    return
    yield b""


def _read_on_at_end(receive: Receive, send: Send, linger_s: float) -> tuple[Receive, Send]:
    """Return functions that drop the rest of a body before they end the answer to it.

    To close a connection with unread data resets it, and the client may lose the last event.
    """
    is_complete = False

    async def read() -> Message:
        nonlocal is_complete
        message = await receive()
        is_complete = not message.get("more_body", False)
        return message

    async def write(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            if message["body"]:
                await send({**message, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(linger_s):
                    while not is_complete:
                        await read()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return read, write


_UNROUTED_PROBLEMS = {
    404: ("no such route", "`GET /openapi.json` lists the routes"),
    405: ("the route does not support this method", "the header `allow` names the methods"),
}


def build_app(service: Service, pages: Iterable[StarletteRoute] = ()) -> Starlette:
    """Return the ASGI application of a service. `pages` are those of the dashboard."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.close()

    endpoints: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
        endpoints.setdefault(route.path, {})[route.method] = Endpoint(route, service)
    tables = [StarletteRoute(path, _MethodTable(methods)) for path, methods in endpoints.items()]
    app = _DirectStarlette(
        endpoints,
        _watch_calls(service),
        routes=[*tables, *pages],
        exception_handlers={HTTPException: _answer_unrouted},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


def _watch_calls(service: Service) -> CallWatch | None:
    access_log = service.settings.access_log
    if service.metrics is None and not access_log:
        return None
    return CallWatch(service.metrics, access_log=access_log, clock=service.clock)


class _DirectStarlette(Starlette):
    """Dispatches paths without free parts to their endpoints, without a search."""

    def __init__(
        self,
        endpoints: Mapping[str, Mapping[str, Endpoint]],
        watch: CallWatch | None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._watch = watch
        self._direct: dict[tuple[str, str], tuple[Endpoint, Mapping[str, str]]] = {}
        for path, methods in endpoints.items():
            method, endpoint = next(iter(methods.items()))
            if "{" not in path:
                self._direct[method, path] = endpoint, {}
            for name, schema in endpoint.route.path_schemas.items():
                for value in schema.get("enum", ()):
                    whole = path.replace(f"{{{name}}}", value)
                    self._direct[method, whole] = endpoint, {name: value}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        if self._watch is None or scope["type"] != "http":
            await self._dispatch(scope, receive, send)
        else:
            await self._watch.watch_call(self._dispatch, scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = scope["type"] == "http"
        direct = self._direct.get((scope["method"], scope["path"])) if http else None
        if direct is None:
            await super().__call__(scope, receive, send)
        else:
            endpoint, scope["path_params"] = direct
            await endpoint(scope, receive, send)


class _MethodTable:
    """All methods of one path."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        head = {"HEAD": endpoints["GET"]} if "GET" in endpoints else {}
        self._endpoints = {**endpoints, **head}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a call by its method."""
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise HTTPException(405, headers={"allow": ", ".join(sorted(self._endpoints))})
        await endpoint(scope, receive, send)


async def _answer_unrouted(_: Request, error: Exception) -> Response:
    """Answer a call that matches no route."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    text, help_text = _UNROUTED_PROBLEMS.get(status, ("invalid request", None))
    problem = invalid_call(status, text, help=help_text)
    headers = {name.decode(): value.decode() for name, value in SECURITY_HEADERS}
    return Response(
        encode_json(problem_details(problem)),
        status,
        {**headers, **(error.headers or {})},
        PROBLEM_MEDIA_TYPE,
    )
