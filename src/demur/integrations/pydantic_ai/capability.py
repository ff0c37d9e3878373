"""The capability: each hook of Pydantic AI calls the enforcer."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    FallbackExceptionGroup,
    ModelRetry,
    RetryModelRequest,
    ToolFailed,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding
from demur.enforce.context import CallContext
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.enforce.result import Approval, CheckResult, GrantFor, check_approval
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
    is_changed_fully,
    resolve_context,
)
from demur.integrations.pydantic_ai.messages import (
    RunRefused,
    build_output_call,
    change_result,
    clean_history,
    content_text,
    deny_call,
    find_call,
    list_unanswered,
    result_content,
    to_jsonable,
)
from demur.integrations.pydantic_ai.run import PydanticRunState, RequestedToolCall
from demur.integrations.pydantic_ai.stream_filter import FilteredModel

__all__ = ["PydanticAIGuard"]

_FRAMEWORK = "pydantic-ai"
# Kinds of tools whose calls go to the program or to a person first.
_DEFERRED_KINDS = ("external", "unapproved")
_CARRIED = frozenset({Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT})


@dataclass
class PydanticAIGuard(AbstractCapability[Any]):
    """Guards every run of an agent: `Agent(..., capabilities=[PydanticAIGuard(enforcer)])`.

    `context` is the call context, or a function of the run; demur fills in the rest. With
    `approval="model_message"`, a call that needs approval is refused with a message to the model;
    with `"interrupt"`, the run ends in `DeferredToolRequests`, with the envelope in the
    `metadata` under `refusal`. An approval needs a signed grant: as `grant` or `grants` in the
    metadata of the results, or from `grant_for`, which demur calls after the approval. The yes of
    an `approver` is one as well: a name, or a function of the check result and the run.
    `on_finding`, `mode` and `tools` are those of all adapters; streams are held to their end where
    an answer may be changed, and only whole answers are asked for again.
    """

    enforcer: Enforcer | Gate
    _: KW_ONLY
    context: ContextSource | None = None
    approval: Approval = "message"
    grant_for: GrantFor | None = None
    approver: Approver | None = None
    on_finding: OnFinding | None = None
    mode: EnforceMode | None = None
    tools: Tools | None = None
    _enforcer: Enforcer = field(init=False, repr=False, compare=False)
    _grant_for: GrantFor | None = field(init=False, repr=False, compare=False)
    _run: PydanticRunState = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the options."""
        self._enforcer = adapt_enforcer(
            self.enforcer,
            carried=_CARRIED,
            approver=self.approver,
            approval=self.approval,
            on_finding=self.on_finding,
            mode=self.mode,
            tools=self.tools,
        )
        check_approval(self.approval)
        check_context(self.context)
        if self.grant_for is not None and not callable(self.grant_for):
            expected = "a function of the check result"
            raise InputTypeError.wrong_type("grant_for", expected, self.grant_for)
        if self.defer_loading:
            raise InputError("the guard does not support `defer_loading`", help="leave it out")
        self._grant_for = choose_grant_for(self._enforcer, self.grant_for, self.approver)
        self._run = PydanticRunState.begin(self._enforcer, self._grant_for)

    def get_ordering(self) -> CapabilityOrdering:
        """Return the innermost position, so that demur checks what model and tools really get."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> "PydanticAIGuard":
        """Return the capability for one run."""
        del ctx
        # Skip `__post_init__`: the options are validated, and this is part of every run.
        own = object.__new__(type(self))
        own.__dict__.update(
            self.__dict__, _run=PydanticRunState.begin(self._enforcer, self._grant_for)
        )
        return own

    async def on_run_error(
        self, ctx: RunContext[Any], *, error: BaseException
    ) -> AgentRunResult[Any]:
        """Re-raise the error, as `RunRefused` if it is a provider's refusal.

        Raises:
            RunRefused: Something was refused.
        """
        if isinstance(error, RunRefused):
            clean_history(self._run.messages, error.result)
        elif isinstance(error, AgentRunError | FallbackExceptionGroup):
            context, prompt = self._context_for(ctx), self._run.conversation.prompt
            result = await self._enforcer.aread_refusal(error, context, prompt=prompt)
            # If the check failed, keep the framework's error, which says more.
            if not result.allowed and not result.could_not_judge:
                raise RunRefused(result) from error
        raise error

    # Requests to the model, and its responses.

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check user messages since the last answer, and unchecked tool results."""
        self._run.conversation.reask = None
        await self._check_request(ctx, request_context.messages)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check messages that other capabilities added for this model."""
        await self._check_request(ctx, request_context.messages)
        if reason := self._run.conversation.reask:
            again = ModelRequest([UserPromptPart(reason)])
            return replace(request_context, messages=[*request_context.messages, again])
        return request_context

    async def _check_request(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> None:
        run, new = self._run, list_unanswered(messages)
        prompts = run.conversation.find_new_prompts(new)
        if prompts:
            await run.conversation.check_prompts(prompts, self._context_for(ctx))
        hard: CheckResult | None = None
        for unchecked in run.results.find_unchecked(new):
            call = find_call(messages, unchecked.call_id)
            result, content = await self._check_result(
                unchecked.name,
                unchecked.content,
                self._context_for(ctx, None if call is None else call.tool_call_id),
                None if call is None else call.args_as_json_str(),
                unchecked.call_id,
            )
            run.results.apply_result(unchecked, result, content)
            hard = result if hard is None and result.is_hard else hard
        if hard is not None:
            raise RunRefused(hard)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Check the model's response before it enters the history.

        Raises:
            RetryModelRequest: The model may answer once more.
        """
        parameters, context = request_context.model_request_parameters, self._context_for(ctx)
        conversation = self._run.conversation
        try:
            return await conversation.check_response(response, parameters, context)
        except RunRefused as refused:
            reason = refused.result.reask_message
            if not reason or conversation.reask or request_context.streaming:
                raise
            conversation.reask = reason
            raise RetryModelRequest from refused

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with filtered streams."""
        return FilteredModel(
            model, lambda ctx: self._run.conversation.stream_checks(self._context_for(ctx))
        )

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
            call = build_output_call(output_context, to_jsonable(output))
            context = self._context_for(ctx, call.tool_call_id or None)
            await self._run.conversation.check_output_call(call, context)
        return output

    async def after_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Check the final output: parsed, joined, or returned by a function.

        Raises:
            ModelRetry: The answer is incomplete; streaming waits for the whole.
        """
        if not ctx.partial_output:
            return await self._run.conversation.check_output(output, self._context_for(ctx))
        if output_context.object_def is not None or output_context.tool_call is not None:
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
        if not ctx.tool_call_approved and tool_def.kind not in _DEFERRED_KINDS:
            return args
        request = RequestedToolCall(call, tool_def, to_jsonable(args))
        if ctx.tool_call_approved:
            await self._run.calls.prepare_approved(request, ctx, self._context_for(ctx))
            return args
        result = await self._run.calls.check_call(request, ctx, self._context_for(ctx))
        if tool_def.kind == "external" and not result.allowed:
            self._run.results.record_refusal(call, result)
            raise ToolFailed(result.model_message)
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
        request = RequestedToolCall(call, tool_def, to_jsonable(args))
        context = self._context_for(ctx)
        result = await self._run.calls.check_call(request, ctx, context)
        changed = result.apply_changes(args)
        if not is_changed_fully(result, to_jsonable(changed)):
            result = await self._run.calls.check_unchanged(request, context)
        waits = result.needs_approval and not ctx.tool_call_approved
        if waits and self.approval == "interrupt":
            raise ApprovalRequired(metadata={"refusal": result.envelope})
        self._deny_call(result, call)
        return args if result.changes is None else changed

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
            self._deny_call(error.result, call)
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
        run, call_id = self._run, call.tool_call_id
        checked, result = await self._check_result(
            call.tool_name, result, self._context_for(ctx, call_id), to_jsonable(args), call_id
        )
        self._deny_call(checked, call)
        if isinstance(result, ToolReturn):
            run.results.allow_content(call.tool_name, result.return_value)
            run.conversation.allow_text(content_text(result.content))
        else:
            run.results.allow_content(call.tool_name, result)
        return result

    async def _check_result(
        self, name: str, value: Any, context: CallContext, arguments: Any, call_id: str
    ) -> tuple[CheckResult, Any]:
        """Check what a tool returned; return it with changed texts."""
        checked, changed = CheckResult(Surface.TOOL_RESULT), value
        for enforcer in (self._enforcer, self._enforcer.refuse_changes()):
            checked = await enforcer.acheck_tool_result(
                name,
                result_content(value),
                context,
                arguments=arguments,
                grants=self._run.calls.grants.get(call_id, ()),
            )
            changed = change_result(value, checked)
            if is_changed_fully(checked, result_content(changed)):
                break
        return checked, changed

    def _deny_call(self, result: CheckResult, call: ToolCallPart) -> None:
        if not result.allowed:
            self._run.results.record_refusal(call, result)
            deny_call(result, call)

    def _context_for(self, ctx: RunContext[Any] | None, call_id: str | None = None) -> CallContext:
        if ctx is None:
            return CallContext(_FRAMEWORK)
        if ctx.messages:
            # `on_run_error` gets another list, so keep this one.
            self._run.messages = ctx.messages
        return resolve_context(self.context, ctx, _FRAMEWORK, ctx.run_id, call_id)
