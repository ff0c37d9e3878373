"""The middleware: checks request bodies before an app reads them, and answers refusals."""

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demur.enforce.ruling import Refused
from demur.integrations.web.guard import PromptGuard, check_length
from demur.integrations.web.paths import PathPatterns
from demur.integrations.web.problem import UnusableRequestError, refusal_response

__all__ = ["PromptGuardMiddleware"]


class PromptGuardMiddleware:
    """Checks the bodies of requests to `paths`, and answers each `Refused` of the app.

    `paths` are patterns such as `/chat`, `/chats/{id}` or `/v1/*`. Requests without a body
    pass. The app can still read the body; its ruling is `request.state.ruling`. Without a guard,
    the middleware only answers refusals of the app. Responses are not checked.

    Raises:
        InputError: A pattern is invalid, or there is none.
    """

    def __init__(
        self, app: ASGIApp, guard: PromptGuard | None = None, *, paths: Iterable[str] = ("*",)
    ) -> None:
        self.app = app
        self._guard = guard
        self._paths = PathPatterns(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def told(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._handle_http(scope, receive, told)
        except Refused as refused:
            if started:
                raise
            response = await refusal_response(Request(scope), refused)
            await response(scope, receive, send)

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard = self._guard
        if guard is None or not self._paths.match_request(scope):
            await self.app(scope, receive, send)
            return
        body = await _read_body(scope, receive, guard.max_bytes)
        if body is None:
            return  # the client has disconnected
        # INVARIANT: a body reaches the app only if it was allowed, and exactly as it was judged.
        if body:
            try:
                ruling = await guard.check(Request(scope, _replay_body(body, receive)), body)
            except HTTPException as error:
                # Raised by the app's functions; outside its routes nothing else would answer it.
                answer = PlainTextResponse(error.detail, error.status_code, error.headers)
                await answer(scope, receive, send)
                return
            scope.setdefault("state", {})["ruling"] = ruling
        await self.app(scope, _replay_body(body, receive), send)


async def _read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, or None if the client disconnected."""
    check_length(Headers(scope=scope), max_bytes)
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > max_bytes:
            raise UnusableRequestError.too_large(max_bytes)
    return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first replays a body that was already read."""
    told = iter([body])

    async def replayed() -> Message:
        for whole in told:
            return {"type": "http.request", "body": whole, "more_body": False}
        return await receive()

    return replayed
