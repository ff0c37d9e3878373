"""The middleware: checks request bodies before an app reads them, and answers refusals.

An app may take several paths for one place: a trailing line break or slash may not matter to it.
Every path that an app might take for a guarded one is checked too.
"""

import re
from collections.abc import Iterable, Iterator

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demur.enforce.result import Refused
from demur.errors import InputError, InputTypeError
from demur.integrations.web.guard import (
    PromptGuard,
    UnusableError,
    check_length,
    refusal_response,
)

_PARAMETER = re.compile(r"\{\w+(?::(?P<kind>\w+))?\}|\*")
# Kinds of parameters that match one segment; others may match several.
_SEGMENT_KINDS = (None, "str", "int", "float", "uuid")
_TRAILING_NOISE = re.compile(r"[/\s\x00-\x1f\x7f]+\Z")
_SLASHES = re.compile(r"/+")


class PathPatterns:
    """Paths by patterns: `/chat`, `/v1/*` for all below, `/chats/{id}` as in a route."""

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise InputTypeError.wrong_type("`paths`", "a list of patterns", patterns)
        forms = [form for one in patterns for form in {one, one.rstrip("/") or "/"}]
        if not forms:
            raise InputError("no paths, so there is nothing to check", where="paths")
        self._patterns = list(map(_compile_pattern, forms))

    def match_request(self, scope: Scope) -> bool:
        """Return whether a request's path matches a pattern."""
        return any(one.fullmatch(form) for form in _path_forms(scope) for one in self._patterns)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    if not pattern.startswith(("/", "*")):
        raise InputError(f"`{pattern}` is not a path", where="paths", help="begin it with `/`")
    regex, end = "", 0
    for found in _PARAMETER.finditer(pattern):
        one_segment = found[0] != "*" and found["kind"] in _SEGMENT_KINDS
        regex += _escape_literal(pattern[end : found.start()]) + ("[^/]+" if one_segment else ".*")
        end = found.end()
    return re.compile(regex + _escape_literal(pattern[end:]), re.DOTALL)


def _escape_literal(text: str) -> str:
    if not set(text).isdisjoint("{}[]?"):
        help_text = "use `*` for anything, `{name}` for one segment"
        raise InputError(f"`{text}` cannot be matched", where="paths", help=help_text)
    return re.escape(text)


def _path_forms(scope: Scope) -> Iterator[str]:
    """Yield the forms of a request's path that an app may treat as the same."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    is_below = path == root or path.startswith(f"{root}/")
    for one in {path, path[len(root) :] if is_below else path}:
        yield from {one, _SLASHES.sub("/", one), _TRAILING_NOISE.sub("", one) or "/"}
        yield _TRAILING_NOISE.sub("", _SLASHES.sub("/", one)) or "/"


class PromptGuardMiddleware:
    """Checks the bodies of requests to `paths`, and answers each `Refused` of the app.

    `paths` are patterns such as `/chat`, `/chats/{id}` or `/v1/*`. Requests without a body
    pass. The app can still read the body; the check result is `request.state.check_result`.
    Without a guard, the middleware only answers refusals of the app. demur checks no responses.

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

        async def send_tracked(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._handle_http(scope, receive, send_tracked)
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
                request = Request(scope, _replay_body(body, receive))
                result, changed = await guard.check(request, body)
            except HTTPException as error:
                # Raised by the app's functions; outside its routes nothing else would answer it.
                answer = PlainTextResponse(error.detail, error.status_code, error.headers)
                await answer(scope, receive, send)
                return
            scope.setdefault("state", {})["check_result"] = result
            if changed is not body:
                body, scope = changed, _set_length(scope, len(changed))
        await self.app(scope, _replay_body(body, receive), send)


def _set_length(scope: Scope, length: int) -> Scope:
    """Return the scope of a request whose body has that many bytes."""
    others = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
    return {**scope, "headers": [*others, (b"content-length", str(length).encode())]}


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
            raise UnusableError.too_large(max_bytes)
    return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first replays a body that was already read."""
    bodies = iter([body])

    async def receive_replayed() -> Message:
        for whole in bodies:
            return {"type": "http.request", "body": whole, "more_body": False}
        return await receive()

    return receive_replayed
