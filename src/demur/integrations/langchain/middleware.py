"""The middleware of an agent: every hook asks the enforcer and says no in LangChain's way.

What people say is ruled on before a model reads it, what the model says before anybody else
does, and all tool calls of one message before the first of them runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import TypedDict

from demur.enforce.approval import Approval, GrantFor, check_approval
from demur.enforce.enforcer import Enforcer, CallContext
from demur.gate.gate import Gate
from demur.integrations.langchain.answers import check_answer, answer_after_error
from demur.integrations.langchain.asking import (
    HookSteps,
    ContextForRuntime,
    adrive_hook,
    drive_hook,
    build_context,
    find_run_id,
)
from demur.integrations.langchain.calls import (
    CallAdmission,
    admit_call,
    keep_paused_grants,
    plan_calls,
    check_result,
)
from demur.integrations.langchain.inputs import check_new_messages, read_added_messages
from demur.integrations.langchain.left_calls import answer_abandoned_calls
from demur.integrations.langchain.listeners import RunListeners, suppress_callbacks
from demur.integrations.langchain.messages import (
    find_closing_answer,
    find_earlier_end,
    is_refused,
    list_open_calls,
    content_text,
)
from demur.integrations.langchain.notes import Seal, derive_key, make_seal
from demur.integrations.langchain.resumed import ApprovalGrants
from demur.integrations.langchain.streaming import ModelWatch
from demur.model.grant import Grant

__all__ = ["LangChainGuard"]

_Response: TypeAlias = ModelResponse[Any]
_Extended: TypeAlias = _Response | ExtendedModelResponse[Any]
# The refusal that replaces an answer, if any, and an update of the state.
_MessageCheck = tuple[AIMessage | None, dict[str, Any]]
# Key of a pending update in the step's own state; it is no channel of the graph.
_PENDING_UPDATE = "demur_ahead"


class _LangChainState(TypedDict, total=False):
    """The state shared by the hooks: run, digests of checked messages, notes on calls."""

    demur_run: Annotated[str | None, PrivateStateAttr]
    demur_said: Annotated[list[str], PrivateStateAttr]
    demur_calls: Annotated[dict[str, Any], PrivateStateAttr]


class LangChainGuard(AgentMiddleware[Any, Any, Any]):
    """Guards an agent: `create_agent(middleware=[LangChainGuard(enforcer)])`.

    `approval` says how a call asks for approval: by a `"message"` to the model, or by an
    `"interrupt"`, which needs a checkpointer. Resume the run with a grant, or with a plain
    approval; `grant_for` then returns the grants, given the check result and the resume value.
    `context` returns the call context for a hook's runtime; demur fills in the rest. `key` is a
    secret of at least 16 bytes; processes that share threads and the key accept each other's
    notes and repeat no check. Put it last in the list, so that it sees the final requests and
    calls.
    """

    state_schema = _LangChainState

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        context: ContextForRuntime | None = None,
        key: bytes | None = None,
    ) -> None:
        super().__init__()
        self.enforcer = Enforcer.from_gate(enforcer)
        self.tools = ()
        self._approval = check_approval(approval)
        self._approvals = ApprovalGrants(grant_for)
        self._context = context
        self._seal_key = derive_key(key)

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages; a refused message is withheld, and the run ends."""
        return drive_hook(self._start_run(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages, like `before_agent`."""
        return await adrive_hook(self._start_run(state, runtime), self.enforcer)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], _Response]
    ) -> _Extended:
        """Return the model's answer, or a refusal in its place.

        demur does not call the model after a hard refusal of a tool call, nor if new user
        messages are refused.
        """
        answer, notes = drive_hook(self._check_before_model(request), self.enforcer)
        if answer is not None:
            return _with_notes(ModelResponse([answer]), notes)
        with suppress_callbacks() as audience:
            watch = self._build_watch(request, audience)
            try:
                response = handler(_watch_request(request, watch, is_async=False))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = drive_hook(answer_after_error(error, watch), self.enforcer)
                if instead is None:
                    raise
                return _with_notes(instead, notes)
        return _with_notes(drive_hook(check_answer(response, watch), self.enforcer), notes)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[_Response]],
    ) -> _Extended:
        """Return the model's answer, like `wrap_model_call`."""
        answer, notes = await adrive_hook(self._check_before_model(request), self.enforcer)
        if answer is not None:
            return _with_notes(ModelResponse([answer]), notes)
        with suppress_callbacks() as audience:
            watch = self._build_watch(request, audience)
            try:
                response = await handler(_watch_request(request, watch, is_async=True))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = await adrive_hook(answer_after_error(error, watch), self.enforcer)
                if instead is None:
                    raise
                return _with_notes(instead, notes)
        return _with_notes(await adrive_hook(check_answer(response, watch), self.enforcer), notes)

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message; reply to the refused ones."""
        return drive_hook(self._check_calls(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message, like `after_model`."""
        return await adrive_hook(self._check_calls(state, runtime), self.enforcer)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Run the tool if its call is allowed, and return its result or a refusal."""
        refused, grants = drive_hook(self._admit_call(request), self.enforcer)
        if refused is not None:
            return refused
        try:
            result = handler(request)
        except GraphBubbleUp:
            self._keep_grants(request, grants)
            raise
        at = self._context_for(request.state, request.runtime)
        return drive_hook(check_result(request.tool_call, result, at, grants), self.enforcer)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run the tool if its call is allowed, like `wrap_tool_call`."""
        refused, grants = await adrive_hook(self._admit_call(request), self.enforcer)
        if refused is not None:
            return refused
        try:
            result = await handler(request)
        except GraphBubbleUp:
            self._keep_grants(request, grants)
            raise
        at = self._context_for(request.state, request.runtime)
        return await adrive_hook(check_result(request.tool_call, result, at, grants), self.enforcer)

    def _start_run(self, state: Any, runtime: Any) -> HookSteps[dict[str, Any] | None]:
        update: dict[str, Any] = {}
        if find_run_id(runtime) is None:
            # Without a thread or run id, use the id of the first checkpoint.
            info = getattr(runtime, "execution_info", None)
            update["demur_run"] = getattr(info, "checkpoint_id", None)
        answered = answer_abandoned_calls(state["messages"], state.get("demur_calls") or {})
        answer, notes = yield from self._check_messages({**state, **update}, runtime)
        update |= notes
        if answered is not None:
            instead = {one.id: one for one in notes.get("messages", ())}
            every = [instead.get(one.id, one) for one in answered]
            update["messages"] = [RemoveMessage(REMOVE_ALL_MESSAGES), *every]
        if answer is not None:
            update |= {"messages": [*update["messages"], answer], "jump_to": "end"}
        return update or None

    def _check_before_model(self, request: ModelRequest[Any]) -> HookSteps[_MessageCheck]:
        state: Any = request.state
        end = find_closing_answer(state["messages"])
        if end is not None:
            return end, {}
        beside = read_added_messages(request.messages, state["messages"])
        answer, notes = yield from self._check_messages(state, request.runtime, beside)
        if answer is None and notes:
            # A retry after an error gets the same state.
            state |= notes | {_PENDING_UPDATE: notes}
        return answer, notes or state.get(_PENDING_UPDATE, {})

    def _check_messages(
        self, state: Any, runtime: Any, added: Sequence[BaseMessage] = ()
    ) -> HookSteps[_MessageCheck]:
        at, seal = self._context_for(state, runtime), self._seal_for(state, runtime)
        ruled = state.get("demur_said") or ()
        said = yield from check_new_messages(state["messages"], ruled, at, seal, added)
        if said is None:
            return None, {}
        notes: dict[str, Any] = {"demur_said": said.digests}
        if said.answer is not None:
            notes["messages"] = said.withheld
        return said.answer, notes

    def _check_calls(self, state: Any, runtime: Any) -> HookSteps[dict[str, Any] | None]:
        messages = state["messages"]
        if messages and is_refused(messages[-1]):
            # Without this, an agent that expects another answer could loop forever.
            return {"jump_to": "end"}
        end = find_earlier_end(messages)
        if end is not None:
            # Another middleware answered in place of the model, so `wrap_model_call` did not run.
            return {"messages": [end], "jump_to": "end"}
        calls = list_open_calls(messages)
        if not calls:
            return None
        plan = yield from plan_calls(calls, self._context_for(state, runtime), self._approval)
        if plan.end is not None:
            return {"messages": [*plan.refusals, plan.end], "jump_to": "end"}
        answers, notes = plan.split_answers(self._seal_for(state, runtime))
        update = {"demur_calls": notes}
        return {**update, "messages": answers} if answers else update

    def _admit_call(self, request: ToolCallRequest) -> HookSteps[CallAdmission]:
        state = request.state
        notes = state.get("demur_calls") if isinstance(state, dict) else None
        at, seal = self._context_for(state, request.runtime), self._seal_for(state, request.runtime)
        return (yield from admit_call(request.tool_call, notes or {}, at, seal, self._approvals))

    def _keep_grants(self, request: ToolCallRequest, grants: tuple[Grant, ...]) -> None:
        seal = self._seal_for(request.state, request.runtime)
        keep_paused_grants(request.tool_call, grants, seal, self._approvals)

    def _build_watch(self, request: ModelRequest[Any], listeners: RunListeners) -> ModelWatch:
        said = (one for one in reversed(request.messages) if isinstance(one, HumanMessage))
        last = next(said, None)
        prompt = None if last is None else content_text(last.content)
        at = self._context_for(request.state, request.runtime)
        return ModelWatch(self.enforcer, at, prompt, listeners)

    def _context_for(self, state: Any, runtime: Any) -> CallContext:
        return build_context(runtime, _stored_run(state), self._context)

    def _seal_for(self, state: Any, runtime: Any) -> Seal:
        return make_seal(self._seal_key, find_run_id(runtime) or _stored_run(state))


def _stored_run(state: Any) -> str | None:
    return state.get("demur_run") if isinstance(state, dict) else None


def _watch_request(
    request: ModelRequest[Any], watch: ModelWatch, *, is_async: bool
) -> ModelRequest[Any]:
    model = watch.wrap_model(request.model, request.model_settings, is_async=is_async)
    return request if model is request.model else request.override(model=model)


def _with_notes(response: _Response, notes: dict[str, Any]) -> _Extended:
    return ExtendedModelResponse(response, Command(update=notes)) if notes else response
