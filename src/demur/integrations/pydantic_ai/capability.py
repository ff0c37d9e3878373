"""The capability: the framework's hooks, each one a question to the enforcer."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    FallbackExceptionGroup,
    ToolFailed,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError, InputTypeError
from demur.integrations.pydantic_ai.calls import Calls, GrantFor
from demur.integrations.pydantic_ai.held_back import Clearing, HeldBackModel
from demur.integrations.pydantic_ai.messages import (
    content_text,
    new_prompts,
    plain,
    returned,
    said,
    tidy,
    to_call,
    with_help,
)
from demur.integrations.pydantic_ai.refused import RunRefused, deny, or_end
from demur.integrations.pydantic_ai.results import Results, Unread

__all__ = ["RefusalCapability"]

_FRAMEWORK = "pydantic-ai"
_NOBODY = Occasion()


@dataclass
class _Run:
    """What one run has been through."""

    calls: Calls
    prompts: set[tuple[datetime, str]] = field(default_factory=set)
    prompt: str | None = None
    cleared: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    made: set[tuple[str, str]] = field(default_factory=set)
    results: Results = field(default_factory=Results)
    messages: list[ModelMessage] = field(default_factory=list)


@dataclass
class RefusalCapability(AbstractCapability[Any]):
    """Guards every run of an agent: `Agent(..., capabilities=[RefusalCapability(enforcer)])`.

    `occasion` says who asks, by the run and its `deps`; what it leaves open is filled in. A
    call that waits for approval ends the run in `DeferredToolRequests`, its envelope in the
    `metadata` under `refusal`; where nobody handles those, `approvals=False` tells the model
    instead. An approval alone lifts nothing: it needs a signed grant, as `grant` or `grants`
    in the metadata of the results, or from `grant_for` for hosts that sign one themselves
    once somebody whom they trust said yes.
    """

    enforcer: Enforcer
    _: KW_ONLY
    occasion: Callable[[RunContext[Any]], Occasion] | None = None
    approvals: bool = True
    grant_for: GrantFor | None = None
    _run: _Run = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse settings under which nothing would be guarded."""
        if not isinstance(self.enforcer, Enforcer):
            raise InputTypeError.expected("enforcer", "an `Enforcer`", self.enforcer)
        if self.occasion is not None and not callable(self.occasion):
            raise InputTypeError.expected("occasion", "a function of the run", self.occasion)
        if self.defer_loading:
            raise InputError(
                "a guard cannot wait until a model loads it", help="leave out `defer_loading`"
            )
        self._run = _Run(Calls(self.enforcer, self._at, self.grant_for))

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
        """Judge what the user said since the model last answered, and results nobody has judged."""
        run, messages = self._run, request_context.messages
        words = [(part.timestamp, content_text(part.content)) for part in new_prompts(messages)]
        fresh = [
            text
            for when, text in words
            if text and text not in run.added and (when, text) not in run.prompts
        ]
        if fresh:
            run.prompts.update(words)
            run.prompt = "\n".join(fresh)
            or_end(await self.enforcer.aprompt(run.prompt, self._at(ctx)))
        hard = await run.results.judge(messages, lambda one: self._result(ctx, one))
        if hard is not None:
            raise RunRefused(hard)
        return request_context

    async def _result(self, ctx: RunContext[Any], one: Unread) -> Ruling:
        given = None if one.call is None else one.call.args_as_json_str()
        call_id = "" if one.call is None else one.call.tool_call_id
        return await self.enforcer.atool_result(
            one.name,
            plain(one.content),
            self._at(ctx, one.call),
            arguments=given,
            grants=self._run.calls.grants.get(call_id, ()),
        )

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

    async def before_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Judge the call of a function that makes the output, like any other call."""
        if output_context.has_function:
            asked = to_call(output_context, plain(output))
            # In a stream, it is called for the same output more than once.
            key = (asked.tool_name, asked.args_as_json_str())
            if key not in self._run.made:
                at = self._at(ctx, output_context.tool_call)
                given = asked.args_as_dict()
                or_end(await self.enforcer.atool_call(asked.tool_name, given, at))
                self._run.made.add(key)
        return output

    async def after_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any
    ) -> Any:
        """Judge what a function made of the model's output."""
        if output_context.has_function and not ctx.partial_output:
            await self._answer(texts_in(plain(output)), self._at(ctx))
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

    async def after_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Judge a call that runs elsewhere: nothing else is asked before it is handed out."""
        if tool_def.kind == "external":
            ruling = await self._run.calls.ruled(ctx, call, tool_def, plain(args))
            if not ruling.allowed:
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
        """Judge the call, and before it all calls beside it: none runs if one ends the run."""
        ruling = await self._run.calls.ruled(ctx, call, tool_def, plain(args))
        if ruling.may_be_approved and self.approvals and not ctx.tool_call_approved:
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
        """Tell the model of what an agent was refused that works for it."""
        del ctx, tool_def, args
        if isinstance(error, RunRefused):
            self._deny(error.ruling, call)
        raise error

    def _deny(self, ruling: Ruling, call: ToolCallPart) -> None:
        if not ruling.allowed:
            self._run.results.refuse(call, ruling)
        deny(ruling, call)

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
            call.tool_name,
            returned(result),
            self._at(ctx, call),
            arguments=plain(args),
            grants=self._run.calls.grants.get(call.tool_call_id, ()),
        )
        self._deny(ruling, call)
        added = isinstance(result, ToolReturn)
        self._run.results.allow(call.tool_name, result.return_value if added else result)
        if added:
            self._run.added.add(content_text(result.content))
        return result

    def _at(self, ctx: RunContext[Any] | None, call: ToolCallPart | None = None) -> Occasion:
        if ctx is None:
            return Occasion(framework=_FRAMEWORK)
        if ctx.messages:
            # Where a run fails, the framework shows another list.
            self._run.messages = ctx.messages
        asked = _NOBODY if self.occasion is None else self.occasion(ctx)
        return asked._replace(
            framework=_FRAMEWORK,
            run=asked.run or ctx.run_id,
            call_id=asked.call_id if call is None else call.tool_call_id,
        )
