"""The capability: each hook of Pydantic AI calls the enforcer."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    FallbackExceptionGroup,
    ModelRetry,
    ToolFailed,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from demur.enforce.approval import Approval, GrantFor, check_approval
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations.pydantic_ai.calls import Asked
from demur.integrations.pydantic_ai.held_back import HeldBackModel
from demur.integrations.pydantic_ai.history import call_of, tidy, unanswered
from demur.integrations.pydantic_ai.messages import content_text, plain, returned, to_call
from demur.integrations.pydantic_ai.refused import RunRefused, deny
from demur.integrations.pydantic_ai.results import Unread
from demur.integrations.pydantic_ai.run import Run

__all__ = ["RefusalCapability"]

_FRAMEWORK = "pydantic-ai"
# Kinds of tools whose calls go to the program or to a person first.
_HANDED_OUT = ("external", "unapproved")


@dataclass
class RefusalCapability(AbstractCapability[Any]):
    """Guards every run of an agent: `Agent(..., capabilities=[PydanticAIGuard(enforcer)])`.

    `context` returns the call context for a run and its `deps`; demur fills in the rest. With
    `approval="message"`, a call that needs approval is refused with a message to the model;
    with `"interrupt"`, the run ends in `DeferredToolRequests`, with the envelope in the
    `metadata` under `refusal`. An approval needs a signed grant: as `grant` or `grants` in the
    metadata of the results, or from `grant_for`, which demur calls after the approval.
    """

    enforcer: Enforcer | Gate
    _: KW_ONLY
    occasion: Callable[[RunContext[Any]], Occasion] | None = None
    approval: Approval = "message"
    grant_for: GrantFor | None = None
    _by: Enforcer = field(init=False, repr=False, compare=False)
    _run: Run = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the options."""
        self._by = Enforcer.of(self.enforcer)
        check_approval(self.approval)
        if self.occasion is not None and not callable(self.occasion):
            raise InputTypeError.expected("occasion", "a function of the run", self.occasion)
        if self.grant_for is not None and not callable(self.grant_for):
            expected = "a function of the check result"
            raise InputTypeError.expected("grant_for", expected, self.grant_for)
        if self.defer_loading:
            raise InputError("the guard does not support `defer_loading`", help="leave it out")
        self._run = Run.begin(self._by, self.grant_for)

    def get_ordering(self) -> CapabilityOrdering:
        """Return the innermost position, so that demur checks what model and tools really get."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> "RefusalCapability":
        """Return the capability for one run."""
        del ctx
        # Skip `__post_init__`: the options are validated, and this is part of every run.
        own = object.__new__(type(self))
        own.__dict__.update(self.__dict__, _run=Run.begin(self._by, self.grant_for))
        return own

    async def on_run_error(
        self, ctx: RunContext[Any], *, error: BaseException
    ) -> AgentRunResult[Any]:
        """Re-raise the error, as `RunRefused` if it is a provider's refusal.

        Raises:
            RunRefused: Something was refused.
        """
        if isinstance(error, RunRefused):
            tidy(self._run.messages, error.ruling)
        elif isinstance(error, AgentRunError | FallbackExceptionGroup):
            ruling = await self._by.amodel(error, self._at(ctx), prompt=self._run.talk.prompt)
            # If the check failed, keep the framework's error, which says more.
            if not ruling.allowed and not ruling.failed:
                raise RunRefused(ruling) from error
        raise error

    # Requests to the model, and its responses.

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check user messages since the last answer, and unchecked tool results."""
        await self._before(ctx, request_context.messages)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check messages that other capabilities added for this model."""
        await self._before(ctx, request_context.messages)
        return request_context

    async def _before(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> None:
        run, new = self._run, unanswered(messages)
        fresh = run.talk.fresh(new)
        if fresh:
            await run.talk.ask(fresh, self._at(ctx))
        rulings = [
            await self._result(ctx, one, call_of(messages, one.call_id))
            for one in run.results.unread(new)
        ]
        hard = next((ruling for ruling in rulings if ruling.is_hard), None)
        if hard is not None:
            raise RunRefused(hard)

    async def _result(self, ctx: RunContext[Any], one: Unread, call: ToolCallPart | None) -> Ruling:
        ruling = await self._by.atool_result(
            one.name,
            plain(one.content),
            self._at(ctx, None if call is None else call.tool_call_id),
            arguments=None if call is None else call.args_as_json_str(),
            grants=self._run.calls.grants.get(one.call_id, ()),
        )
        self._run.results.settle(one, ruling)
        return ruling

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """Check the model's response before it enters the history."""
        parameters = request_context.model_request_parameters
        return await self._run.talk.hear(response, parameters, self._at(ctx))

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with filtered streams."""
        return HeldBackModel(model, lambda ctx: self._run.talk.clearing(self._at(ctx)))

    # Output functions.

    async def before_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Check the call of an output function like a tool call.

        Raises:
            ModelRetry: The answer is incomplete; streaming waits for the whole.
        """
        if output_context.has_function:
            if ctx.partial_output:
                raise ModelRetry("it is not whole yet")
            call = output_context.tool_call
            at = self._at(ctx, None if call is None else call.tool_call_id)
            await self._run.talk.make(to_call(output_context, plain(output)), at)
        return output

    async def after_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Check the final output: parsed, joined, or returned by a function.

        Raises:
            ModelRetry: The answer is incomplete; streaming waits for the whole.
        """
        if not ctx.partial_output:
            text = output if isinstance(output, str) else texts_in(plain(output))
            await self._run.talk.answer(text, self._at(ctx))
        elif output_context.object_def is not None or output_context.tool_call is not None:
            # Streamed text is cleared piece by piece; structured output only as a whole.
            raise ModelRetry("it is not whole yet")
        return output

    # Tool calls and their results.

    async def after_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Check deferred calls and approved calls.

        This is the only hook before a person is asked, and all approved calls pass it before
        the first of them runs.
        """
        calls = self._run.calls
        if ctx.tool_call_approved:
            await calls.prepare(Asked(call, tool_def, plain(args)), ctx, self._at(ctx))
        elif tool_def.kind in _HANDED_OUT:
            asked = Asked(call, tool_def, plain(args))
            ruling = await calls.ruled(asked, ctx, self._at(ctx))
            if tool_def.kind == "external" and not ruling.allowed:
                self._run.results.refuse(call, ruling)
                raise ToolFailed(ruling.message)
        return args

    async def before_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Check the call and all others of its response: none runs if one ends the run."""
        asked = Asked(call, tool_def, plain(args))
        ruling = await self._run.calls.ruled(asked, ctx, self._at(ctx))
        waits = ruling.may_be_approved and not ctx.tool_call_approved
        if waits and self.approval == "interrupt":
            raise ApprovalRequired(metadata={"refusal": ruling.envelope})
        self._deny(ruling, call)
        return args

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        """Deny the call if an agent that runs as its tool was refused."""
        del ctx, tool_def, args
        if isinstance(error, RunRefused):
            self._deny(error.ruling, call)
        raise error

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Check the tool's result before a model reads it."""
        del tool_def
        run = self._run
        ruling = await self._by.atool_result(
            call.tool_name,
            returned(result),
            self._at(ctx, call.tool_call_id),
            arguments=plain(args),
            grants=run.calls.grants.get(call.tool_call_id, ()),
        )
        self._deny(ruling, call)
        if isinstance(result, ToolReturn):
            run.results.allow(call.tool_name, result.return_value)
            run.talk.allow(content_text(result.content))
        else:
            run.results.allow(call.tool_name, result)
        return result

    def _deny(self, ruling: Ruling, call: ToolCallPart) -> None:
        if not ruling.allowed:
            self._run.results.refuse(call, ruling)
            deny(ruling, call)

    def _at(self, ctx: RunContext[Any] | None, call_id: str | None = None) -> Occasion:
        if ctx is None:
            return Occasion(_FRAMEWORK)
        if ctx.messages:
            # `on_run_error` gets another list, so keep this one.
            self._run.messages = ctx.messages
        if self.occasion is None:
            return Occasion(_FRAMEWORK, ctx.run_id, call_id)
        asked = self.occasion(ctx)
        if not isinstance(asked, Occasion):
            kind = type(asked).__name__
            raise InputTypeError(f"`occasion` must return an `Occasion`, not `{kind}`")
        return asked._replace(
            framework=_FRAMEWORK,
            run=asked.run or ctx.run_id,
            call_id=asked.call_id if call_id is None else call_id,
        )
