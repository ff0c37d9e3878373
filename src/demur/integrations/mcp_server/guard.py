"""The guard of an MCP server, independent of its framework.

A tool call is decided before the tool runs. Its result or failure is checked before it leaves,
and so are resources and prompts.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.mcp_server.refusals import error_of

__all__ = ["Form", "Hard", "OccasionFor", "ServerGuard"]

Hard = Literal["error", "result"]
# Returns the call context of a framework's request.
OccasionFor = Callable[[Any], Occasion]
_ACTIONS = {"resources/read": "read_resource", "prompts/get": "get_prompt"}


class Form(NamedTuple):
    """The functions that adapt a framework.

    `context_for` returns the call context of a request, `returned_content` a tool's output (None
    if it is not done), `content_texts` the texts of a resource or prompt, and `refusal_result` the
    result of a refused call. `error` is the exception for a protocol error, made of code, message
    and data.
    """

    occasion: OccasionFor
    returned: Callable[[Any], Any]
    texts: Callable[[Any], Iterable[Any]]
    refused: Callable[[Ruling, Any], Any]
    error: type[Exception]


class ServerGuard:
    """Guards one server; built by the middleware of its framework."""

    def __init__(
        self, by: Enforcer | Gate, form: Form, *, hard: Hard, occasion: OccasionFor | None
    ) -> None:
        self._enforcer = Enforcer.of(by)
        if hard not in get_args(Hard):
            raise InputError(f"unknown setting `{hard}`", where="hard", help="`error` or `result`")
        self._form = form
        self._hard = hard
        self._occasion = occasion

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: Any,
        call_next: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Return a tool's result or a refusal in its place; raise an error for a hard one."""
        at = self._at(context)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refused(ruling, context)
        result, failure = await _tried(context, call_next)
        returned = self._form.returned(result) if failure is None else self._said(failure)
        if returned is not None:
            ruling = await self._enforcer.atool_result(name, returned, at, arguments=arguments)
        if not ruling.allowed:
            return self._refused(ruling, context)
        return _as_it_came(result, failure)

    async def read(
        self, method: str, context: Any, call_next: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Return a resource or a prompt; raise an error if it is refused."""
        result, failure = await _tried(context, call_next)
        texts = self._form.texts(result) if failure is None else self._said(failure)
        passage = {"text": "\n".join(map(texts_in, texts)), "source": method}
        ruling = await self._enforcer.acheck(
            Surface.RETRIEVAL, passage, self._at(context), action=_ACTIONS[method]
        )
        if not ruling.allowed:
            raise self._form.error(*error_of(ruling))
        return _as_it_came(result, failure)

    def _at(self, context: Any) -> Occasion:
        usual = self._form.occasion(context)
        said = Occasion() if self._occasion is None else self._occasion(context)
        return usual._replace(**{name: one for name, one in said._asdict().items() if one})

    def _said(self, failure: Exception) -> list[str]:
        """Return the texts of a failure that the client sees."""
        data = getattr(failure, "data", None) if isinstance(failure, self._form.error) else None
        return [str(failure), *([] if data is None else [texts_in(data)])]

    def _refused(self, ruling: Ruling, context: Any) -> Any:
        if ruling.is_hard and self._hard == "error":
            raise self._form.error(*error_of(ruling))
        return self._form.refused(ruling, context)


async def _tried(
    context: Any, call_next: Callable[[Any], Awaitable[Any]]
) -> tuple[Any, Exception | None]:
    """Return the result of a request, or its failure: the client sees both."""
    try:
        return await call_next(context), None
    except Exception as error:  # noqa: BLE001 - every failure is checked and raised again
        return None, error


def _as_it_came(result: Any, failure: Exception | None) -> Any:
    if failure is not None:
        raise failure
    return result
