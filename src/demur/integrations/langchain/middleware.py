"""The middleware of an agent: every hook asks the enforcer and says no in LangChain's way.

What people say is ruled on before a model reads it, what the model says before anybody else
does, and all tool calls of one message before the first of them runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import ModelRequest, ModelResponse, PrivateStateAttr
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from typing_extensions import TypedDict

from demur.enforce.enforcer import Enforcer, Occasion
from demur.errors import InputError, InputTypeError
from demur.integrations.langchain.answers import judged, stopped
from demur.integrations.langchain.asking import (
    Ask,
    Asking,
    OccasionFor,
    ask_awaited,
    ask_now,
    occasion_of,
)
from demur.integrations.langchain.calls import Admission, Approval, admitted, planned, returned
from demur.integrations.langchain.inputs import digests_of, new_input, withheld
from demur.integrations.langchain.listeners import unheard
from demur.integrations.langchain.messages import (
    closing,
    is_refused,
    open_calls,
    refused_answer,
    text_of,
)
from demur.integrations.langchain.streaming import Watch

__all__ = ["RefusalMiddleware"]

_APPROVALS = ("message", "interrupt")


class _State(TypedDict, total=False):
    """What the hooks tell each other: the run, and what was ruled on, messages and calls."""

    demur_run: Annotated[str | None, PrivateStateAttr]
    demur_said: Annotated[list[str], PrivateStateAttr]
    demur_calls: Annotated[dict[str, Any], PrivateStateAttr]


class RefusalMiddleware(AgentMiddleware[Any, Any, Any]):
    """Holds an agent to the enforcer's rulings; for `create_agent(middleware=[...])`.

    `approval` says how a call that waits for approval asks for it: by a message to the model,
    or by an interrupt that is resumed with a grant; the second needs a checkpointer. `occasion`
    says by a hook's runtime for whom a run is; what it leaves open is filled in. As the last
    middleware of an agent it sees what really runs, whatever others make of requests and calls.
    """

    state_schema = _State

    def __init__(
        self,
        enforcer: Enforcer,
        *,
        approval: Approval = "message",
        occasion: OccasionFor | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(enforcer, Enforcer):
            raise InputTypeError.expected("enforcer", "an `Enforcer`", enforcer)
        if approval not in _APPROVALS:
            raise InputError(f"unknown way to ask `{approval}`", help="`message` or `interrupt`")
        self.enforcer = enforcer
        self.tools = ()
        self._approval = approval
        self._occasion = occasion

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Rule on what people said; refused, it is withheld and the run ends with words."""
        return ask_now(self._begun(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Rule on what people said, like `before_agent`."""
        return await ask_awaited(self._begun(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """End the run after a hard block of a tool, and rule on what people said meanwhile."""
        return ask_now(self._resumed(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """End the run or rule on what people said, like `before_model`."""
        return await ask_awaited(self._resumed(state, runtime), self.enforcer)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Return the model's answer, or one that refuses in its place."""
        with unheard() as listeners:
            watch = self._watch(request, listeners)
            model = watch.over(request.model, request.model_settings, awaited=False)
            try:
                response = handler(request.override(model=model))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = ask_now(stopped(error, watch), self.enforcer)
                if instead is None:
                    raise
                return instead
        return ask_now(judged(response, watch), self.enforcer)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Return the model's answer, like `wrap_model_call`."""
        with unheard() as listeners:
            watch = self._watch(request, listeners)
            model = watch.over(request.model, request.model_settings, awaited=True)
            try:
                response = await handler(request.override(model=model))
            except GraphBubbleUp:
                raise
            except Exception as error:
                instead = await ask_awaited(stopped(error, watch), self.enforcer)
                if instead is None:
                    raise
                return instead
        return await ask_awaited(judged(response, watch), self.enforcer)

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Rule on all tool calls of the message; those refused are answered here."""
        return ask_now(self._called(state, runtime), self.enforcer)

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Rule on all tool calls of the message, like `after_model`."""
        return await ask_awaited(self._called(state, runtime), self.enforcer)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Return what the tool returned, or a message that refuses; then the tool did not run."""
        refused, grants = ask_now(self._admitted(request), self.enforcer)
        if refused is not None:
            return refused
        result = handler(request)
        at = self._at(request.state, request.runtime)
        return ask_now(returned(request.tool_call, result, at, grants), self.enforcer)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Return what the tool returned, like `wrap_tool_call`."""
        refused, grants = await ask_awaited(self._admitted(request), self.enforcer)
        if refused is not None:
            return refused
        result = await handler(request)
        at = self._at(request.state, request.runtime)
        return await ask_awaited(returned(request.tool_call, result, at, grants), self.enforcer)

    def _begun(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        # Without a thread or a run of its own, the first checkpoint names the run.
        info = getattr(runtime, "execution_info", None)
        begun = {"demur_run": getattr(info, "checkpoint_id", None)}
        said = yield from self._said({**state, **begun}, runtime)
        return {**begun, **(said or {})}

    def _resumed(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        end = closing(state["messages"])
        if end is not None:
            return {"messages": [end], "jump_to": "end"}
        return (yield from self._said(state, runtime))

    def _said(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        messages = state["messages"]
        said = new_input(messages, state.get("demur_said") or ())
        if not said:
            return None
        text = "\n".join(text_of(one.content) for one in said)
        ruling = yield Ask("prompt", (text, self._at(state, runtime)))
        if ruling.allowed:
            return {"demur_said": digests_of(messages)}
        instead = {one.id: withheld(one, ruling) for one in said}
        left = [instead.get(one.id, one) for one in messages]
        return {
            "demur_said": digests_of(left),
            "messages": [*instead.values(), refused_answer(ruling)],
            "jump_to": "end",
        }

    def _called(self, state: Any, runtime: Any) -> Asking[dict[str, Any] | None]:
        messages = state["messages"]
        if messages and is_refused(messages[-1]):
            # Who waits for another answer would ask again, perhaps for ever.
            return {"jump_to": "end"}
        calls = open_calls(messages)
        if not calls:
            return None
        plan = yield from planned(calls, self._at(state, runtime), self._approval)
        if plan.end is not None:
            return {"messages": [*plan.refused, plan.end], "jump_to": "end"}
        answers, notes = plan.handed_on()
        return {"messages": answers, "demur_calls": notes}

    def _admitted(self, request: ToolCallRequest) -> Asking[Admission]:
        state = request.state
        notes = state.get("demur_calls") if isinstance(state, dict) else None
        at = self._at(state, request.runtime)
        return (yield from admitted(request.tool_call, notes or {}, at))

    def _watch(self, request: ModelRequest[Any], listeners: Sequence[BaseCallbackHandler]) -> Watch:
        said = (one for one in reversed(request.messages) if isinstance(one, HumanMessage))
        last = next(said, None)
        prompt = None if last is None else text_of(last.content)
        at = self._at(request.state, request.runtime)
        return Watch(self.enforcer, at, prompt, listeners)

    def _at(self, state: Any, runtime: Any) -> Occasion:
        run = state.get("demur_run") if isinstance(state, dict) else None
        return occasion_of(runtime, run, self._occasion)
