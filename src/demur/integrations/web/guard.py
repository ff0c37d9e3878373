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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

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
from demur.model.refusal import Refusal

_PROMPT_FIELDS = ("system", "instructions", "prompt", "input", "messages")
_TURN_FIELDS = ("input", "messages")
# The members of messages and parts that hold their content.
_CONTENT_FIELDS = ("content", "text", "parts")
# Messages and parts of any other type hold no text, but for example a picture.
_TEXT_KINDS = (
    *("text", "input_text", "output_text", "refusal", "thinking"),
    *("message", "human", "ai", "system", "tool"),
    *("function", "function_call", "function_call_output", "tool_use", "tool_result"),
)
# Members that identify a message or part, or name its kind: one word each.
_MARK_FIELDS = ("role", "type", "id", "status", "call_id", "tool_call_id", "tool_use_id")
_MARK_PATTERN = re.compile(r"[\w.:-]{0,100}", re.ASCII)
_HELP = "pass `text=`, a function of the body"


def prompt_text(body: Any, *, trusts_history: bool = False) -> str:
    """Return the text of `system`, `instructions`, `prompt`, `input` and `messages` in a JSON body.

    Messages of all roles count. With `trusts_history`, only those since the last answer of the
    assistant do: that is for apps that know the earlier ones themselves.

    Raises:
        InputError: The body has no prompt, or a part of it is no text.
    """
    if not isinstance(body, dict):
        raise InputError("the body is not an object", help=_HELP)
    found: list[str] = []
    for name in _PROMPT_FIELDS:
        said = body.get(name)
        if trusts_history and name in _TURN_FIELDS and isinstance(said, list):
            said = _since_last_answer(said)
        if said is not None:
            found += _part_texts(said)
    if not found:
        raise InputError("the body has no prompt", help=_HELP)
    return "\n".join(found)


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
            elif not _is_mark(name, inner):
                yield from _value_texts(inner)


def _is_mark(name: str, value: Any) -> bool:
    return (
        name in _MARK_FIELDS
        and isinstance(value, str)
        and _MARK_PATTERN.fullmatch(value) is not None
    )


def _since_last_answer(items: Sequence[Any]) -> list[Any]:
    """Return the items after the assistant's last answer; a trailing prefill does not count."""
    answers = [isinstance(one, dict) and one.get("role") == "assistant" for one in items]
    end = len(items)
    while end and answers[end - 1]:
        end -= 1
    return list(items[next((n + 1 for n in range(end - 1, -1, -1) if answers[n]), 0) :])


class UnusableRequestError(Refused):
    """The refusal of an unreadable request; `status` is the HTTP status of the answer."""

    def __init__(self, result: CheckResult, status: int = 400) -> None:
        super().__init__(result)
        self.status = status

    @classmethod
    def from_problem(cls, problem: str, status: int = 400) -> Self:
        """Return the refusal of a request with that problem."""
        refusal = Refusal.from_code(ReasonCode.REQUEST_INVALID, problem, surface=Surface.INPUT)
        return cls(CheckResult(Surface.INPUT, allowed=False, refusal=refusal), status)

    @classmethod
    def too_large(cls, max_bytes: int) -> Self:
        """Return the refusal of a body above `max_bytes`."""
        return cls.from_problem(f"the body must not exceed {max_bytes} bytes", 413)

    @classmethod
    def from_app_failure(cls, problem: str) -> Self:
        """Return the refusal of a request on which a function of the app failed."""
        refusal = Refusal.from_code(ReasonCode.INTERNAL_ERROR, problem, surface=Surface.RUNTIME)
        return cls(CheckResult(Surface.INPUT, allowed=False, refusal=refusal), 500)

    def __reduce__(self) -> tuple[type[Self], tuple[CheckResult, int]]:  # type: ignore[override] # a pair
        return type(self), (self.result, self.status)


async def refusal_response(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - the signature of Starlette's exception handlers
    """Return a refusal as problem details, with the words for a person as `words`.

    Use it as `app.add_exception_handler(Refused, refusal_response)`.
    """
    assert isinstance(refused, Refused)
    problem = {**to_problem(refused.refusal), "words": refused.result.user_text}
    if isinstance(refused, UnusableRequestError):
        problem["status"] = refused.status
    return Response(
        msgspec.json.encode(problem),
        status_code=problem["status"],
        headers=_retry_headers(refused.result),
        media_type=PROBLEM_MEDIA_TYPE,
    )


def _retry_headers(result: CheckResult) -> dict[str, str]:
    step = result.next_step
    wait = None if step is None else step.wait
    return {} if wait is None else {"retry-after": str(max(1, math.ceil(wait)))}


MAX_BODY_BYTES = 1_000_000
_FRAMEWORK = "web"
# Errors of an app's function that reads an unexpected request.
_UNREADABLE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_log = logging.getLogger("demur")

RequestFunction = Callable[[Request], Any]
PromptFunction = Callable[[Any], str | None]


class PromptGuard:
    """Guards the prompt in a JSON body; as a dependency of a route it returns the ruling.

    `text` finds the prompt in the body; None means that there is nothing to check. The default is
    `prompt_text`; `trusts_history` is for apps that know the messages before the last themselves.
    `subject`, `tenant`, `run` and `key` are functions of the request, sync or async: the caller,
    its tenant, its session, and the key of rate limits. If one fails, the request is refused; an
    `HTTPException` is the app's own answer. A body has at most `max_bytes`.

    Raises:
        InputError: Both `text` and `trusts_history` are given.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        text: PromptFunction | None = None,
        trusts_history: bool = False,
        subject: RequestFunction | None = None,
        tenant: RequestFunction | None = None,
        run: RequestFunction | None = None,
        key: RequestFunction | None = None,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        if text is not None and trusts_history:
            raise InputError("`text` decides what is checked", where="trusts_history")
        self.enforcer = Enforcer.from_gate(enforcer)
        self.max_bytes = max_bytes
        self._trusts_history = trusts_history
        self._text = self._default_text if text is None else text
        asked = {"subject": subject, "tenant": tenant, "run": run, "key": key}
        self._context_functions = {name: ask for name, ask in asked.items() if ask is not None}

    async def __call__(self, request: Request) -> CheckResult:
        """Return the ruling on the prompt of an allowed request.

        Raises:
            Refused: The request is refused, or cannot be read.
        """
        check_length(Headers(scope=request.scope), self.max_bytes)
        return await self.check(request, await request.body())

    async def check(self, request: Request, body: bytes) -> CheckResult:
        """Return the ruling on a body.

        Raises:
            Refused: The request is refused, or cannot be read.
        """
        if len(body) > self.max_bytes:
            raise UnusableRequestError.too_large(self.max_bytes)
        text = self._find_prompt(body)
        if text is None:
            return CheckResult(Surface.INPUT)
        told = {
            name: await _ask_app(name, ask, request)
            for name, ask in self._context_functions.items()
        }
        at = CallContext(framework=_FRAMEWORK, **told)
        return (await self.enforcer.acheck_prompt(text, at)).raise_if_refused()

    def _default_text(self, body: Any) -> str:
        return prompt_text(body, trusts_history=self._trusts_history)

    def _find_prompt(self, body: bytes) -> str | None:
        try:
            text = self._text(json.loads(body, object_pairs_hook=_reject_duplicates))
        except _UNREADABLE_ERRORS as error:
            raise UnusableRequestError.from_problem(
                "no prompt can be read from the body"
            ) from error
        if text is not None and not isinstance(text, str):
            raise UnusableRequestError.from_problem("the prompt in the body is not a text")
        return text


def check_length(headers: Mapping[str, str], max_bytes: int) -> None:
    """Check the `content-length` of a request.

    Raises:
        Refused: It exceeds `max_bytes`.
    """
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise UnusableRequestError.too_large(max_bytes)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Parsers differ in which duplicate they take: the app's might take the other one.
        raise ValueError("duplicate key")
    return value


async def _ask_app(name: str, ask: RequestFunction, request: Request) -> Any:
    """Return the value of an app's function for a request; a failure refuses the request."""
    try:
        told = ask(request)
        return await told if inspect.isawaitable(told) else told
    except (HTTPException, Refused):
        raise
    except _UNREADABLE_ERRORS as error:
        _log.warning("cannot read the %s from a request: %s", name, type(error).__name__)
        raise UnusableRequestError.from_problem(
            f"cannot read the {name} from the request"
        ) from error
    except Exception as error:
        _log.exception("cannot read the %s from a request", name)
        raise UnusableRequestError.from_app_failure(f"cannot determine the {name} now") from error
