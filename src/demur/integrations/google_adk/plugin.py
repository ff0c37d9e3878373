"""The plugin: each hook of Google ADK calls the enforcer."""

from typing import Any, Unpack

from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.genai.types import Content, Part

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import (
    Approval,
    CheckResult,
    GrantFor,
    acollect_grants,
    check_approval,
)
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
    resolve_context,
)
from demur.integrations._kit.approval import parse_metadata_grants
from demur.integrations.google_adk.checks import Invocation, InvocationChecks, drop_oldest
from demur.integrations.google_adk.contents import (
    add_envelope,
    ask_again,
    build_refusal,
    change_prompt,
    describe_refusal,
    find_unchecked_input,
    is_answer_tool,
    join_texts,
    prompt_text,
    refusal_words,
    to_jsonable,
    to_key,
)

__all__ = ["GoogleADKGuard"]

_FRAMEWORK = "google-adk"
_CARRIED = (Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT)
_CODE_TOOL = "execute_code"
_MAX_KEPT = 10_000


class GoogleADKGuard(BasePlugin):
    """Guards all agents of a runner: `App(..., plugins=[GoogleADKGuard(enforcer)])`, as the first.

    `context` is the call context, or a function of ADK's `InvocationContext`. With
    `approval="interrupt"`, a call that needs approval asks for a tool confirmation, with the
    envelope in its `payload`. A confirmation needs a signed grant: as `grant` or `grants` in its
    `payload`, or from `grant_for`, which demur calls after it. Instead, `approver` names the
    authenticated person whose confirmation counts. The other options are those of all adapters.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        context: ContextSource | None = None,
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        approver: Approver | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        super().__init__(name="demur")
        self.enforcer = adapt_enforcer(
            enforcer, carried=_CARRIED, approver=approver, approval=approval, **options
        )
        self._context = check_context(context)
        self._approval = check_approval(approval)
        self._grant_for = choose_grant_for(self.enforcer, grant_for, approver)
        self._invocations: dict[str, Invocation] = {}
        self._checks = InvocationChecks(self.enforcer)

    # The beginning and the end of an invocation.

    async def on_user_message_callback(
        self, *, invocation_context: Any, user_message: Content
    ) -> Content | None:
        """Check a user's message before it enters the session; a refused one is withheld."""
        state, context = self._enter(invocation_context)
        message = await self._checks.check_returned(state, user_message, context)
        result = await self._checks.check_prompt(state, [prompt_text(message)], context)
        if result.allowed:
            return change_prompt(message, result)
        self._checks.note_refusal(state, result)
        state.end = result
        return Content(role="user", parts=[Part(text=f"[withheld: {result.envelope['code']}]")])

    async def before_run_callback(self, *, invocation_context: Any) -> Content | None:
        """End a run whose message was refused.

        Raises:
            InputError: The guard would not see everything.
        """
        if invocation_context.plugin_manager.plugins[0] is not self:
            problem = "another plugin could answer before `GoogleADKGuard` checks"
            raise InputError(problem, where="plugins", help="name it first in the list of plugins")
        settings, queue = invocation_context.run_config, invocation_context.live_request_queue
        if queue is not None or getattr(settings, "support_cfc", False):
            problem = "live runs cannot be guarded: they are heard before they are checked"
            raise InputError(problem, help="use `run_async`, without `support_cfc`")
        end = self._enter(invocation_context)[0].end
        return None if end is None else refusal_words(end)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> Content | None:
        """Start no agent after a hard refusal."""
        del agent
        if self._enter(callback_context.get_invocation_context())[0].end is None:
            return None
        callback_context.actions.escalate = True
        return Content(role="model", parts=[])

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget the invocation."""
        self._invocations.pop(invocation_context.invocation_id, None)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Forget the invocation."""
        del error
        self._invocations.pop(invocation_context.invocation_id, None)

    # Requests to a model, and its responses.

    async def before_model_callback(
        self, *, callback_context: Any, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Check what started the agent, and results that no tool callback saw."""
        state, context = self._enter(callback_context.get_invocation_context())
        contents, key = llm_request.contents, _agent_key(callback_context)
        state.requests[key] = llm_request
        if state.end is None:
            texts = find_unchecked_input(callback_context, state.inputs | state.cleared)
            if texts:
                result = await self._checks.check_prompt(state, texts, context)
                if not result.allowed:
                    return self._refuse(state, result, callback_context)
                contents[:] = [change_prompt(content, result) for content in contents]
            await self._checks.check_request(state, contents, context)
        return None if state.end is None else self._refuse(state, state.end, callback_context)

    async def after_model_callback(
        self, *, callback_context: Any, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Check a response before it enters the session, and all its calls before one runs."""
        invocation = callback_context.get_invocation_context()
        state, context = self._enter(invocation)
        key = _agent_key(callback_context)
        if llm_response.error_message in self._checks.refusals:
            return None  # It stands for an error that refuses.
        if llm_response.partial:
            return self._checks.filter_partial(state, key, llm_response, context)
        streamed = state.streams.pop(key, None)
        result, response = await self._checks.check_response(state, llm_response, streamed, context)
        request = state.requests.get(key, LlmRequest())
        if result.may_reask and request.contents and not (streamed and streamed.shown):
            again = await ask_again(invocation.agent, request, result.reask_message)
            result, response = await self._checks.check_response(state, again, None, context)
        if result.allowed:
            tools = request.tools_dict
            result = await self._checks.check_calls(
                state, response, tools, invocation.agent, context
            )
        if not result.allowed:
            return self._refuse(state, result, callback_context)
        text = join_texts(response.content)
        if text and not response.get_function_calls():
            prompt = state.prompt
            result = await self.enforcer.aread_refusal(None, context, text=text, prompt=prompt)
            if not result.allowed:
                return response.model_copy(update=add_envelope(response, result))
        return None if response is llm_response else response

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Return a refusal for an error that stands for one."""
        del llm_request
        state, context = self._enter(callback_context.get_invocation_context())
        result = await self.enforcer.aread_refusal(error, context, prompt=state.prompt)
        if result.allowed or result.could_not_judge:
            return None
        return self._refuse(state, result, callback_context)

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        """Check what no model callback saw, and report refused messages and calls."""
        state, context = self._enter(invocation_context)
        if event.author == "user" or event.content is None:
            return None
        text, update = join_texts(event.content), {}
        ids = [one.id or "" for one in event.get_function_responses()]
        denied = [state.denied[one] for one in ids if one in state.denied]
        if denied:
            update = add_envelope(event, denied[0])
        elif state.end is not None and text == state.end.user_text and not event.error_code:
            agent = getattr(invocation_context.agent, "name", event.author)
            update = {**describe_refusal(event, state.end), "author": agent}
        elif event.partial:
            update = {"content": None} if text and text not in state.cleared else {}
        elif text and text not in state.cleared:
            update = await self._checks.check_text(state, event, context)
        else:
            content = await self._checks.check_returned(state, event.content, context)
            update = {} if content is event.content else {"content": content}
        return event.model_copy(update=update) if update else None

    # Tool calls and their results.

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Check a call, unless it was checked with its response.

        Raises:
            InputError: The tool runs an agent without plugins, so nothing in it would be checked.
        """
        if type(tool) is BaseTool or is_answer_tool(tool):
            return None  # ADK answers an unknown tool, and answers are checked as such.
        if isinstance(tool, AgentTool) and not tool.include_plugins:
            problem = f"the agent of the tool `{tool.name}` runs without plugins"
            raise InputError(problem, help="leave out `include_plugins=False`")
        state, context = self._enter(tool_context.get_invocation_context(), tool_context)
        if state.end is not None:
            state.denied[context.call_id or ""] = state.end
            return {"error": state.end.line}
        confirmation = tool_context.tool_confirmation
        grants: Any = ()
        is_confirmed = confirmation is not None and confirmation.confirmed
        if is_confirmed:
            grants = tuple(parse_metadata_grants(confirmation.payload))
        kept = state.checked.get(to_key(tool.name, tool_args))
        if kept and not grants:
            result = kept.pop(0)
        else:
            result = await self._checks.check_call(tool, tool_args, context, grants)
        if is_confirmed and result.needs_approval:
            grants = tuple(await acollect_grants(self._grant_for, result, tool_context))
            if grants:
                # It is still the same call, so no run is named: its history counts it once.
                unnamed = context._replace(run=None)
                result = await self._checks.check_call(tool, tool_args, unnamed, grants)
        state.grants[context.call_id or ""] = grants
        if not result.allowed:
            if result.needs_approval and self._approval == "interrupt" and confirmation is None:
                payload = {"refusal": result.envelope}
                tool_context.request_confirmation(hint=result.user_text, payload=payload)
                tool_context.actions.skip_summarization = True
            return self._checks.deny(state, context, result)
        changed = dict(result.apply_changes(tool_args))
        tool_args.clear()
        tool_args.update(changed)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> dict[str, Any] | None:
        """Check a result before the model reads it."""
        state, context = self._enter(tool_context.get_invocation_context(), tool_context)
        call_id = context.call_id or ""
        if call_id in state.denied or result is None or is_answer_tool(tool):
            return None
        value = to_jsonable(result)
        checked = self._checks.refusals.get(str(value)) if isinstance(tool, AgentTool) else None
        if checked is None:
            grants = state.grants.get(call_id, ())
            checked = await self.enforcer.acheck_tool_result(
                tool.name, value, context, arguments=tool_args, grants=grants
            )
        if not checked.allowed:
            return self._checks.deny(state, context, checked)
        changed = checked.apply_changes(value)
        changed = changed if isinstance(changed, dict) else {"result": changed}
        state.cleared.add(to_key(changed))
        return None if checked.changes is None else changed

    # The checks, and how they are reported.

    def _enter(self, invocation: Any, tool_context: Any = None) -> tuple[Invocation, CallContext]:
        """Return the state of an invocation, and the context of a check in it."""
        name = invocation.invocation_id
        state = self._invocations.setdefault(name, Invocation())
        drop_oldest(self._invocations)
        call_id = None if tool_context is None else tool_context.function_call_id
        return state, resolve_context(self._context, invocation, _FRAMEWORK, name, call_id)

    def _refuse(self, state: Invocation, result: CheckResult, callback_context: Any) -> LlmResponse:
        """Return the response that ends the run of an agent; a hard one ends all of them."""
        self._checks.note_refusal(state, result)
        callback_context.actions.escalate = result.is_hard or None
        return build_refusal(result, callback_context.get_invocation_context().agent)


def _agent_key(callback_context: Any) -> str:
    return f"{callback_context.agent_name} {callback_context.get_invocation_context().branch}"
