"""The guard of prompts in JSON bodies."""

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import Refused, CheckResult
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.web.problem import UnusableRequestError
from demur.integrations.web.prompt import prompt_text

__all__ = ["MAX_BODY_BYTES", "PromptGuard", "check_length"]

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
