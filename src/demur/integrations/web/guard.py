"""The guard of prompts in JSON bodies, and refusals as responses.

The sender writes the whole body: whoever writes the last message may have written those before
it, in anybody's name. So all messages are checked, unless the app says that it knows the history.
A part that cannot be read as text is refused, because a model may read it.
"""

import inspect
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self, Unpack

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.emit.envelope import PROBLEM_MEDIA_TYPE, to_problem
from demur.enforce.context import CallContext
from demur.enforce.describe import extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, Refused
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    adapt_enforcer,
    check_context,
    is_changed_fully,
    resolve_context,
)
from demur.integrations._kit.conversation import find_new_start
from demur.model.refusal import Refusal

_PROMPT_FIELDS = ("system", "instructions", "prompt", "input", "messages")
_TURN_FIELDS = ("input", "messages")
# The members of messages and parts that hold their content.
_CONTENT_FIELDS = ("content", "text", "parts")
# Messages and parts of any other type hold no text, but for example a picture.
_TEXT_KINDS = (
    "text",
    "input_text",
    "output_text",
    "refusal",
    "thinking",
    "message",
    "human",
    "ai",
    "system",
    "tool",
    "function",
    "function_call",
    "function_call_output",
    "tool_use",
    "tool_result",
)
# Members that identify a message or part, or name its kind: one word each.
_MARK_FIELDS = ("role", "type", "id", "status", "call_id", "tool_call_id", "tool_use_id")
_MARK_PATTERN = re.compile(r"[\w.:-]{0,100}", re.ASCII)
_HELP = "pass `text=`, a function of the body"


def prompt_text(body: Any, *, recheck_history: bool = True) -> str:
    """Return the text of `system`, `instructions`, `prompt`, `input` and `messages` in a JSON body.

    Messages of all roles count. Without `recheck_history`, only those since the last answer of
    the assistant do: that is for apps that know the earlier ones themselves.

    Raises:
        InputError: The body has no prompt, or a part of it is no text.
    """
    if not isinstance(body, dict):
        raise InputError("the body is not an object", help=_HELP)
    texts: list[str] = []
    for name in _PROMPT_FIELDS:
        content = body.get(name)
        if not recheck_history and name in _TURN_FIELDS and isinstance(content, list):
            content = content[find_new_start(content, _is_answer) :]
        if content is not None:
            texts += _part_texts(content)
    if not texts:
        raise InputError("the body has no prompt", help=_HELP)
    return "\n".join(texts)


def _is_answer(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _part_texts(value: Any) -> list[str]:
    """Return the texts of a value; each message and each part must have at least one."""
    if isinstance(value, list):
        found = [text for item in value for text in _part_texts(item)]
    else:
        if isinstance(value, dict) and value.get("type", "text") not in _TEXT_KINDS:
            raise InputError("a part has a type that is not text", help=_HELP)
        found = list(_value_texts(value))
    if not found:
        raise InputError("a part has no text", help=_HELP)
    return found


def _value_texts(value: Any) -> Iterator[str]:
    # INVARIANT: every text of a prompt is checked, except marks of one word.
    if isinstance(value, str):
        yield extract_texts(value)
    elif isinstance(value, list):
        for item in value:
            yield from _value_texts(item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if not _MARK_PATTERN.fullmatch(name):
                yield extract_texts(name)
            if inner and name in _CONTENT_FIELDS:
                yield from _part_texts(inner)
            elif not (
                name in _MARK_FIELDS
                and isinstance(inner, str)
                and _MARK_PATTERN.fullmatch(inner) is not None
            ):
                yield from _value_texts(inner)


class UnusableError(Refused):
    """The refusal of an unreadable request; `status` is the HTTP status of the answer."""

    def __init__(self, result: CheckResult, status: int = 400) -> None:
        super().__init__(result)
        self.status = status

    @classmethod
    def from_problem(
        cls, problem: str, status: int = 400, code: ReasonCode = ReasonCode.REQUEST_INVALID
    ) -> Self:
        """Return the refusal of a request with that problem."""
        is_ours = code is ReasonCode.INTERNAL_ERROR
        surface = Surface.RUNTIME if is_ours else Surface.INPUT
        refusal = Refusal.from_code(code, problem, surface=surface)
        return cls(CheckResult(Surface.INPUT, allowed=False, refusal=refusal), status)

    @classmethod
    def too_large(cls, max_bytes: int) -> Self:
        """Return the refusal of a body above `max_bytes`."""
        return cls.from_problem(f"the body must not exceed {max_bytes} bytes", 413)

    def __reduce__(self) -> tuple[type[Self], tuple[CheckResult, int]]:  # type: ignore[override] # a pair
        return type(self), (self.result, self.status)


async def refusal_response(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - the signature of Starlette's exception handlers
    """Return a refusal as problem details, with the words for a person as `words`.

    Use it as `app.add_exception_handler(Refused, refusal_response)`.
    """
    assert isinstance(refused, Refused)
    problem = {**to_problem(refused.refusal), "words": refused.result.user_text}
    if isinstance(refused, UnusableError):
        problem["status"] = refused.status
    step = refused.result.next_step
    wait = None if step is None else step.wait
    return Response(
        msgspec.json.encode(problem),
        status_code=problem["status"],
        headers={} if wait is None else {"retry-after": str(max(1, math.ceil(wait)))},
        media_type=PROBLEM_MEDIA_TYPE,
    )


MAX_BODY_BYTES = 1_000_000
_FRAMEWORK = "web"
# Errors of an app's function that reads an unexpected request.
_UNREADABLE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_log = logging.getLogger("demur")

PromptFunction = Callable[[Any], str | None]
ContextFunction = Callable[[Request], CallContext | Awaitable[CallContext]]


class PromptGuard:
    """Guards the prompt in a JSON body; as a dependency of a route it returns the check result.

    `text` finds the prompt in the body; None means that there is nothing to check. The default is
    `prompt_text`; without `recheck_history`, it reads only the messages since the last answer.
    `context` is the call context (subject, tenant, run, key of rate limits), or a function of the
    request that returns one, sync or async. If it fails, the request is refused; an
    `HTTPException` is the app's own answer. A body has at most `max_bytes`. `on_finding`, `mode`
    and `tools` are those of all adapters: the middleware hands a changed body on. A route has its
    body already, so its guard refuses what it cannot change.

    Raises:
        InputError: Both `text` and `recheck_history` are given.
        InputTypeError: `context` is neither a call context nor a function.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        text: PromptFunction | None = None,
        recheck_history: bool = True,
        context: CallContext | ContextFunction | None = None,
        max_bytes: int = MAX_BODY_BYTES,
        **options: Unpack[AdapterOptions],
    ) -> None:
        if text is not None and not recheck_history:
            raise InputError("`text` decides what is checked", where="recheck_history")
        self.enforcer = adapt_enforcer(enforcer, carried={Surface.INPUT}, **options)
        self._plain = self.enforcer.refuse_changes()
        self.max_bytes = max_bytes
        self._text = text or partial(prompt_text, recheck_history=recheck_history)
        self._context = check_context(context)

    async def __call__(self, request: Request) -> CheckResult:
        """Return the check result of the prompt of an allowed request.

        Raises:
            Refused: The request is refused, or cannot be read.
        """
        check_length(Headers(scope=request.scope), self.max_bytes)
        return await self._check(request, await request.body(), self._plain)

    async def check(self, request: Request, body: bytes) -> tuple[CheckResult, bytes]:
        """Return the check result of a body, and the body with changed texts.

        Raises:
            Refused: The request is refused, or cannot be read.
        """
        result = await self._check(request, body, self.enforcer)
        if result.changes is None:
            return result, body
        changed = json.dumps(result.apply_changes(json.loads(body))).encode()
        if is_changed_fully(result, self._find_prompt(changed)):
            return result, changed
        return await self._check(request, body, self._plain), body

    async def _check(self, request: Request, body: bytes, enforcer: Enforcer) -> CheckResult:
        if len(body) > self.max_bytes:
            raise UnusableError.too_large(self.max_bytes)
        text = self._find_prompt(body)
        if text is None:
            return CheckResult(Surface.INPUT)
        context = await self._read_context(request)
        return (await enforcer.acheck_prompt(text, context)).raise_if_refused()

    async def _read_context(self, request: Request) -> CallContext:
        """Return the call context of a request; a failure of the app refuses the request."""
        problem = "cannot read the caller from the request"
        try:
            context = self._context(request) if callable(self._context) else self._context
            if inspect.isawaitable(context):
                context = await context
            return resolve_context(context, request, _FRAMEWORK)
        except (HTTPException, Refused):
            raise
        except _UNREADABLE_ERRORS as error:
            _log.warning("%s: %s", problem, type(error).__name__)
            raise UnusableError.from_problem(problem) from error
        except Exception as error:
            _log.exception(problem)
            raise UnusableError.from_problem(problem, 500, ReasonCode.INTERNAL_ERROR) from error

    def _find_prompt(self, body: bytes) -> str | None:
        try:
            text = self._text(json.loads(body, object_pairs_hook=_reject_duplicates))
        except _UNREADABLE_ERRORS as error:
            problem = "no prompt can be read from the body"
            raise UnusableError.from_problem(problem) from error
        if text is not None and not isinstance(text, str):
            raise UnusableError.from_problem("the prompt in the body is not a text")
        return text


def check_length(headers: Mapping[str, str], max_bytes: int) -> None:
    """Check the `content-length` of a request.

    Raises:
        Refused: It exceeds `max_bytes`.
    """
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise UnusableError.too_large(max_bytes)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Parsers differ in which duplicate they take: the app's might take the other one.
        raise ValueError("duplicate key")
    return value
