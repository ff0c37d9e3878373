"""The tool calls of a run: each is judged with all that stand beside it, before one is made."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolDefinition

from demur.enforce.approval import GrantFor, agranted
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.pydantic_ai.grants import grants_of
from demur.integrations.pydantic_ai.history import asked_in
from demur.integrations.pydantic_ai.messages import definition, plain
from demur.integrations.pydantic_ai.refused import RunRefused
from demur.model.grant import Grant

__all__ = ["Asked", "Calls"]

# Kinds of tools that run here, elsewhere, or after an approval; all are checked up front.
_RUN = ("function", "external", "unapproved")


class Asked(NamedTuple):
    """A tool call of a model, with validated arguments."""

    call: ToolCallPart
    tool: ToolDefinition
    arguments: Mapping[str, Any]


class _Judged(NamedTuple):
    asked: Asked
    ruling: Ruling

    def holds_for(self, asked: Asked) -> bool:
        """Return whether this is the same call, with the same arguments."""
        return self.asked.tool.name == asked.tool.name and self.asked.arguments == asked.arguments


class Calls:
    """The checked calls of one run; `grants` holds the grants of each call, by id."""

    def __init__(self, enforcer: Enforcer, grant_for: GrantFor | None) -> None:
        self._enforcer = enforcer
        self._grant_for = grant_for
        self._lock = asyncio.Lock()
        self._asked: ModelResponse | None = None
        self._judged: dict[str, _Judged] = {}
        self._lifted: dict[str, _Judged] = {}
        self._hard: Ruling | None = None
        self.grants: dict[str, tuple[Grant, ...]] = {}

    async def ruled(self, asked: Asked, ctx: RunContext[Any], at: Occasion) -> Ruling:
        """Check a call that is about to run.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            ruling = await self._once(asked, ctx, at)
        if self._hard is not None:
            raise RunRefused(self._hard)
        return ruling

    async def prepare(self, asked: Asked, ctx: RunContext[Any], at: Occasion) -> None:
        """Check an approved call before any approved call of its response runs.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            ruling = await self._approved(asked, ctx, at)
            self._lifted[asked.call.tool_call_id] = _Judged(asked, ruling)
        if self._hard is not None:
            raise RunRefused(self._hard)

    async def _once(self, asked: Asked, ctx: RunContext[Any], at: Occasion) -> Ruling:
        # Use each result once: some models reuse call ids.
        if ctx.tool_call_approved:
            kept = self._lifted.pop(asked.call.tool_call_id, None)
            if kept is not None and kept.holds_for(asked):
                return kept.ruling
            return await self._approved(asked, ctx, at)
        response = asked_in(ctx.messages, asked.call)
        if response is not None and response is not self._asked:
            self._asked = response
            self._judged.clear()
            for one in _beside(response, ctx):
                self._judged[one.call.tool_call_id] = _Judged(one, await self._judge(one, at))
        kept = self._judged.pop(asked.call.tool_call_id, None)
        if kept is not None and kept.holds_for(asked):
            return kept.ruling
        # A single call, or one that another capability or the program changed.
        return await self._judge(asked, at)

    async def _approved(self, asked: Asked, ctx: RunContext[Any], at: Occasion) -> Ruling:
        """Check a call that a person approved, with its grants."""
        grants = grants_of(ctx.tool_call_metadata)
        ruling = await self._judge(asked, at, grants)
        if ruling.may_be_approved:
            more = await agranted(self._grant_for, ruling, ctx)
            if more:
                ruling = await self._judge(asked, at, (*grants, *more))
        return ruling

    async def _judge(self, asked: Asked, at: Occasion, grants: Sequence[Grant] = ()) -> Ruling:
        call, tool, arguments = asked
        ruling = await self._enforcer.atool_call(
            call.tool_name,
            arguments,
            at._replace(call_id=call.tool_call_id),
            tool=definition(tool),
            grants=grants,
        )
        if ruling.is_hard:
            self._hard = ruling
        self.grants[call.tool_call_id] = tuple(grants)
        return ruling


def _beside(response: ModelResponse, ctx: RunContext[Any]) -> list[Asked]:
    """Return all calls of a response that will run, if there are several."""
    calls = response.tool_calls
    if len(calls) < 2:
        return []
    tools = (ctx.tool_manager.tools if ctx.tool_manager is not None else None) or {}
    found = []
    for call in calls:
        tool = tools.get(call.tool_name)
        if tool is not None and tool.tool_def.kind in _RUN:
            # Skip calls with invalid arguments: the framework asks the model again.
            with suppress(ValueError):
                given = tool.args_validator.validate_python(call.args_as_dict())
                found.append(Asked(call, tool.tool_def, plain(given)))
    return found
