"""The guard: checks the calls of models, the tool calls of agents, and their results."""

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar, Unpack, get_args

from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.tools import ToolOutput as AgentToolOutput
from llama_index.core.workflow import HumanResponseEvent, InputRequiredEvent

from demur.codes.vocabulary import Surface
from demur.enforce.context import Call, CallContext, Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import (
    Approval,
    CheckResult,
    GrantFor,
    Refused,
    acollect_grants,
    append_resources,
    check_approval,
)
from demur.errors import InputError, InputTypeError
from demur.gate.clock import system_entropy
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
    is_changed_fully,
    resolve_context,
)
from demur.integrations._kit.approval import is_approval, parse_resume_grants
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    NewTurn,
    RefusedTexts,
    ToolOutput,
    find_new_start,
    read_new_turn,
    refused_texts_for,
)
from demur.integrations._kit.model_api import RefusalMode
from demur.integrations.llamaindex.models import (
    GUARD_ATTRIBUTE,
    CheckedInput,
    ModelCall,
    ModelInput,
    Response,
    ResponseFilter,
    add_message,
    build_refusal_answer,
    call_arguments,
    change_input,
    derive_class,
    derive_model,
    guard_object,
    last_prompt,
    message_text,
    replace_text,
    response_text,
)
from demur.model.grant import Grant

_FRAMEWORK = "llamaindex"
# LlamaIndex's own tool, which only chooses the next agent.
_HANDOFF = "handoff"
# Where a run keeps its id, and the hard refusal that ended it, in the store of its context.
_RUN_KEY, _END_KEY = "demur_run", "demur_end"
_CARRIED = (Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT)
_NO_GRANTS: tuple[Grant, ...] = ()
_MAX_KEPT_CHECKS = 1_000
_Target = TypeVar("_Target", LLM, BaseWorkflowAgent, AgentWorkflow)
_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass
class _AgentStep:
    """The state of one step of an agent.

    `end` is the refusal that ended the run before; `changed_prompt` the result of a prompt that
    was refused or changed.
    """

    context: CallContext
    end: dict[str, Any] | None
    changed_prompt: CheckResult | None = None


_STEP: ContextVar[_AgentStep | None] = ContextVar("demur_llamaindex_step", default=None)


class LlamaIndexGuard:
    """Guards models, agents and workflows: `agent = LlamaIndexGuard(enforcer).attach(agent)`.

    `attach` copies a model; agents and workflows are guarded in place, with their models and tools.
    `context` is the call context, or a function of the agent's `Context`, or of None for a model
    alone. With `approval="interrupt"`, a call that needs approval sends an `InputRequiredEvent` and
    waits for a `HumanResponseEvent` with the same `call`; `grant_for` returns the grants of an
    approved call, or `approver` names the authenticated person whose approval counts. Outside
    agents a refusal raises `Refused`, or with `on_refusal="answer"` it is the model's answer. The
    other options are those of all adapters.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        context: ContextSource | None = None,
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        approver: Approver | None = None,
        on_refusal: RefusalMode = "raise",
        **options: Unpack[AdapterOptions],
    ) -> None:
        self.enforcer = adapt_enforcer(
            enforcer, carried=_CARRIED, approver=approver, approval=approval, **options
        )
        self._context = check_context(context)
        self._approval = check_approval(approval)
        self._grant_for = choose_grant_for(self.enforcer, grant_for, approver)
        if on_refusal not in get_args(RefusalMode):
            raise InputError("unknown value", where="on_refusal", help="`raise` or `answer`")
        self._on_refusal = on_refusal
        self._refused_texts = refused_texts_for(enforcer)
        # The checked results of tools, in the forms in which a model reads them.
        self._checked_results = RefusedTexts()
        self._checked_calls: dict[str, list[CheckResult]] = {}
        self._lock = Lock()

    def __deepcopy__(self, _memo: Any) -> "LlamaIndexGuard":
        return self

    def attach(self, target: _Target) -> _Target:
        """Return the guarded model, agent or workflow.

        Raises:
            InputTypeError: It is something else.
        """
        if isinstance(target, LLM):
            model = target.model_copy()
            guard_object(model, derive_model, self)
            return model
        if isinstance(target, AgentWorkflow):
            for agent in target.agents.values():
                self.attach(agent)
        elif isinstance(target, BaseWorkflowAgent):
            target.llm = self.attach(target.llm)
        else:
            expected = "a model, an agent or an `AgentWorkflow`"
            raise InputTypeError.wrong_type("the target", expected, target)
        guard_object(target, _derive_agent, self)
        return target

    # Calls of models.

    def model_steps(self, call: ModelCall, given: ModelInput) -> Steps[Response]:
        """Check a prompt, call the model, and return its answer or a refusal."""
        given, refused = yield from self.prompt_steps(given)
        if refused is not None:
            return refused
        context, prompt, asked = self._model_context(), last_prompt(given), given
        while True:
            try:
                response = yield Call(call, (asked,))
            except Exception as error:
                refused = yield from self.error_steps(error, given)
                if refused is None:
                    raise
                return refused
            text = response_text(response)
            result = yield from self._check_response(response, context, prompt)
            if result.allowed and text:
                result = yield from self.enforcer.answer_steps(text, context, prompt=prompt)
            if not result.may_reask or asked is not given:
                break
            asked = add_message(given, result.reask_message)
        if not result.allowed:
            return self._refuse(result, given)
        if result.resources or result.changes is not None:
            text = append_resources(result.apply_changes(text), result.resources)
            response = replace_text(response, text, keeps_raw=result.changes is None)
        return (yield from self._mark_declined(response, text, context, prompt))

    def prompt_steps(self, given: ModelInput) -> Steps[CheckedInput]:
        """Check what the model reads for the first time."""
        step, context = _STEP.get(), self._model_context()
        if step is not None and step.end is not None:
            return given, build_refusal_answer(step.end, given)
        turn, results = self._read_turn(given), []
        if turn.text:
            results.append((yield from self._check_prompt(turn.text, given, context)))
        for one in turn.tool_outputs:
            check = self.enforcer.refuse_changes().tool_result_steps(one.name, one.result, context)
            results.append((yield from check))
        refused = next((one for one in results if not one.allowed), None)
        changed = next((one for one in results if one.changes is not None), None)
        if step is not None:
            step.changed_prompt = changed if refused is None else refused
        if refused is None:
            return given if changed is None else change_input(given, changed), None
        self._refused_texts.add((*turn.texts, *(one.text for one in turn.tool_outputs)))
        return given, self._refuse(refused, given)

    def _check_prompt(
        self, text: str, given: ModelInput, context: CallContext
    ) -> Steps[CheckResult]:
        result = yield from self.enforcer.prompt_steps(text, context)
        if result.changes is None:
            return result
        left = self._read_turn(change_input(given, result)).text
        if is_changed_fully(result, left):
            return result
        # What was found lies across parts of the prompt.
        return (yield from self.enforcer.refuse_changes().prompt_steps(text, context))

    def error_steps(self, error: Exception, given: ModelInput) -> Steps[Response | None]:
        """Return the refusal that a provider's error stands for, or None."""
        context, prompt = self._model_context(), last_prompt(given)
        result = yield from self.enforcer.refusal_steps(error, context, prompt=prompt)
        return None if result.allowed else self._refuse(result, given)

    def open_stream(self, given: ModelInput) -> ResponseFilter:
        """Return the filter of a stream."""
        context, prompt = self._model_context(), last_prompt(given)
        return ResponseFilter(
            self.enforcer.stream_answer(context, prompt=prompt),
            partial(self._check_response, context=context, prompt=prompt),
            partial(self._mark_declined, context=context, prompt=prompt),
            partial(self._refuse, given=given),
        )

    def _check_response(
        self, response: Response, context: CallContext, prompt: str | None
    ) -> Steps[CheckResult]:
        """Check what a provider says of its answer, and an answer in the form of a tool call."""
        result = yield from self.enforcer.refusal_steps(response.raw, context, prompt=prompt)
        arguments = call_arguments(response)
        if not result.allowed or not arguments or _STEP.get() is not None:
            # The calls of an agent are checked as calls.
            return result
        enforcer = self.enforcer.refuse_changes()
        return (yield from enforcer.answer_steps(arguments, context, prompt=prompt))

    def _mark_declined(
        self, response: Response, text: str, context: CallContext, prompt: str | None
    ) -> Steps[Response]:
        """Return the response; if the model refused in its own words, with the refusal."""
        result = yield from self.enforcer.refusal_steps(None, context, text=text, prompt=prompt)
        if result.allowed:
            return response
        raw: Any = response.raw
        fields = raw.model_dump() if hasattr(raw, "model_dump") else raw
        fields = fields if isinstance(fields, dict) else {}
        return response.model_copy(update={"raw": {**fields, "refusal": result.envelope}})

    def _refuse(self, result: CheckResult, given: ModelInput) -> Response:
        """Return the refusal as an answer.

        Raises:
            Refused: The settings say so; a step of an agent always answers.
        """
        if _STEP.get() is None and self._on_refusal == "raise":
            raise Refused(result)
        return build_refusal_answer(_describe_refusal(result), given)

    def _read_turn(self, given: ModelInput) -> NewTurn:
        if isinstance(given, str):
            return NewTurn(given, (), (given,))
        reader = MessageReader(_is_answer, _is_operator, self._read_message)
        return read_new_turn(given, reader, self._refused_texts, recheck_history=False)

    def _read_message(self, message: ChatMessage) -> MessageContent:
        text = message_text(message)
        if text in self._checked_results:
            return MessageContent()
        if message.role in ("tool", "function"):
            fields = message.additional_kwargs
            output = ToolOutput(fields.get("name") or "tool", text, fields.get("tool_call_id"))
            return MessageContent((), (output,))
        return MessageContent((text,))

    def _model_context(self) -> CallContext:
        step = _STEP.get()
        return resolve_context(self._context, None, _FRAMEWORK) if step is None else step.context

    # Steps and tool calls of agents.

    async def take_step(self, step: Callable[..., Any], ctx: Any, *given: Any) -> Any:
        """Take a step of an agent; check all tool calls of its output before one of them runs."""
        current = _AgentStep(await self._agent_context(ctx), await ctx.store.get(_END_KEY, None))
        token = _STEP.set(current)
        try:
            output = await step(ctx, *given)
        finally:
            _STEP.reset(token)
        if current.end is not None:
            await ctx.store.set(_END_KEY, None)
        if current.changed_prompt is not None:
            await _change_memory(given[-1], current.changed_prompt)
        for call in output.tool_calls:
            if call.tool_name == _HANDOFF:
                continue
            name, arguments, context = call.tool_name, call.tool_kwargs, current.context
            result = await self.enforcer.acheck_tool_call(
                name, arguments, context._replace(call_id=call.tool_id)
            )
            self._keep_check(_call_key(context, name, arguments), result)
            if result.is_hard:
                await ctx.store.set(_END_KEY, _describe_refusal(result))
                break
        return output

    async def call_tool(
        self, call: Callable[..., Any], ctx: Any, tool: Any, arguments: dict[str, Any]
    ) -> Any:
        """Run a tool if its call is allowed, and check its result."""
        name = tool.metadata.get_name()
        if name == _HANDOFF:
            return await call(ctx, tool, arguments)
        context, end = await self._agent_context(ctx), await ctx.store.get(_END_KEY, None)
        key, grants = _call_key(context, name, arguments), _NO_GRANTS
        result = self._take_check(key)
        if end is not None and (result is None or result.allowed):
            return self._deny(name, arguments, f"not run, because the run ended: {end['line']}")
        if result is None:
            result = await self.enforcer.acheck_tool_call(name, arguments, context)
        decided = result
        if result.needs_approval and self._approval == "interrupt":
            result, grants = await self._wait_for_approval(ctx, result, key, name, arguments)
        if result.allowed:
            arguments = result.apply_changes(arguments)
            try:
                output = await call(ctx, tool, arguments)
            except Exception:
                # The tool waits for an event, and this step runs again.
                self._keep_check(key, decided)
                raise
            result = await self.enforcer.acheck_tool_result(
                name, output.content, context, arguments=arguments, grants=grants
            )
            if result.allowed:
                if result.changes is not None:
                    text = result.apply_changes(output.content)
                    output = AgentToolOutput(name, text, raw_input=arguments)
                self._note_result(output.content)
                return output
        if result.is_hard:
            await ctx.store.set(_END_KEY, _describe_refusal(result))
        return self._deny(name, arguments, result.model_message, refusal=result.envelope)

    async def _wait_for_approval(
        self, ctx: Any, result: CheckResult, key: str, name: str, arguments: Any
    ) -> tuple[CheckResult, tuple[Grant, ...]]:
        """Wait for a person; return the result that the grants lead to, and the grants."""
        # The framework runs this step again with the person's answer.
        self._keep_check(key, result)
        answer = await _ask_person(ctx, result, key, name, arguments)
        self._take_check(key)
        grants = parse_resume_grants(answer)
        if not grants and is_approval(answer):
            grants = await acollect_grants(self._grant_for, result, answer)
        if grants:
            # It is still the same call, so no run is named: its history counts it once.
            unnamed = (await self._agent_context(ctx))._replace(run=None)
            result = await self.enforcer.acheck_tool_call(name, arguments, unnamed, grants=grants)
        return result, grants

    def _deny(self, name: str, arguments: Any, text: str, **raw: Any) -> AgentToolOutput:
        self._note_result(text)
        return AgentToolOutput(name, text, raw_input=arguments, raw_output=raw, is_error=True)

    def _note_result(self, text: str) -> None:
        # An agent that reasons in text reads a result as an observation of the user.
        self._checked_results.add((text, f"Observation: {text}"))

    def _keep_check(self, key: str, result: CheckResult) -> None:
        with self._lock:
            self._checked_calls.setdefault(key, []).append(result)
            if len(self._checked_calls) > _MAX_KEPT_CHECKS:
                del self._checked_calls[next(iter(self._checked_calls))]

    def _take_check(self, key: str) -> CheckResult | None:
        with self._lock:
            kept = self._checked_calls.pop(key, [])
            if len(kept) > 1:
                self._checked_calls[key] = kept[1:]
        return kept[0] if kept else None

    async def _agent_context(self, ctx: Any) -> CallContext:
        run = await ctx.store.get(_RUN_KEY, None)
        if run is None:
            run = system_entropy(16).hex()
            await ctx.store.set(_RUN_KEY, run)
        return resolve_context(self._context, ctx, _FRAMEWORK, run)


@cache
def _derive_agent(base: Any) -> Any:
    """Return the class of a guarded agent or workflow."""

    async def _call_tool(self: Any, ctx: Any, tool: Any, tool_input: dict[str, Any]) -> Any:
        call = partial(base._call_tool, self)  # noqa: SLF001 - every call of a tool passes it
        return await getattr(self, GUARD_ATTRIBUTE).call_tool(call, ctx, tool, tool_input)

    async def take_step(self: Any, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        step = partial(base.take_step, self)
        return await getattr(self, GUARD_ATTRIBUTE).take_step(step, ctx, llm_input, tools, memory)

    members = {"_call_tool": _call_tool}
    return derive_class(
        base, {**members, "take_step": take_step} if hasattr(base, "take_step") else members
    )


async def _ask_person(ctx: Any, result: CheckResult, key: str, name: str, arguments: Any) -> Any:
    """Wait until a person answers, and return the answer; the framework resumes this step."""
    asked = InputRequiredEvent(
        prefix=result.line,
        call=key,
        tool_name=name,
        tool_kwargs=arguments,
        refusal=result.envelope,
    )
    event = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_event=asked,
        waiter_id=key,
        requirements={"call": key},
        timeout=None,
    )
    return event.get("response")


async def _change_memory(memory: Any, result: CheckResult) -> None:
    """Change or withhold the user's new messages in a memory, so that no model reads them."""
    messages = await memory.aget_all()
    start = find_new_start(messages, _is_answer)
    new: Any = change_input(messages[start:], result)
    if not result.allowed:
        withheld = f"[withheld: {result.envelope['code']}]"
        new = [ChatMessage(withheld, role="user") if one.role == "user" else one for one in new]
    await memory.aset([*messages[:start], *new])


def _describe_refusal(result: CheckResult) -> dict[str, Any]:
    """Return a refusal as plain JSON, as the store of a context keeps it."""
    return {"text": result.user_text, "line": result.line, "envelope": result.envelope}


def _call_key(context: CallContext, name: str, arguments: Any) -> str:
    return _as_json([context.run, name, arguments])


def _is_answer(message: ChatMessage) -> bool:
    return bool(message.role == "assistant")


def _is_operator(message: ChatMessage) -> bool:
    return message.role in ("system", "developer")
