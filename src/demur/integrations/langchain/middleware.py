"""The agent middleware: each hook asks the enforcer and refuses in LangChain's own way.

User messages are checked before a model reads them, answers before anyone else does, and all
tool calls of one message before the first of them runs.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

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

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding
from demur.enforce.context import Call, Steps, adrive, drive
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.enforce.result import Approval, CheckResult, GrantFor, append_resources, check_approval
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
from demur.integrations._kit.approval import ApprovalGrants
from demur.integrations.langchain.calls import (
    admit_call,
    answer_abandoned_calls,
    change_call,
    check_result,
    keep_paused_grants,
    plan_calls,
)
from demur.integrations.langchain.context import (
    FRAMEWORK,
    HookContext,
    derive_key,
    find_run_id,
    make_seal,
)
from demur.integrations.langchain.messages import (
    answer_ended_agent,
    build_refusal_answer,
    change_message,
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
from demur.integrations.langchain.subagents import (
    collect_closing_answers,
    note_closing_answer,
    require_guarded_subagents,
)

_Response: TypeAlias = ModelResponse[Any]
_Extended: TypeAlias = _Response | ExtendedModelResponse[Any]
_CARRIED = frozenset({Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT})


class _MessageCheck(NamedTuple):
    """The refusal that replaces an answer, if any, an update of the state, and the result."""

    answer: AIMessage | None = None
    update: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    result: CheckResult | None = None


# Key of a pending update in the step's own state; it is no channel of the graph.
_PENDING_UPDATE = "demur_ahead"


def check_model_response(
    response: _Response, watch: ModelWatch
) -> Steps[tuple[_Response, str | None]]:
    """Check the answer; return it or its replacement, and the reason to ask once more, if any.

    If the model refuses in its own words, the message keeps them and gets the refusal as
    metadata. A message with tool calls is not searched for refusals.
    """
    message = next((one for one in response.result if isinstance(one, AIMessage)), None)
    if message is None:
        return response, None
    enforcer, context, prompt = watch.enforcer, watch.context, watch.prompt
    answer, text, structured = message, content_text(message.content), _structured_answers(response)
    result = yield from enforcer.refusal_steps(message, context, prompt=prompt)
    streamed = watch.result_for(message.content)
    if result.allowed and streamed is not None:
        result = streamed
    # A clean stream may lack parts of the answer, or join blocks that a model reads apart.
    read = text if streamed is None else watch.text_by_block
    if result.allowed and (read or structured):
        parts = [read or text, *structured] if read or text else structured
        # Structured answers are checked as JSON.
        joined = json.dumps(parts, ensure_ascii=False, default=str) if structured else read
        # Structured answers were parsed already, so they cannot be changed.
        checks = enforcer.refuse_changes() if structured else enforcer
        result = yield from checks.answer_steps(joined, context, prompt=prompt)
        changed = change_message(answer, result)
        if not is_changed_fully(result, content_text(changed.content)):
            result = yield from enforcer.refuse_changes().answer_steps(
                joined, context, prompt=prompt
            )
        if result.allowed:
            text = content_text(changed.content)
            answer = _add_resources(changed, text, result.resources)
    if not result.allowed:
        # A streamed message cannot be replaced, so the refusal becomes a message of its own.
        is_shown = watch.has_streamed and result is not streamed
        refused = build_refusal_answer(result, None if is_shown else answer)
        again = None if watch.has_streamed else result.reask_message
        return ModelResponse(result=[refused]), again or None
    if text and not answer.tool_calls:
        result = yield from enforcer.refusal_steps(None, context, text=text, prompt=prompt)
        answer = answer if result.allowed else mark_declined(answer, result)
    answers = sum(isinstance(one, AIMessage) for one in response.result)
    if answer is message and answers == 1:
        return response, None
    # Other messages of the model are unchecked.
    others = [one for one in response.result if not isinstance(one, AIMessage)]
    return ModelResponse([answer, *others], response.structured_response), None


def _structured_answers(response: ModelResponse[Any]) -> list[Any]:
    """Return the arguments of calls by which a model gave structured answers."""
    answered = {one.tool_call_id for one in response.result if isinstance(one, ToolMessage)}
    if not answered:
        return []
    calls = [call for one in response.result for call in getattr(one, "tool_calls", ())]
    return [call["args"] for call in calls if call["id"] in answered]


def _add_resources(answer: AIMessage, text: str, resources: tuple[str, ...]) -> AIMessage:
    """Return the message with those help lines that it lacks."""
    missing = tuple(line for line in resources if line not in text)
    if not missing:
        return answer
    if isinstance(answer.content, str):
        return answer.model_copy(update={"content": append_resources(text, missing)})
    block = {"type": "text", "text": append_resources("", missing)}
    return answer.model_copy(update={"content": [*answer.content, block]})


class _LangChainState(TypedDict, total=False):
    """The state shared by the hooks: run, digests of checked messages, notes on calls."""

    demur_run: Annotated[str | None, PrivateStateAttr]
    demur_said: Annotated[list[str], PrivateStateAttr]
    demur_calls: Annotated[dict[str, Any], PrivateStateAttr]


class LangChainGuard(AgentMiddleware[Any, Any, Any]):
    """Guards an agent: `create_agent(middleware=[LangChainGuard(enforcer)])`.

    `approval` says how a call asks for approval: by a `"message"` to the model, or by an
    `"interrupt"`, which needs a checkpointer. Resume the run with a grant, or with a plain
    approval; `grant_for` then returns the grants, given the check result and the resume value. The
    yes of an `approver` is one as well: a name, or a function of the same two.
    `context` is the call context, or a function of a hook's runtime; demur fills in the rest.
    `key` is a secret of at least 16 bytes; processes that share threads and the key accept each
    other's notes and repeat no check. Put it last in the list, so that it sees the final
    requests and calls. `on_finding`, `mode` and `tools` are those of all adapters: an answer that
    may be changed is streamed at its end, and only one that is not streamed is asked for again.
    """

    state_schema = _LangChainState

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        approver: Approver | None = None,
        context: ContextSource | None = None,
        key: bytes | None = None,
        on_finding: OnFinding | None = None,
        mode: EnforceMode | None = None,
        tools: Tools | None = None,
    ) -> None:
        super().__init__()
        options = AdapterOptions(on_finding=on_finding, mode=mode, tools=tools)
        self.enforcer = adapt_enforcer(
            enforcer, carried=_CARRIED, approver=approver, approval=approval, **options
        )
        self.tools = ()
        self._approval = check_approval(approval)
        self._approvals = ApprovalGrants(choose_grant_for(self.enforcer, grant_for, approver))
        self._context = check_context(context)
        self._seal_key = derive_key(key)
        self._unguarded_subagents: frozenset[str] = frozenset()

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages; a refused message is withheld, and the run ends."""
        return drive(self._start_run(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages, like `before_agent`."""
        return await adrive(self._start_run(state, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], _Response]
    ) -> _Extended:
        """Return the model's answer, or a refusal in its place.

        demur does not call the model after a hard refusal of a tool call, nor if new user
        messages are refused.
        """
        with suppress_callbacks() as listeners:
            return drive(self._call_model(request, handler, listeners, is_async=False))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[_Response]],
    ) -> _Extended:
        """Return the model's answer, like `wrap_model_call`."""
        with suppress_callbacks() as listeners:
            return await adrive(self._call_model(request, handler, listeners, is_async=True))

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message; reply to the refused ones."""
        return drive(self._check_calls(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message, like `after_model`."""
        return await adrive(self._check_calls(state, runtime))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Run the tool if its call is allowed, and return its result or a refusal."""
        return drive(self._call_tool(request, handler))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run the tool if its call is allowed, like `wrap_tool_call`."""
        return await adrive(self._call_tool(request, handler))

    def _start_run(self, state: Any, runtime: Any) -> Steps[dict[str, Any] | None]:
        update: dict[str, Any] = {}
        if find_run_id(runtime) is None:
            # Without a thread or run id, use the id of the first checkpoint.
            info = getattr(runtime, "execution_info", None)
            update["demur_run"] = getattr(info, "checkpoint_id", None)
        answered = answer_abandoned_calls(state["messages"], state.get("demur_calls") or {})
        answer, notes, _ = yield from self._check_messages({**state, **update}, runtime)
        update |= notes
        if answered is not None:
            replaced = {one.id: one for one in notes.get("messages", ())}
            every = [replaced.get(one.id, one) for one in answered]
            update["messages"] = [RemoveMessage(REMOVE_ALL_MESSAGES), *every]
        if answer is not None:
            update |= {"messages": [*update.get("messages", ()), answer], "jump_to": "end"}
        return update or None

    def _call_model(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Any],
        listeners: RunListeners,
        *,
        is_async: bool,
    ) -> Steps[_Extended]:
        require_guarded_subagents(request.tools, self._unguarded_subagents)
        refusal, notes, checked = yield from self._check_before_model(request)
        if refusal is not None:
            return _with_notes(ModelResponse([refusal]), notes)
        if checked is not None and checked.changes is not None:
            # Messages that another middleware added are in no state.
            changed = [change_message(one, checked) for one in request.messages]
            request = request.override(messages=changed)
        response, again = yield from self._ask_model(request, handler, listeners, is_async)
        if again is not None:
            reason = HumanMessage(again)
            request = request.override(messages=[*request.messages, reason])
            response, _ = yield from self._ask_model(request, handler, listeners, is_async)
        return _with_notes(response, notes)

    def _ask_model(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Any],
        listeners: RunListeners,
        is_async: bool,  # noqa: FBT001 - as in `_call_model`
    ) -> Steps[tuple[_Response, str | None]]:
        """Return the checked answer, and the reason to ask once more, if the model may answer."""
        prompts = (one for one in reversed(request.messages) if isinstance(one, HumanMessage))
        last = next(prompts, None)
        prompt = None if last is None else content_text(last.content)
        context = self._hook(request.state, request.runtime).context
        watch = ModelWatch(self.enforcer, context, prompt, listeners)
        model = watch.wrap_model(request.model, request.model_settings, is_async=is_async)
        watched = request if model is request.model else request.override(model=model)
        try:
            response = yield Call(handler, (watched,))
        except GraphBubbleUp:
            raise
        except Exception as error:
            # The provider may have refused by an error, or a refused stream may have left no
            # structured answer.
            result = watch.refusal
            if result is None:
                result = yield from self.enforcer.refusal_steps(error, context, prompt=prompt)
            if result.allowed:
                raise
            answer = build_refusal_answer(result, getattr(error, "ai_message", None))
            return ModelResponse(result=[answer]), None
        return (yield from check_model_response(response, watch))

    def _check_before_model(self, request: ModelRequest[Any]) -> Steps[_MessageCheck]:
        state: Any = request.state
        end = find_closing_answer(state["messages"])
        if end is not None:
            return _MessageCheck(note_closing_answer(end))
        added = read_added_messages(request.messages, state["messages"])
        check = yield from self._check_messages(state, request.runtime, added)
        if check.answer is None and check.update:
            # A retry after an error gets the same state.
            state |= check.update | {_PENDING_UPDATE: check.update}
        return check._replace(update=check.update or state.get(_PENDING_UPDATE, {}))

    def _check_messages(
        self, state: Any, runtime: Any, added: Sequence[BaseMessage] = ()
    ) -> Steps[_MessageCheck]:
        hook, digests = self._hook(state, runtime), state.get("demur_said") or ()
        checked = yield from check_new_messages(state["messages"], digests, hook, added)
        if checked is None:
            return _MessageCheck()
        notes: dict[str, Any] = {"demur_said": checked.digests}
        if checked.replaced:
            notes["messages"] = checked.replaced
        return _MessageCheck(checked.answer, notes, checked.result)

    def _check_calls(self, state: Any, runtime: Any) -> Steps[dict[str, Any] | None]:
        messages = state["messages"]
        if messages and is_refused(messages[-1]):
            # Without this, an agent that expects another answer could loop forever.
            return {"jump_to": "end"}
        end = find_earlier_end(messages)
        if end is not None:
            # Another middleware answered in place of the model, so `wrap_model_call` did not run.
            return {"messages": [note_closing_answer(end)], "jump_to": "end"}
        calls = list_open_calls(messages)
        if not calls:
            return None
        hook = self._hook(state, runtime)
        plan = yield from plan_calls(calls, hook, self._approval)
        if plan.end is not None:
            end = note_closing_answer(plan.end)
            return {"messages": [*plan.refusals, end], "jump_to": "end"}
        answers, notes = plan.split_answers(hook.seal)
        update = {"demur_calls": notes}
        return {**update, "messages": answers} if answers else update

    def _call_tool(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Steps[Any]:
        call, state = request.tool_call, request.state
        notes = state.get("demur_calls") if isinstance(state, dict) else None
        hook = self._hook(state, request.runtime)
        refused, grants = yield from admit_call(call, notes or {}, hook, self._approvals)
        if refused is not None:
            return refused
        request = change_call(request, self.enforcer)
        try:
            with collect_closing_answers() as ended:
                result = yield Call(handler, (request,))
        except GraphBubbleUp:
            keep_paused_grants(call, grants, hook.seal, self._approvals)
            raise
        if ended:
            return answer_ended_agent(call, ended[-1])
        return (yield from check_result(request.tool_call, result, hook, grants))

    def _hook(self, state: Any, runtime: Any) -> HookContext:
        stored = state.get("demur_run") if isinstance(state, dict) else None
        run = find_run_id(runtime) or stored
        context = resolve_context(self._context, runtime, FRAMEWORK, run)
        return HookContext(self.enforcer, context, make_seal(self._seal_key, run))


def _with_notes(response: _Response, notes: dict[str, Any]) -> _Extended:
    return ExtendedModelResponse(response, Command(update=notes)) if notes else response
