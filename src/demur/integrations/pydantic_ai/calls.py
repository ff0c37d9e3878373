"""The tool calls of a run: each is judged with all that stand beside it, before one is made."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolDefinition

from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.pydantic_ai.messages import asked_in, calls_of, definition, grants_of
from demur.integrations.pydantic_ai.refused import RunRefused
from demur.model.grant import Grant

__all__ = ["Calls", "GrantFor"]

# From a ruling that waits for approval, in a call that was approved, to the grant for it.
GrantFor = Callable[[Ruling, RunContext[Any]], Grant | None]
At = Callable[[RunContext[Any], ToolCallPart], Occasion]


class _Judged(NamedTuple):
    arguments: Mapping[str, Any]
    ruling: Ruling


class Calls:
    """The calls of one run; `grants` are those that a call was allowed by, by its id."""

    def __init__(self, enforcer: Enforcer, at: At, grant_for: GrantFor | None) -> None:
        self._enforcer = enforcer
        self._at = at
        self._grant_for = grant_for
        self._lock = asyncio.Lock()
        self._asked: ModelResponse | None = None
        self._judged: dict[str, _Judged] = {}
        self._hard: Ruling | None = None
        self.grants: dict[str, tuple[Grant, ...]] = {}

    async def ruled(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        arguments: Mapping[str, Any],
    ) -> Ruling:
        """Return the ruling on a call.

        Raises:
            RunRefused: It, or one beside it, ends the run.
        """
        async with self._lock:
            ruling = await self._once(ctx, call, tool_def, arguments)
        if self._hard is not None:
            raise RunRefused(self._hard)
        return ruling

    async def _once(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        arguments: Mapping[str, Any],
    ) -> Ruling:
        if ctx.tool_call_approved:
            return await self._judge(ctx, call, tool_def, arguments)
        response = asked_in(ctx, call)
        if response is not None and response is not self._asked:
            self._asked = response
            for one, tool, given in calls_of(response, ctx):
                ruling = await self._judge(ctx, one, tool, given)
                self._judged[one.tool_call_id] = _Judged(given, ruling)
        # Only once: there are models that use an id again.
        kept = self._judged.pop(call.tool_call_id, None)
        if kept is not None and kept.arguments == arguments:
            return kept.ruling
        # Another capability, or a program that the model wrote, has made this call what it is.
        return await self._judge(ctx, call, tool_def, arguments)

    async def _judge(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        arguments: Mapping[str, Any],
    ) -> Ruling:
        at, name, tool = self._at(ctx, call), call.tool_name, definition(tool_def)
        grants = grants_of(ctx.tool_call_metadata) if ctx.tool_call_approved else []
        ask = self._enforcer.atool_call
        ruling = await ask(name, arguments, at, tool=tool, grants=grants)
        if ruling.may_be_approved and ctx.tool_call_approved and self._grant_for is not None:
            grant = self._grant_for(ruling, ctx)
            if grant is not None:
                grants = [*grants, grant]
                ruling = await ask(name, arguments, at, tool=tool, grants=grants)
        if ruling.is_hard:
            self._hard = ruling
        self.grants[call.tool_call_id] = tuple(grants)
        return ruling
