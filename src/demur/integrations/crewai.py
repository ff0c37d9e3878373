"""CrewAI: hooks that guard the prompts, answers, streams and tool calls of crews, agents and flows.

`CrewAIGuard(enforcer).register()` guards every run of the process from then on. A refusal that ends
a run raises `CrewRefused`; other refusals of tool calls are the tool's result.
"""

import json
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Self, Unpack

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import (
    Approval,
    CheckResult,
    GrantFor,
    Refused,
    append_resources,
    build_result,
    check_approval,
    collect_grants,
    failure_finding,
)
from demur.enforce.streams import AnswerStream
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
    is_changed_fully,
    missing_extra,
    resolve_context,
)
from demur.integrations._kit.approval import is_approval, parse_resume_grants
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    RefusedTexts,
    ToolOutput,
    get_field,
    join_texts,
    list_entries,
    read_new_turn,
    refused_texts_for,
)
from demur.model.grant import Grant

try:
    from crewai import LLM
    from crewai.hooks import HookAborted, InterceptionPoint, get_hooks, register_hook
    from crewai.hooks import unregister_hook as unregister
    from crewai.hooks.llm_hooks import model_call_hooks_dispatched
    from crewai.tools.tool_failure import (
        ToolExecutionFailedError,
        ToolFailure,
        ToolFailureRecord,
        handle_tool_failure,
    )
    from crewai.utilities.i18n import I18N_DEFAULT
except ImportError as error:
    raise missing_extra("crewai") from error

__all__ = ["CrewAIGuard", "CrewRefused"]

_FRAMEWORK = "crewai"
_CARRIED = (Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT)
_MAX_KEPT = 1_000
_EMIT_CHUNK = "_emit_stream_chunk_event"
# What CrewAI says itself: in the name of the user after a tool, and around a task.
_AFTER_TOOL = I18N_DEFAULT.slice("post_tool_reasoning")
_FRAMES = [
    I18N_DEFAULT.slice(name).split("{input}") for name in ("task", "task_no_tools", "native_task")
]
# A step of an agent that calls tools in text; its answer comes later.
_TEXT_CALL = "\nAction:"
# Where an executor keeps its own copies of hooks.
_EXECUTOR_HOOKS = {
    InterceptionPoint.PRE_MODEL_CALL: "before_llm_call_hooks",
    InterceptionPoint.POST_MODEL_CALL: "after_llm_call_hooks",
}
_as_json = json.JSONEncoder(sort_keys=True, default=str).encode
_Hook = Callable[[Any], Any]


class CrewRefused(Refused, HookAborted, ToolExecutionFailedError):  # noqa: N818 - a refusal is no error
    """A refusal ended the run; `result` and `envelope` say why.

    CrewAI passes both of its errors on wherever they are raised, and retries neither.
    """

    def __init__(self, result: CheckResult) -> None:
        assert result.refusal is not None
        Exception.__init__(self, result.line)
        self.result, self.refusal = result, result.refusal
        self.reason, self.source = result.line, "demur"
        self.record = ToolFailureRecord(tool_name=result.surface, failure=_describe(result))


def _describe(result: CheckResult) -> ToolFailure:
    """Return a refusal as CrewAI reports the failure of a tool."""
    details = {"refusal": result.envelope}
    return ToolFailure(message=result.line, code=result.envelope["code"], details=details)


class _CheckedCall(NamedTuple):
    """A tool call with its check result and its grants. The arguments identify the call."""

    name: str
    arguments: Any
    result: CheckResult
    grants: tuple[Grant, ...] = ()


class _CallPlan(NamedTuple):
    """The checked calls of one message of a model, and the hard refusal among them."""

    message: Any
    calls: list[_CheckedCall]
    hard: CheckResult | None = None


class _StreamedCall(NamedTuple):
    """A call of a model that streams: its filter, and how it emits a chunk."""

    stream: AnswerStream
    emit: Callable[..., None]


_MODEL_CALL: ContextVar[_StreamedCall | None] = ContextVar("demur_crewai_model_call", default=None)


class CrewAIGuard:
    """Guards crews, agents, flows and models: `CrewAIGuard(enforcer).register()`.

    Hooks of CrewAI are global: the guard sees all runs of the process until `unregister()`, or in
    the block of `with CrewAIGuard(enforcer):`. Register it after other hooks, so that it sees what
    they made. `context` is the call context, or a function of a hook's context. With
    `approval="interrupt"`, CrewAI asks at the terminal for a call that needs approval; `grant_for`
    returns the grants of an approved call, or `approver` names the authenticated person whose
    approval counts. The other options are those of all adapters.
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
        self.enforcer = adapt_enforcer(
            enforcer, carried=_CARRIED, approver=approver, approval=approval, **options
        )
        self._context = check_context(context)
        self._approval = check_approval(approval)
        self._grant_for = choose_grant_for(self.enforcer, grant_for, approver)
        self._refused_texts = refused_texts_for(enforcer)
        self._checked_answers = RefusedTexts()
        self._messages: dict[Any, Any] = {}
        self._plans: dict[Any, _CallPlan] = {}
        self._calls: dict[int, _CheckedCall] = {}
        self._lock = Lock()
        self._hooks: dict[InterceptionPoint, _Hook] = {
            InterceptionPoint.EXECUTION_START: self._fail_closed(self._guard_agents),
            InterceptionPoint.PRE_MODEL_CALL: self._fail_closed(self._check_messages),
            InterceptionPoint.POST_MODEL_CALL: self._fail_closed(self._check_answer),
            InterceptionPoint.PRE_TOOL_CALL: self._check_call,
            InterceptionPoint.POST_TOOL_CALL: self._fail_closed(self._check_result),
            InterceptionPoint.POST_STEP: self._fail_closed(self._check_task_output),
        }

    def register(self) -> Self:
        """Guard every run of this process from now on."""
        for point, hook in self._hooks.items():
            if hook not in get_hooks(point):
                register_hook(point, hook)
        return self

    def unregister(self) -> None:
        """Stop guarding; executors of agents that ran before keep the hooks of their model."""
        for point, hook in self._hooks.items():
            unregister(point, hook)

    def __enter__(self) -> Self:
        return self.register()

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def _fail_closed(self, hook: _Hook) -> _Hook:
        """Return the hook, which refuses if it fails: CrewAI ignores the errors of hooks."""

        def run(hook_context: Any) -> Any:
            try:
                return hook(hook_context)
            except HookAborted:
                raise
            except Exception as error:
                raise CrewRefused(self._describe_failure(error)) from error

        return run

    def _describe_failure(self, error: Exception) -> CheckResult:
        found = [failure_finding(error, Surface.RUNTIME)]
        return build_result(Surface.RUNTIME, found, None, registry=self.enforcer.registry)

    # Models.

    def _guard_agents(self, start: Any) -> None:
        """Add the hooks to executors that were built before the guard was registered."""
        agents = [*getattr(start.crew, "agents", ()), getattr(start.crew, "manager_agent", None)]
        for agent in agents:
            executor = getattr(agent, "agent_executor", None)
            for point, name in _EXECUTOR_HOOKS.items():
                hooks = getattr(executor, name, None)
                if hooks is not None and self._hooks[point] not in hooks:
                    hooks.append(self._hooks[point])

    def _check_messages(self, call: Any) -> None:
        """Check what the model reads for the first time, and filter its stream."""
        _MODEL_CALL.set(None)
        if call.executor is not None:
            _keep(self._messages, _run_key(call), call.messages)
        context, prompt = self._context_for(call), _last_prompt(call.messages)
        reader = MessageReader(
            lambda one: get_field(one, "role") == "assistant",
            lambda one: get_field(one, "role") in ("system", "developer"),
            partial(self._read_message, in_agent=call.executor is not None),
        )
        turn = read_new_turn(call.messages, reader, self._refused_texts, recheck_history=False)
        results = [self._check_prompt(turn.text, call, reader, context)] if turn.text else []
        results += [
            self.enforcer.refuse_changes().check_tool_result(one.name, one.result, context)
            for one in turn.tool_outputs
        ]
        refused = next((one for one in results if not one.allowed), None)
        if refused is not None:
            self._refused_texts.add((*turn.texts, *(one.text for one in turn.tool_outputs)))
            raise CrewRefused(refused)
        if getattr(call.llm, "stream", False):
            self._filter_stream(call.llm, self.enforcer.stream_answer(context, prompt=prompt))

    def _check_prompt(
        self, text: str, call: Any, reader: MessageReader, context: CallContext
    ) -> CheckResult:
        """Check a prompt, and change the messages in place, as CrewAI's hooks do."""
        result = self.enforcer.check_prompt(text, context)
        if result.changes is None:
            return result
        changed = [
            {**one, "content": result.apply_changes(one["content"])}
            if get_field(one, "role") == "user"
            else one
            for one in call.messages
        ]
        turn = read_new_turn(changed, reader, self._refused_texts, recheck_history=False)
        if not is_changed_fully(result, turn.text):
            # What was found lies across parts of the prompt.
            return self.enforcer.refuse_changes().check_prompt(text, context)
        call.messages[:] = changed
        return result

    def _read_message(self, message: Any, *, in_agent: bool) -> MessageContent:
        text = join_texts(get_field(message, "content"))
        if not text or text == _AFTER_TOOL:
            return MessageContent()
        if get_field(message, "role") != "tool":
            return MessageContent((_strip_frame(text),))
        # The hook of tools checked what the tools of an agent returned.
        name, call_id = get_field(message, "name") or "tool", get_field(message, "tool_call_id")
        return MessageContent((), () if in_agent else (ToolOutput(name, text, call_id),))

    def _filter_stream(self, model: Any, stream: AnswerStream) -> None:
        """Make the model emit only cleared text, or all of it at the end."""
        if type(model) is LLM:
            # LiteLLM's chunks pass no method that could be overridden.
            model.stream = False
            return
        emit = partial(getattr(type(model), _EMIT_CHUNK), model)

        def emit_cleared(chunk: str, *args: Any, **settings: Any) -> None:
            call = _MODEL_CALL.get()
            if call is not None and not settings.get("tool_call"):
                # The last settings serve for the text that is left.
                _MODEL_CALL.set(call._replace(emit=partial(_emit_settings, emit, args, settings)))
                chunk = call.stream.feed(chunk)
            if chunk or settings.get("tool_call"):
                emit(chunk, *args, **settings)

        object.__setattr__(model, _EMIT_CHUNK, emit_cleared)
        _MODEL_CALL.set(_StreamedCall(stream, emit))

    def _check_answer(self, call: Any) -> str | None:
        """Check a text of the model; return it if it is changed, or gets help lines.

        Raises:
            CrewRefused: It is refused, or the model refused in its own words.
        """
        text, context, prompt = (
            call.response or "",
            self._context_for(call),
            _last_prompt(call.messages),
        )
        result, rest = self._check_text(text, context, prompt)
        if result.may_reask:
            again = self._ask_again(call, result.reask_message, context)
            if again:
                text = again
                result, rest = self._check_text(text, context, prompt)
        rest()
        if result.allowed and _TEXT_CALL not in text:
            # CrewAI passes an answer on as bare text, which cannot carry a refusal.
            _require_allowed(self.enforcer.read_refusal(None, context, text=text, prompt=prompt))
        _require_allowed(result)
        answer = append_resources(result.apply_changes(text), result.resources)
        self._checked_answers.add((text, answer))
        return None if answer == call.response else answer

    def _check_text(
        self, text: str, context: CallContext, prompt: str | None
    ) -> tuple[CheckResult, Callable[[], None]]:
        """Return the result of an answer, and what emits the rest of its stream."""
        streamed = _MODEL_CALL.get()
        _MODEL_CALL.set(None)
        if streamed is None or not streamed.stream.text:
            return self.enforcer.check_answer(text, context, prompt=prompt), _emit_nothing
        result, rest = streamed.stream.finish(), streamed.stream.remaining_text
        if result.allowed and streamed.stream.text != text:
            result = self.enforcer.check_answer(text, context, prompt=prompt)
        return result, partial(streamed.emit, rest) if rest else _emit_nothing

    def _ask_again(self, call: Any, reason: str, context: CallContext) -> str | None:
        """Return what the model answers to the reason why its answer was refused."""
        if getattr(call.llm, "stream", False):
            self._filter_stream(call.llm, self.enforcer.stream_answer(context))
        with model_call_hooks_dispatched():
            answer = call.llm.call([*call.messages, {"role": "user", "content": reason}])
        return answer if isinstance(answer, str) else None

    def _check_task_output(self, step: Any) -> None:
        """Check the output of a task, unless a hook checked it as an answer."""
        text = getattr(step.payload, "raw", None)
        if step.kind == "task" and isinstance(text, str) and text not in self._checked_answers:
            _require_allowed(self.enforcer.check_answer(text, self._context_for(step)))

    # Tools.

    def _check_call(self, call: Any) -> bool | None:
        """Check a tool call; return False if it must not run."""
        try:
            checked = self._decide_call(call)
        except Exception as error:  # noqa: BLE001 - CrewAI ignores the errors of hooks
            failure = self._describe_failure(error)
            checked = _CheckedCall(call.tool_name, call.tool_input, failure)
        _keep(self._calls, id(call.tool_input), checked._replace(arguments=call.tool_input))
        if checked.result.changes is not None:
            # CrewAI runs the tool with this very object.
            call.tool_input.update(checked.result.apply_changes(call.tool_input))
        return None if checked.result.allowed else False

    def _decide_call(self, call: Any) -> _CheckedCall:
        with self._lock:
            checked, hard = self._take_planned(call)
        if checked is None:
            result = self._check(call, call.tool_name, call.tool_input)
            checked = _CheckedCall(call.tool_name, call.tool_input, result)
        if hard is not None and checked.result.allowed:
            checked = checked._replace(result=hard)
        if checked.result.needs_approval and self._approval == "interrupt":
            checked = self._ask_person(call, checked)
        return checked

    def _check_result(self, call: Any) -> str | None:
        """Return the refusal of the call or of its result, for the model to read.

        Programs find it in the `tool_failures` of the task's output.

        Raises:
            CrewRefused: It is hard, or the tool's result would be the answer.
        """
        checked = self._calls.pop(id(call.tool_input), None)
        result = None if checked is None else checked.result
        if result is None or result.allowed:
            result = self.enforcer.check_tool_result(
                call.tool_name,
                call.tool_result,
                self._context_for(call),
                arguments=call.tool_input,
                grants=() if checked is None else checked.grants,
            )
        if result.allowed:
            return None if result.changes is None else result.apply_changes(call.tool_result)
        if result.is_hard or getattr(call.tool, "result_as_answer", False):
            raise CrewRefused(result)
        try:
            handle_tool_failure(
                _describe(result),
                tool_name=call.tool_name,
                tool_args=call.tool_input,
                tool=call.tool,
                agent=call.agent,
                task=call.task,
                crew=call.crew,
            )
        except ToolExecutionFailedError as error:
            # The policy on failures of this tool ends the run.
            raise CrewRefused(result) from error
        return result.model_message

    def _take_planned(self, call: Any) -> tuple[_CheckedCall | None, CheckResult | None]:
        """Return the result of a call that was checked with its message, and a hard refusal."""
        key = _run_key(call)
        messages = reversed(self._messages.get(key) or ())
        message = next((one for one in messages if get_field(one, "role") == "assistant"), None)
        listed = list_entries(get_field(message, "tool_calls"))
        if len(listed) < 2:
            return None, None
        plan = self._plans.get(key)
        if plan is None or plan.message is not message:
            plan = _CallPlan(message, [])
            for one in listed:
                name, arguments = _read_call(one)
                result = self._check(call, name, arguments)
                plan.calls.append(_CheckedCall(name, arguments, result))
                if result.is_hard:
                    plan = plan._replace(hard=result)
                    break
            _keep(self._plans, key, plan)
        wanted = (call.tool_name, _as_json(call.tool_input))
        for at, one in enumerate(plan.calls):
            if (one.name, _as_json(one.arguments)) == wanted:
                return plan.calls.pop(at), plan.hard
        hard = plan.hard
        return (None if hard is None else _CheckedCall(*wanted, hard)), hard

    def _check(
        self, call: Any, name: str, arguments: Any, grants: Iterable[Grant] = ()
    ) -> CheckResult:
        context = self._context_for(call)
        if grants:
            # It is still the same call, so no run is named: its history counts it once.
            context = context._replace(run=None)
        return self.enforcer.check_tool_call(name, arguments, context, grants=grants)

    def _ask_person(self, call: Any, checked: _CheckedCall) -> _CheckedCall:
        """Ask at the terminal; return the call with the result that its grants lead to."""
        try:
            answer = call.request_human_input(
                checked.result.line, "Type `approve`, or paste a grant:"
            )
        except EOFError:
            return checked
        grants = parse_resume_grants(answer)
        if not grants and is_approval(answer):
            grants = collect_grants(self._grant_for, checked.result, answer)
        if not grants:
            return checked
        result = self._check(call, call.tool_name, call.tool_input, grants)
        return checked._replace(result=result, grants=grants)

    def _context_for(self, hook_context: Any) -> CallContext:
        owner = hook_context.task or hook_context.agent
        run = getattr(owner, "id", None)
        return resolve_context(
            self._context, hook_context, _FRAMEWORK, None if run is None else str(run)
        )


def _emit_nothing() -> None:
    """Emit nothing: no text is left."""


def _require_allowed(result: CheckResult) -> None:
    if not result.allowed:
        raise CrewRefused(result)


def _strip_frame(text: str) -> str:
    """Return a task without CrewAI's own words around it."""
    for before, after in _FRAMES:
        if text.startswith(before) and text.endswith(after):
            return text[len(before) : len(text) - len(after)]
    return text


def _run_key(hook_context: Any) -> tuple[int, int]:
    return id(hook_context.agent), id(hook_context.task)


def _keep(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value; beyond a limit the oldest are dropped."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > _MAX_KEPT:
        del entries[next(iter(entries))]


def _emit_settings(
    emit: Callable[..., None], args: tuple[Any, ...], settings: dict[str, Any], chunk: str
) -> None:
    emit(chunk, *args, **settings)


def _read_call(call: Any) -> tuple[str, Any]:
    function = get_field(call, "function")
    arguments = get_field(function, "arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(get_field(function, "name")), arguments
    return str(get_field(function, "name")), arguments


def _last_prompt(messages: Iterable[Any]) -> str | None:
    """Return the text of the last message of a user."""
    said = (one for one in reversed(list(messages)) if get_field(one, "role") == "user")
    return next((join_texts(get_field(one, "content")) for one in said), None)
