"""The capability: the framework's hooks, each one a question to the enforcer."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import AgentRunError, ApprovalRequired, FallbackExceptionGroup
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from demur.errors import InputError, InputTypeError
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Ruling
from demur.integrations.pydantic_ai.held_back import Clearing, HeldBackModel
from demur.integrations.pydantic_ai.messages import (
    as_text,
    asked_in,
    calls_of,
    definition,
    grants_of,
    new_prompts,
    plain,
    prompt_text,
    returned,
    said,
    tidy,
    with_help,
)
from demur.integrations.pydantic_ai.refused import RunRefused, deny, or_end
from demur.model.grant import Grant

__all__ = ["GrantFor", "RefusalCapability"]

_FRAMEWORK = "pydantic-ai"

# From a ruling that waits for approval, in a call that was approved, to the grant for it.
GrantFor = Callable[[Ruling, RunContext[Any]], Grant | None]


class _Judged(NamedTuple):
    arguments: Mapping[str, Any]
    ruling: Ruling


@dataclass
class _Run:
    """What one run has been through."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    prompts: set[tuple[datetime, str]] = field(default_factory=set)
    prompt: str | None = None
    asked: ModelResponse | None = None
    judged: dict[str, _Judged] = field(default_factory=dict)
    hard: Ruling | None = None
    cleared: set[str] = field(default_factory=set)
    messages: list[ModelMessage] = field(default_factory=list)


@dataclass
class RefusalCapability(AbstractCapability[Any]):
    """Guards every run of an agent: `Agent(..., capabilities=[RefusalCapability(enforcer)])`.

    `subject` and `tenant` are functions of the run's `deps`: who asks, and for whom. A call
    that waits for approval ends the run in `DeferredToolRequests`, its envelope in the
    `metadata` under `refusal`; where nobody handles those, `approvals=False` tells the model
    instead. An approval alone lifts nothing: it needs a signed grant, as `grant` or `grants`
    in the metadata of the results, or from `grant_for` for hosts that sign one themselves
    once somebody whom they trust said yes.
    """

    enforcer: Enforcer
    _: KW_ONLY
    subject: Callable[[Any], Mapping[str, Any] | None] | None = None
    tenant: Callable[[Any], str | None] | None = None
    approvals: bool = True
    grant_for: GrantFor | None = None
    _run: _Run = field(default_factory=_Run, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse settings under which nothing would be guarded."""
        if not isinstance(self.enforcer, Enforcer):
            raise InputTypeError.expected("enforcer", "an `Enforcer`", self.enforcer)
        if self.defer_loading:
            raise InputError(
                "a guard cannot wait until a model loads it", help="leave out `defer_loading`"
            )

    def get_ordering(self) -> CapabilityOrdering:
        """Return the place next to model and tools: what is judged is what they get."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> "RefusalCapability":
        """Return the capability for one run."""
        del ctx
        return replace(self)

    async def on_run_error(
        self, ctx: RunContext[Any], *, error: BaseException
    ) -> AgentRunResult[Any]:
        """End the run: by a refusal, if that is what a provider's error says.

        Raises:
            RunRefused: Something was refused.
        """
        if isinstance(error, RunRefused):
            tidy(self._run.messages, error.ruling)
        elif isinstance(error, AgentRunError | FallbackExceptionGroup):
            ruling = await self.enforcer.amodel(error, self._at(ctx), prompt=self._run.prompt)
            # What nobody judged stays the framework's own error, which says more about it.
            if not ruling.allowed and not ruling.failed:
                raise RunRefused(ruling) from error
        raise error

    # The model: what it is asked, and what it says.

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Judge what the user said since the model last answered."""
        parts = new_prompts(request_context.messages)
        words = [(part.timestamp, prompt_text(part)) for part in parts]
        fresh = [text for when, text in words if text and (when, text) not in self._run.prompts]
        if fresh:
            self._run.prompts.update(words)
            self._run.prompt = "\n".join(fresh)
            or_end(await self.enforcer.aprompt(self._run.prompt, self._at(ctx)))
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """Judge whether the model refused, and what it said, before it is in the history."""
        at, text, calls = self._at(ctx), said(response), response.tool_calls
        or_end(await self.enforcer.amodel(response, at, prompt=self._run.prompt))
        outputs = {tool.name for tool in request_context.model_request_parameters.output_tools}
        for call in calls:
            if call.tool_name in outputs:
                await self._answer(call.args_as_json_str(), at)
        shown = with_help(response, await self._answer(text, at))
        return shown if calls or not text else await self._heard(shown, text, at)

    async def _heard(self, response: ModelResponse, text: str, at: Occasion) -> ModelResponse:
        """Return the response; if the model declines in it, its words stay and say so."""
        ruling = await self.enforcer.amodel(None, at, text=text, prompt=self._run.prompt)
        if ruling.allowed:
            return response
        return replace(response, metadata={**(response.metadata or {}), "refusal": ruling.envelope})

    async def after_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Judge what a function made of the model's output."""
        if output_context.has_function and not ctx.partial_output:
            await self._answer(as_text(output), self._at(ctx))
        return output

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with streams that are held back until they are cleared."""
        return HeldBackModel(model, self._clearing)

    def _clearing(self, ctx: RunContext[Any] | None) -> Clearing:
        at = self._at(ctx)
        return Clearing(
            lambda: self.enforcer.stream(at, prompt=self._run.prompt),
            self._run.cleared.add,
            lambda text: self._answer(text, at),
        )

    async def _answer(self, text: str, at: Occasion) -> tuple[str, ...]:
        """Return the lines that must stand below a text, which may be shown."""
        if not text or text in self._run.cleared:
            return ()
        ruling = or_end(await self.enforcer.aanswer(text, at, prompt=self._run.prompt))
        self._run.cleared.add(text)
        return ruling.resources

    # Tools: the calls, and what they return.

    async def before_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Judge the call, and before it all calls beside it: none runs if one ends the run."""
        async with self._run.lock:
            ruling = await self._judged(ctx, call, tool_def, plain(args))
        if self._run.hard is not None:
            raise RunRefused(self._run.hard)
        if ruling.may_be_approved and self.approvals and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"refusal": ruling.envelope})
        deny(ruling, call)
        return args

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Judge what the tool returned, before a model reads it."""
        del tool_def
        ruling = await self.enforcer.atool_result(
            call.tool_name, returned(result), self._at(ctx, call), arguments=plain(args)
        )
        deny(ruling, call)
        return result

    async def _judged(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        arguments: Mapping[str, Any],
    ) -> Ruling:
        if ctx.tool_call_approved:
            return await self._judge(ctx, call, tool_def, arguments)
        response = asked_in(ctx, call)
        if response is not None and response is not self._run.asked:
            self._run.asked = response
            for one, tool, given in calls_of(response, ctx):
                ruling = await self._judge(ctx, one, tool, given)
                self._run.judged[one.tool_call_id] = _Judged(given, ruling)
        # Only once: there are models that use an id again.
        kept = self._run.judged.pop(call.tool_call_id, None)
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
        ruling = await self.enforcer.atool_call(name, arguments, at, tool=tool, grants=grants)
        if ruling.may_be_approved and ctx.tool_call_approved and self.grant_for is not None:
            grant = self.grant_for(ruling, ctx)
            if grant is not None:
                grants = [*grants, grant]
                ruling = await self.enforcer.atool_call(
                    name, arguments, at, tool=tool, grants=grants
                )
        if ruling.is_hard:
            self._run.hard = ruling
        return ruling

    def _at(self, ctx: RunContext[Any] | None, call: ToolCallPart | None = None) -> Occasion:
        if ctx is None:
            return Occasion(framework=_FRAMEWORK)
        if ctx.messages:
            # Where a run fails, the framework shows another list.
            self._run.messages = ctx.messages
        return Occasion(
            framework=_FRAMEWORK,
            run=ctx.run_id,
            call_id=None if call is None else call.tool_call_id,
            subject=None if self.subject is None else self.subject(ctx.deps),
            tenant=None if self.tenant is None else self.tenant(ctx.deps),
        )
