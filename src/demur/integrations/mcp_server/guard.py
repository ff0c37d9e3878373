"""The guard of an MCP server, independent of its framework.

A tool call is decided before the tool runs. Its result or failure is checked before it leaves,
and so are resources and prompts.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult
from demur.enforce.texts import extract_texts
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.mcp_server.refusals import refusal_error

__all__ = ["FrameworkForm", "HardRefusal", "ContextFor", "MCPServerGuard"]

HardRefusal = Literal["error", "result"]
# Returns the call context of a framework's request.
ContextFor = Callable[[Any], CallContext]
_ACTIONS = {"resources/read": "read_resource", "prompts/get": "get_prompt"}


class FrameworkForm(NamedTuple):
    """The functions that adapt a framework.

    `context_for` returns the call context of a request, `returned_content` a tool's output (None
    if it is not done), `content_texts` the texts of a resource or prompt, and `refusal_result` the
    result of a refused call. `error` is the exception for a protocol error, made of code, message
    and data.
    """

    context_for: ContextFor
    returned_content: Callable[[Any], Any]
    content_texts: Callable[[Any], Iterable[Any]]
    refusal_result: Callable[[CheckResult, Any], Any]
    error: type[Exception]


class MCPServerGuard:
    """Guards one server; built by the middleware of its framework."""

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        form: FrameworkForm,
        *,
        hard: HardRefusal,
        context: ContextFor | None,
    ) -> None:
        self._enforcer = Enforcer.from_gate(enforcer)
        if hard not in get_args(HardRefusal):
            raise InputError(f"unknown setting `{hard}`", where="hard", help="`error` or `result`")
        self._form = form
        self._hard = hard
        self._context_for = context

    async def guard_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: Any,
        call_next: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Return a tool's result or a refusal in its place; raise an error for a hard one."""
        at = self._build_context(context)
        ruling = await self._enforcer.acheck_tool_call(name, arguments, at)
        if not ruling.allowed:
            return self._refuse_call(ruling, context)
        result, failure = await _try_request(context, call_next)
        returned = (
            self._form.returned_content(result) if failure is None else self._failure_texts(failure)
        )
        if returned is not None:
            ruling = await self._enforcer.acheck_tool_result(
                name, returned, at, arguments=arguments
            )
        if not ruling.allowed:
            return self._refuse_call(ruling, context)
        return _return_or_raise(result, failure)

    async def guard_read(
        self, method: str, context: Any, call_next: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Return a resource or a prompt; raise an error if it is refused."""
        result, failure = await _try_request(context, call_next)
        texts = (
            self._form.content_texts(result) if failure is None else self._failure_texts(failure)
        )
        passage = {"text": "\n".join(map(extract_texts, texts)), "source": method}
        ruling = await self._enforcer.acheck_event(
            Surface.RETRIEVAL, passage, self._build_context(context), action=_ACTIONS[method]
        )
        if not ruling.allowed:
            raise self._form.error(*refusal_error(ruling))
        return _return_or_raise(result, failure)

    def _build_context(self, context: Any) -> CallContext:
        usual = self._form.context_for(context)
        said = CallContext() if self._context_for is None else self._context_for(context)
        return usual._replace(**{name: one for name, one in said._asdict().items() if one})

    def _failure_texts(self, failure: Exception) -> list[str]:
        """Return the texts of a failure that the client sees."""
        data = getattr(failure, "data", None) if isinstance(failure, self._form.error) else None
        return [str(failure), *([] if data is None else [extract_texts(data)])]

    def _refuse_call(self, result: CheckResult, context: Any) -> Any:
        if result.is_hard and self._hard == "error":
            raise self._form.error(*refusal_error(result))
        return self._form.refusal_result(result, context)


async def _try_request(
    context: Any, call_next: Callable[[Any], Awaitable[Any]]
) -> tuple[Any, Exception | None]:
    """Return the result of a request, or its failure: the client sees both."""
    try:
        return await call_next(context), None
    except Exception as error:  # noqa: BLE001 - every failure is checked and raised again
        return None, error


def _return_or_raise(result: Any, failure: Exception | None) -> Any:
    if failure is not None:
        raise failure
    return result
