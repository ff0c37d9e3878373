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
from demur.enforce.enforcer import Enforcer, Occasion
from demur.gate.gate import Gate
from demur.integrations.langchain.answers import judged, stopped
from demur.integrations.langchain.asking import (
    Asking,
    OccasionFor,
    ask_awaited,
    ask_now,
    occasion_of,
    run_of,
)
from demur.integrations.langchain.calls import (
    Admission,
    admitted,
    paused,
    planned,
    returned,
)
from demur.integrations.langchain.inputs import heard, read_beside
from demur.integrations.langchain.left_calls import with_left_calls_answered
from demur.integrations.langchain.listeners import Audience, unheard
from demur.integrations.langchain.messages import (
    closing,
    ended_before,
    is_refused,
    open_calls,
    text_of,
)
from demur.integrations.langchain.notes import Seal, key_of, sealing
from demur.integrations.langchain.resumed import Consent
from demur.integrations.langchain.streaming import Watch
from demur.model.grant import Grant

__all__ = ["RefusalMiddleware"]

_Response: TypeAlias = ModelResponse[Any]
_Extended: TypeAlias = _Response | ExtendedModelResponse[Any]
# The refusal that replaces an answer, if any, and an update of the state.
_Heard = tuple[AIMessage | None, dict[str, Any]]
# Key of a pending update in the step's own state; it is no channel of the graph.
_AHEAD = "demur_ahead"


class _State(TypedDict, total=False):
    """The state shared by the hooks: run, digests of checked messages, notes on calls."""

    demur_run: Annotated[str | None, PrivateStateAttr]
    demur_said: Annotated[list[str], PrivateStateAttr]
    demur_calls: Annotated[dict[str, Any], PrivateStateAttr]


class RefusalMiddleware(AgentMiddleware[Any, Any, Any]):
    """Guards an agent: `create_agent(middleware=[LangChainGuard(enforcer)])`.

    `approval` says how a call asks for approval: by a `"message"` to the model, or by an
    `"interrupt"`, which needs a checkpointer. Resume the run with a grant, or with a plain
    approval; `grant_for` then returns the grants, given the check result and the resume value.
    `context` returns the call context for a hook's runtime; demur fills in the rest. `key` is a
    secret of at least 16 bytes; processes that share threads and the key accept each other's
    notes and repeat no check. Put it last in the list, so that it sees the final requests and
    calls.
    """

    state_schema = _State

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        occasion: OccasionFor | None = None,
        key: bytes | None = None,
    ) -> None:
        super().__init__()
        self.enforcer = Enforcer.of(enforcer)
        self.tools = ()
        self._approval = check_approval(approval)
        self._consent = Consent(grant_for)
        self._occasion = occasion
        self._key = key_of(key)

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages; a refused message is withheld, and the run ends."""
        return ask_now(self._begun(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check user messages, like `before_agent`."""
        return await ask_awaited(self._begun(state, runtime), self.enforcer)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], _Response]
    ) -> _Extended:
        """Return the model's answer, or a refusal in its place.

        demur does not call the model after a hard refusal of a tool call, nor if new user
        messages are refused.
        """
        answer, notes = ask_now(self._ahead(request), self.enforcer)
        if answer is not None:
            return _noting(ModelResponse([answer]), notes)
        with unheard() as audience:
            watch = self._watch(request, audience)
            try:
                response = handler(_watched(request, watch, awaited=False))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = ask_now(stopped(error, watch), self.enforcer)
                if instead is None:
                    raise
                return _noting(instead, notes)
        return _noting(ask_now(judged(response, watch), self.enforcer), notes)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[_Response]],
    ) -> _Extended:
        """Return the model's answer, like `wrap_model_call`."""
        answer, notes = await ask_awaited(self._ahead(request), self.enforcer)
        if answer is not None:
            return _noting(ModelResponse([answer]), notes)
        with unheard() as audience:
            watch = self._watch(request, audience)
            try:
                response = await handler(_watched(request, watch, awaited=True))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = await ask_awaited(stopped(error, watch), self.enforcer)
                if instead is None:
                    raise
                return _noting(instead, notes)
        return _noting(await ask_awaited(judged(response, watch), self.enforcer), notes)

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message; reply to the refused ones."""
        return ask_now(self._called(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Check all tool calls of the message, like `after_model`."""
        return await ask_awaited(self._called(state, runtime), self.enforcer)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Run the tool if its call is allowed, and return its result or a refusal."""
        refused, grants = ask_now(self._admitted(request), self.enforcer)
        if refused is not None:
            return refused
        try:
            result = handler(request)
        except GraphBubbleUp:
            self._paused(request, grants)
            raise
        at = self._at(request.state, request.runtime)
        return ask_now(returned(request.tool_call, result, at, grants), self.enforcer)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run the tool if its call is allowed, like `wrap_tool_call`."""
        refused, grants = await ask_awaited(self._admitted(request), self.enforcer)
        if refused is not None:
            return refused
        try:
            result = await handler(request)
        except GraphBubbleUp:
            self._paused(request, grants)
            raise
        at = self._at(request.state, request.runtime)
        return await ask_awaited(returned(request.tool_call, result, at, grants), self.enforcer)

    def _begun(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        update: dict[str, Any] = {}
        if run_of(runtime) is None:
            # Without a thread or run id, use the id of the first checkpoint.
            info = getattr(runtime, "execution_info", None)
            update["demur_run"] = getattr(info, "checkpoint_id", None)
        answered = with_left_calls_answered(state["messages"], state.get("demur_calls") or {})
        answer, notes = yield from self._heard({**state, **update}, runtime)
        update |= notes
        if answered is not None:
            instead = {one.id: one for one in notes.get("messages", ())}
            every = [instead.get(one.id, one) for one in answered]
            update["messages"] = [RemoveMessage(REMOVE_ALL_MESSAGES), *every]
        if answer is not None:
            update |= {"messages": [*update["messages"], answer], "jump_to": "end"}
        return update or None

    def _ahead(self, request: ModelRequest[Any]) -> Asking[_Heard]:
        state: Any = request.state
        end = closing(state["messages"])
        if end is not None:
            return end, {}
        beside = read_beside(request.messages, state["messages"])
        answer, notes = yield from self._heard(state, request.runtime, beside)
        if answer is None and notes:
            # A retry after an error gets the same state.
            state |= notes | {_AHEAD: notes}
        return answer, notes or state.get(_AHEAD, {})

    def _heard(
        self, state: Any, runtime: Any, beside: Sequence[BaseMessage] = ()
    ) -> Asking[_Heard]:
        at, seal = self._at(state, runtime), self._seal(state, runtime)
        ruled = state.get("demur_said") or ()
        said = yield from heard(state["messages"], ruled, at, seal, beside)
        if said is None:
            return None, {}
        notes: dict[str, Any] = {"demur_said": said.digests}
        if said.answer is not None:
            notes["messages"] = said.withheld
        return said.answer, notes

    def _called(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        messages = state["messages"]
        if messages and is_refused(messages[-1]):
            # Without this, an agent that expects another answer could loop forever.
            return {"jump_to": "end"}
        end = ended_before(messages)
        if end is not None:
            # Another middleware answered in place of the model, so `wrap_model_call` did not run.
            return {"messages": [end], "jump_to": "end"}
        calls = open_calls(messages)
        if not calls:
            return None
        plan = yield from planned(calls, self._at(state, runtime), self._approval)
        if plan.end is not None:
            return {"messages": [*plan.refused, plan.end], "jump_to": "end"}
        answers, notes = plan.handed_on(self._seal(state, runtime))
        update = {"demur_calls": notes}
        return {**update, "messages": answers} if answers else update

    def _admitted(self, request: ToolCallRequest) -> Asking[Admission]:
        state = request.state
        notes = state.get("demur_calls") if isinstance(state, dict) else None
        at, seal = self._at(state, request.runtime), self._seal(state, request.runtime)
        return (yield from admitted(request.tool_call, notes or {}, at, seal, self._consent))

    def _paused(self, request: ToolCallRequest, grants: tuple[Grant, ...]) -> None:
        seal = self._seal(request.state, request.runtime)
        paused(request.tool_call, grants, seal, self._consent)

    def _watch(self, request: ModelRequest[Any], audience: Audience) -> Watch:
        said = (one for one in reversed(request.messages) if isinstance(one, HumanMessage))
        last = next(said, None)
        prompt = None if last is None else text_of(last.content)
        at = self._at(request.state, request.runtime)
        return Watch(self.enforcer, at, prompt, audience)

    def _at(self, state: Any, runtime: Any) -> Occasion:
        return occasion_of(runtime, _run_in(state), self._occasion)

    def _seal(self, state: Any, runtime: Any) -> Seal:
        return sealing(self._key, run_of(runtime) or _run_in(state))


def _run_in(state: Any) -> str | None:
    return state.get("demur_run") if isinstance(state, dict) else None


def _watched(request: ModelRequest[Any], watch: Watch, *, awaited: bool) -> ModelRequest[Any]:
    model = watch.over(request.model, request.model_settings, awaited=awaited)
    return request if model is request.model else request.override(model=model)


def _noting(response: _Response, notes: dict[str, Any]) -> _Extended:
    return ExtendedModelResponse(response, Command(update=notes)) if notes else response
