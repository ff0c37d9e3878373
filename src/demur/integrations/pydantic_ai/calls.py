"""The tool calls of a run: each is judged with all that stand beside it, before one is made."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolDefinition

from demur.enforce.approval import GrantFor, acollect_grants
from demur.enforce.enforcer import Enforcer, CallContext
from demur.enforce.ruling import CheckResult
from demur.integrations.pydantic_ai.grants import parse_metadata_grants
from demur.integrations.pydantic_ai.history import find_response_of
from demur.integrations.pydantic_ai.messages import convert_definition, to_jsonable
from demur.integrations.pydantic_ai.refused import RunRefused
from demur.model.grant import Grant

__all__ = ["RequestedToolCall", "RunCalls"]

# Kinds of tools that run here, elsewhere, or after an approval; all are checked up front.
_CHECKED_KINDS = ("function", "external", "unapproved")


class RequestedToolCall(NamedTuple):
    """A tool call of a model, with validated arguments."""

    call: ToolCallPart
    tool: ToolDefinition
    arguments: Mapping[str, Any]


class _CheckedRequest(NamedTuple):
    request: RequestedToolCall
    result: CheckResult

    def is_same_call(self, request: RequestedToolCall) -> bool:
        """Return whether this is the same call, with the same arguments."""
        return (
            self.request.tool.name == request.tool.name
            and self.request.arguments == request.arguments
        )


class RunCalls:
    """The checked calls of one run; `grants` holds the grants of each call, by id."""

    def __init__(self, enforcer: Enforcer, grant_for: GrantFor | None) -> None:
        self._enforcer = enforcer
        self._grant_for = grant_for
        self._lock = asyncio.Lock()
        self._response: ModelResponse | None = None
        self._checked: dict[str, _CheckedRequest] = {}
        self._lifted: dict[str, _CheckedRequest] = {}
        self._hard: CheckResult | None = None
        self.grants: dict[str, tuple[Grant, ...]] = {}

    async def check_call(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        """Check a call that is about to run.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            ruling = await self._check_once(request, ctx, context)
        if self._hard is not None:
            raise RunRefused(self._hard)
        return ruling

    async def prepare_approved(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> None:
        """Check an approved call before any approved call of its response runs.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            ruling = await self._check_approved(request, ctx, context)
            self._lifted[request.call.tool_call_id] = _CheckedRequest(request, ruling)
        if self._hard is not None:
            raise RunRefused(self._hard)

    async def _check_once(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        # Use each result once: some models reuse call ids.
        if ctx.tool_call_approved:
            kept = self._lifted.pop(request.call.tool_call_id, None)
            if kept is not None and kept.is_same_call(request):
                return kept.result
            return await self._check_approved(request, ctx, context)
        response = find_response_of(ctx.messages, request.call)
        if response is not None and response is not self._response:
            self._response = response
            self._checked.clear()
            for one in _list_sibling_calls(response, ctx):
                self._checked[one.call.tool_call_id] = _CheckedRequest(
                    one, await self._run_check(one, context)
                )
        kept = self._checked.pop(request.call.tool_call_id, None)
        if kept is not None and kept.is_same_call(request):
            return kept.result
        # A single call, or one that another capability or the program changed.
        return await self._run_check(request, context)

    async def _check_approved(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        """Check a call that a person approved, with its grants."""
        grants = parse_metadata_grants(ctx.tool_call_metadata)
        ruling = await self._run_check(request, context, grants)
        if ruling.needs_approval:
            more = await acollect_grants(self._grant_for, ruling, ctx)
            if more:
                ruling = await self._run_check(request, context, (*grants, *more))
        return ruling

    async def _run_check(
        self, request: RequestedToolCall, context: CallContext, grants: Sequence[Grant] = ()
    ) -> CheckResult:
        call, tool, arguments = request
        ruling = await self._enforcer.acheck_tool_call(
            call.tool_name,
            arguments,
            context._replace(call_id=call.tool_call_id),
            tool=convert_definition(tool),
            grants=grants,
        )
        if ruling.is_hard:
            self._hard = ruling
        self.grants[call.tool_call_id] = tuple(grants)
        return ruling


def _list_sibling_calls(response: ModelResponse, ctx: RunContext[Any]) -> list[RequestedToolCall]:
    """Return all calls of a response that will run, if there are several."""
    calls = response.tool_calls
    if len(calls) < 2:
        return []
    tools = (ctx.tool_manager.tools if ctx.tool_manager is not None else None) or {}
    found = []
    for call in calls:
        tool = tools.get(call.tool_name)
        if tool is not None and tool.tool_def.kind in _CHECKED_KINDS:
            # Skip calls with invalid arguments: the framework asks the model again.
            with suppress(ValueError):
                given = tool.args_validator.validate_python(call.args_as_dict())
                found.append(RequestedToolCall(call, tool.tool_def, to_jsonable(given)))
    return found
