"""Starlette and FastAPI: prompts are looked at before a route runs, refusals leave as problems.

A `PromptGuard` knows where the prompt stands in a body and who asks. It is a dependency of
FastAPI, and what `RefusalMiddleware` looks at requests with. `refusal_response` makes problem
details (RFC 9457) of every `Refused`, wherever a route raised it.
"""

import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.emit.problem import MEDIA_TYPE, to_problem
from demur.errors import InputError, InputTypeError
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.gate import Gate
from demur.gate.ruling import Refused, Ruling
from demur.integrations.extras import missing_extra
from demur.model.refusal import Refusal

try:
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise missing_extra("web") from error

__all__ = ["LARGEST", "PromptGuard", "RefusalMiddleware", "prompt_text", "refusal_response"]

LARGEST = 1_000_000
_FRAMEWORK = "web"
_SPOKEN = ("prompt", "input", "messages")
# What goes wrong in a function that takes a body apart if the body is another one.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)

Who = Callable[[Request], Any]
Text = Callable[[Any], str | None]


class PromptGuard:
    """Guards the prompt in a JSON body; as a dependency of a route it gives the ruling.

    `text` finds the prompt in the body; None says that there is nothing to look at. `subject`,
    `tenant`, `run` and `key` are functions of the request, awaited where they need it: who
    asks, for whom, in which session, and whom rate limits count. A body has at most `largest`
    bytes.
    """

    def __init__(
        self,
        by: Enforcer | Gate,
        *,
        text: Text | None = None,
        subject: Who | None = None,
        tenant: Who | None = None,
        run: Who | None = None,
        key: Who | None = None,
        largest: int = LARGEST,
    ) -> None:
        self.enforcer = by if isinstance(by, Enforcer) else Enforcer(by)
        self.largest = largest
        self._text = prompt_text if text is None else text
        asked = {"subject": subject, "tenant": tenant, "run": run, "key": key}
        self._asked = {name: ask for name, ask in asked.items() if ask is not None}

    async def __call__(self, request: Request) -> Ruling:
        """Return the ruling on the prompt of a request, which may go ahead.

        Raises:
            Refused: It may not, or it cannot be read.
        """
        _check_length(Headers(scope=request.scope), self.largest)
        return await self.check(request, await request.body())

    async def check(self, request: Request, body: bytes) -> Ruling:
        """Return the ruling on a body that was read.

        Raises:
            Refused: The request may not go ahead, or it cannot be read.
        """
        if len(body) > self.largest:
            raise _too_large(self.largest)
        text = self._found(body)
        if text is None:
            return Ruling(Surface.INPUT)
        at = Occasion(
            framework=_FRAMEWORK, **{n: await _asked(a, request) for n, a in self._asked.items()}
        )
        return (await self.enforcer.aprompt(text, at)).or_raise()

    def _found(self, body: bytes) -> str | None:
        try:
            text = self._text(json.loads(body, object_pairs_hook=_object))
        except _UNREADABLE as error:
            raise _UnusableBody("no prompt can be read from the body") from error
        if text is not None and not isinstance(text, str):
            raise _UnusableBody("the prompt in the body is no text")
        return text


class RefusalMiddleware:
    """Looks at the bodies of requests to `paths`, and answers each `Refused` of the app.

    `paths` are patterns such as `/chat` or `/v1/*`. Requests without a body pass. The app
    reads the body as if nobody had; its ruling is `request.state.ruling`. Without a guard,
    refusals of the app are answered and nothing else happens. Responses are not touched.
    """

    def __init__(
        self, app: ASGIApp, guard: PromptGuard | None = None, *, paths: Iterable[str] = ("*",)
    ) -> None:
        if isinstance(paths, str):
            raise InputTypeError.expected("`paths`", "a list of patterns", paths)
        self.app = app
        self._guard = guard
        # With or without a slash at the end, an app may take it for the same place.
        self._paths = {form for path in paths for form in (path, path.rstrip("/"))}

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
            await self._handle(scope, receive, told)
        except Refused as refused:
            if started:
                raise
            response = await refusal_response(Request(scope), refused)
            await response(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard = self._guard
        if guard is None or not self._is_chosen(_path(scope)):
            await self.app(scope, receive, send)
            return
        body = await _read(scope, receive, guard.largest)
        if body is None:
            return  # nobody is there to be answered
        # INVARIANT: a body reaches the app only if it was allowed, and as it was judged.
        if body:
            ruling = await guard.check(Request(scope), body)
            scope.setdefault("state", {})["ruling"] = ruling
        await self.app(scope, _again(body, receive), send)

    def _is_chosen(self, path: str) -> bool:
        forms = {path, path.rstrip("/")}
        return any(fnmatchcase(form, one) for form in forms for one in self._paths)


async def refusal_response(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - the form of Starlette's handlers of exceptions
    """Return a refusal as problem details, with the words for a person as `words`.

    Use it as `app.add_exception_handler(Refused, refusal_response)`.
    """
    assert isinstance(refused, Refused)
    problem = {**to_problem(refused.refusal), "words": refused.ruling.words}
    if isinstance(refused, _UnusableBody):
        problem["status"] = refused.status
    return Response(
        msgspec.json.encode(problem),
        status_code=problem["status"],
        headers=_headers(refused.ruling),
        media_type=MEDIA_TYPE,
    )


def prompt_text(body: Any) -> str:
    """Return the words of whoever asks in a JSON body: `prompt`, `input` and `messages`.

    Of messages it takes all since the last answer of the assistant, and of their parts the
    texts.

    Raises:
        InputError: There are none.
    """
    found = [text for name in _SPOKEN if name in body for text in _spoken(body[name])]
    if not found:
        raise InputError("there is no prompt", help="pass `text=`, a function of the body")
    return "\n".join(found)


class _UnusableBody(Refused):
    """A request whose body nobody could look at."""

    def __init__(self, problem: str, status: int = 400) -> None:
        refusal = Refusal.of(ReasonCode.REQUEST_INVALID, problem, surface=Surface.INPUT)
        super().__init__(Ruling(Surface.INPUT, allowed=False, refusal=refusal))
        self.status = status


def _spoken(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in _since_last_answer(value):
            yield from _spoken(item)
    elif isinstance(value, dict):
        for name in ("content", "text"):
            yield from _spoken(value.get(name))


def _since_last_answer(items: Sequence[Any]) -> Sequence[Any]:
    """Return the items after the assistant's last answer; one that only begins is none."""
    answers = [isinstance(one, dict) and one.get("role") == "assistant" for one in items]
    end = len(items)
    while end and answers[end - 1]:
        end -= 1
    return items[next((n + 1 for n in range(end - 1, -1, -1) if answers[n]), 0) :]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Readers differ in which of the two they take: the app's might take the other one.
        raise ValueError("a key stands twice")
    return value


async def _asked(ask: Who, request: Request) -> Any:
    told = ask(request)
    return await told if inspect.isawaitable(told) else told


def _path(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _headers(ruling: Ruling) -> dict[str, str]:
    step = ruling.next_step
    wait = None if step is None else step.wait
    return {} if wait is None else {"retry-after": str(max(1, math.ceil(wait)))}


def _check_length(headers: Mapping[str, str], largest: int) -> None:
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > largest:
        raise _too_large(largest)


def _too_large(largest: int) -> _UnusableBody:
    return _UnusableBody(f"a body has at most {largest} bytes", 413)


async def _read(scope: Scope, receive: Receive, largest: int) -> bytes | None:
    """Return the whole body, or None if the client left."""
    _check_length(Headers(scope=scope), largest)
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > largest:
            raise _too_large(largest)
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read already."""
    told = iter([body])

    async def replayed() -> Message:
        for whole in told:
            return {"type": "http.request", "body": whole, "more_body": False}
        return await receive()

    return replayed
