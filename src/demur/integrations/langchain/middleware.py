"""The agent middleware: each hook asks the enforcer and refuses in LangChain's own way.

User messages are checked before a model reads them, answers before anyone else does, and all
tool calls of one message before the first of them runs.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from typing_extensions import TypedDict

from demur.enforce.approval import Approval, GrantFor, check_approval
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import append_resources
from demur.gate.gate import Gate
from demur.integrations._kit.approval import ApprovalGrants
from demur.integrations.langchain.calls import (
    CallAdmission,
    admit_call,
    answer_abandoned_calls,
    check_result,
    keep_paused_grants,
    plan_calls,
)
from demur.integrations.langchain.context import (
    ContextForRuntime,
    EnforcerCheck,
    HookSteps,
    Seal,
    adrive_hook,
    build_context,
    derive_key,
    drive_hook,
    find_run_id,
    make_seal,
)
from demur.integrations.langchain.messages import (
    build_refusal_answer,
    check_new_messages,
    content_text,
    find_closing_answer,
    find_earlier_end,
    is_refused,
    list_open_calls,
    mark_declined,
    read_added_messages,
)
from demur.integrations.langchain.streaming import ModelWatch, RunListeners, suppress_callbacks
from demur.model.grant import Grant


def check_answer(response: ModelResponse[Any], watch: ModelWatch) -> HookSteps[ModelResponse[Any]]:
    """Check the answer, and return it or its replacement.

    If the model refuses in its own words, the message keeps them and gets the refusal as
    metadata. A message with tool calls is not searched for refusals.
    """
    said = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if said is None:
        return response
    given, text, forms = said, content_text(said.content), _structured_answers(response)
    ruling = yield EnforcerCheck("read_refusal", (said, watch.context), {"prompt": watch.prompt})
    streamed = watch.result_for(said.content)
    if ruling.allowed and streamed is not None:
        ruling = streamed
    # A clean stream may lack parts of the answer, or join blocks that a model reads apart.
    read = text if streamed is None else watch.text_by_block
    if ruling.allowed and (read or forms):
        whole = _join_answer(read or text, forms)
        ruling = yield EnforcerCheck(
            "check_answer", (whole, watch.context), {"prompt": watch.prompt}
        )
        said = _add_resources(said, text, ruling.resources) if ruling.allowed else said
    if not ruling.allowed:
        # A streamed message cannot be replaced, so the refusal becomes a message of its own.
        shown = watch.has_streamed and ruling is not streamed
        return ModelResponse(result=[build_refusal_answer(ruling, None if shown else said)])
    if text and not said.tool_calls:
        asked = {"text": text, "prompt": watch.prompt}
        ruling = yield EnforcerCheck("read_refusal", (None, watch.context), asked)
        said = said if ruling.allowed else mark_declined(said, ruling)
    spoken = sum(isinstance(one, AIMessage) for one in response.result)
    return response if said is given and spoken == 1 else _keep_only(response, said)


def answer_after_error(error: Exception, watch: ModelWatch) -> HookSteps[ModelResponse[Any] | None]:
    """Return the refusal for a model call that raised; None if the error is no refusal.

    The provider may have refused by an error, or a refused stream may have left no structured
    answer.
    """
    ruling = watch.refusal
    if ruling is None:
        ruling = yield EnforcerCheck(
            "read_refusal", (error, watch.context), {"prompt": watch.prompt}
        )
    if ruling.allowed:
        return None
    return ModelResponse(result=[build_refusal_answer(ruling, getattr(error, "ai_message", None))])


def _structured_answers(response: ModelResponse[Any]) -> list[Any]:
    """Return the arguments of calls by which a model gave structured answers."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    if not answered:
        return []
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    return [call["args"] for call in calls if call["id"] in answered]


def _join_answer(text: str, forms: list[Any]) -> str:
    """Return the whole answer as text; structured answers as JSON."""
    whole = [text, *forms] if text else forms
    return json.dumps(whole, ensure_ascii=False, default=str) if forms else text


def _add_resources(said: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with those help lines that it lacks."""
    lacks = tuple(line for line in resources if line not in text)
    if not lacks:
        return said
    if isinstance(said.content, str):
        return said.model_copy(update={"content": append_resources(text, lacks)})
    block = {"type": "text", "text": append_resources("", lacks)}
    return said.model_copy(update={"content": [*said.content, block]})


def _keep_only(response: ModelResponse[Any], said: AIMessage) -> ModelResponse[Any]:
    """Return the response with this model message only; other model messages are unchecked."""
    others = [one for one in response.result if not isinstance(one, AIMessage)]
    return ModelResponse([said, *others], response.structured_response)


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
