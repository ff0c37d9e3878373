"""Guard agents of the OpenAI Agents SDK: prompts, tool calls, results, answers, refusals.

`OpenAIAgentsGuard(enforcer).protect(agent)` attaches guardrails to an agent, its function tools,
its MCP servers and its handoffs. A hard refusal ends the run by the SDK's own tripwire; after a
soft refusal of a tool call the model is informed and goes on. The refusal is in the
`output_info` of the guardrail, under the key `refusal`, because the text of the SDK's exceptions
names classes only.

demur cannot guard what the SDK does not expose: hosted tools, which run at the provider; text
beside tool calls in a run that is not streamed; images and files in a prompt.
"""

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias, Unpack, get_args
from weakref import WeakValueDictionary

from agents import (
    Agent,
    AgentsException,
    InputGuardrail,
    OpenAIConversationsSession,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    RunErrorHandlers,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    StreamEvent,
    ToolExecutionConfig,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from agents.memory import Session
from agents.result import RunResultBase

from demur.codes.vocabulary import Surface
from demur.enforce.context import Steps, adrive, drive
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Approval, CheckResult, GrantFor, Refused, check_approval
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    Approver,
    ContextSource,
    adapt_enforcer,
    check_context,
    choose_grant_for,
)
from demur.integrations.openai_agents.hooks import AgentHooks
from demur.integrations.openai_agents.items import (
    RefusedEnd,
    filter_events,
    read_new_prompt,
    to_output,
)
from demur.integrations.openai_agents.protection import AgentProtection
from demur.integrations.openai_agents.run import CleanSession

__all__ = ["OpenAIAgentsGuard"]

OnModelRefusal = Literal["say", "raise"]
_CARRIED = frozenset({Surface.INPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT})
RunInput: TypeAlias = str | list[Any] | RunState[Any]


class OpenAIAgentsGuard:
    """Guards agents and their runs. Safe to share between tasks.

    `context` is the call context, or a function of the SDK's context of a run; demur fills in
    the rest.
    `on_model_refusal`: a model's own refusal becomes the final output (`"say"`), or raises
    `Refused`. With `approval="interrupt"`, a call that needs approval interrupts the run. After
    a person approved that very call, demur checks it again, with grants from `grant_for` or
    from the enforcer's authority. Without a grant the call stays refused and the model is
    informed: neither an approval alone nor one for all calls of a tool is enough. The yes of an
    `approver` counts as a grant: a name, or a function of the check result and the SDK's context.
    `on_finding`, `mode` and `tools` are those of all adapters: `run` changes prompts, and function
    tools and custom tools get changed arguments and return changed results. The SDK lets nobody
    change an answer or a call to an MCP server, so those are refused.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        context: ContextSource | None = None,
        on_model_refusal: OnModelRefusal = "say",
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
        approver: Approver | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        if on_model_refusal not in get_args(OnModelRefusal):
            wrong = f"unknown setting `{on_model_refusal}`"
            raise InputError(wrong, where="on_model_refusal", help="`say` or `raise`")
        self._enforcer = adapt_enforcer(
            enforcer, carried=_CARRIED, approver=approver, approval=approval, **options
        )
        self._hooks = AgentHooks(
            self._enforcer,
            check_context(context),
            choose_grant_for(self._enforcer, grant_for, approver),
            say_refusal=on_model_refusal == "say",
            interrupts=check_approval(approval) == "interrupt",
        )
        self._exempt: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.input_guardrail: InputGuardrail[Any] = self._hooks.input
        self.output_guardrail: OutputGuardrail[Any] = self._hooks.output
        self.tool_input_guardrail: ToolInputGuardrail[Any] = self._hooks.tool_input
        self.tool_output_guardrail: ToolOutputGuardrail[Any] = self._hooks.tool_output
        self.error_handlers: RunErrorHandlers[Any] = {"model_refusal": self._hooks.on_model_refusal}
        # Cached: creating a `RunConfig` takes longer than all checks of a run.
        self._config = self.run_config()

    def protect(self, agent: Agent[Any], *, unguarded: Iterable[str] = ()) -> Agent[Any]:
        """Return a copy of the agent with all guardrails; its handoff targets are copied, too.

        The agent and its tools are not changed; an agent that is guarded already is returned
        as it is. MCP servers are live connections, so their guardrails are attached in place.
        `unguarded` names tools of these agents that may run without checks.

        Raises:
            InputError: A tool that runs in this process cannot be guarded.
        """
        return self._build_protection(unguarded).protect_agent(agent, {})

    def run_config(self, **settings: Any) -> RunConfig:
        """Return a run configuration in which tools run one after the other.

        By default the calls of one turn run concurrently, so later ones may run although an
        earlier one is refused hard. One after the other, only calls before it have run.
        """
        return _run_tools_serially(RunConfig(**settings))

    def wrap_session(self, session: Session) -> Session:
        """Return a view of the session that stores no refused input.

        The SDK writes user input to its session before guardrails see it.

        Raises:
            InputError: The provider stores that session.
        """
        return self._clean_session(session)

    def explain_interruptions(self, result: RunResultBase) -> tuple[CheckResult, ...]:
        """Return the check results of the calls that interrupted a run, to show to the approver."""
        return tuple(
            self._hooks.explain_waiting(
                result.context_wrapper, getattr(result, "interruptions", ())
            )
        )

    async def run(
        self, agent: Agent[Any], run_input: RunInput, *, session: Session | None = None, **more: Any
    ) -> RunResult:
        """Run a guarded agent by `Runner.run` and return its result.

        Raises:
            Refused: The provider refused by an exception, which is the cause.
            AgentsException: As the SDK raises them; tripwires carry the refusal.
            InputError: A tool cannot be guarded, or the state continues with an unguarded agent.
        """
        guarded = self._guard_agent(agent, run_input)
        settings = self._run_settings(session, run_input, **more)
        run_input = await adrive(self._change_input(run_input, more.get("context")))
        try:
            return await Runner.run(guarded, run_input, **settings)
        except (AgentsException, Refused):
            raise
        except Exception as error:
            context = self._hooks.context_for(RunContextWrapper(more.get("context")))
            _raise_if_refused(await self._enforcer.aread_refusal(error, context), error)
            raise

    def run_sync(
        self, agent: Agent[Any], run_input: RunInput, *, session: Session | None = None, **more: Any
    ) -> RunResult:
        """Run a guarded agent like `run`, outside of an event loop."""
        guarded = self._guard_agent(agent, run_input)
        settings = self._run_settings(session, run_input, **more)
        run_input = drive(self._change_input(run_input, more.get("context")))
        try:
            return Runner.run_sync(guarded, run_input, **settings)
        except (AgentsException, Refused):
            raise
        except Exception as error:
            context = self._hooks.context_for(RunContextWrapper(more.get("context")))
            _raise_if_refused(self._enforcer.read_refusal(error, context), error)
            raise

    def run_streamed(
        self, agent: Agent[Any], run_input: RunInput, *, session: Session | None = None, **more: Any
    ) -> RunResultStreaming:
        """Start a guarded run; read its events by `stream_events`."""
        settings = self._run_settings(session, run_input, **more)
        guarded = self._guard_agent(agent, run_input)
        run_input = drive(self._change_input(run_input, more.get("context")))
        return Runner.run_streamed(guarded, run_input, **settings)

    async def stream_events(self, result: RunResultStreaming) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed run with checked text only.

        Text is held back as long as guards need it. A refused answer ends with the refusal's
        words. Reasoning text is not checked.

        Raises:
            OutputGuardrailTripwireTriggered: The answer was refused, and the run was cancelled.
            Refused: The provider refused by an exception, which is the cause.
        """
        ctx = result.context_wrapper
        run, context = self._hooks.run_state(ctx), self._hooks.context_for(ctx, result.trace)
        events = result.stream_events()
        try:
            async for event in filter_events(events, run, self._enforcer, context):
                if isinstance(event, RefusedEnd):
                    await self._end_stream(result, events, event.result)
                yield event
        except (AgentsException, Refused):
            raise
        except Exception as error:
            _raise_if_refused(await self._enforcer.aread_refusal(error, context), error)
            raise

    def _change_input(self, run_input: RunInput, context: Any) -> Steps[RunInput]:
        """Return the input with changed texts; the guardrail refuses what is left."""
        if isinstance(run_input, RunState) or not self._enforcer.may_change(Surface.INPUT):
            return run_input
        call_context = self._hooks.context_for(RunContextWrapper(context))
        text = read_new_prompt(run_input)
        result = yield from self._enforcer.prompt_steps(text, call_context)
        changed: RunInput = result.apply_changes(run_input)
        return changed

    def _build_protection(self, unguarded: Iterable[str] = ()) -> AgentProtection:
        return AgentProtection(self._hooks, self._exempt, frozenset(unguarded))

    def _guard_agent(self, agent: Agent[Any], run_input: RunInput) -> Agent[Any]:
        # The SDK continues with the agent in the state, not with the one passed beside it.
        if isinstance(run_input, RunState):
            current = getattr(run_input, "_current_agent", None)
            if current is None or not self._build_protection().is_protected(current, set()):
                raise InputError(
                    "the run state continues with an agent that is not guarded",
                    help="load it by `RunState.from_json(guard.protect(agent), …)`",
                )
        return self.protect(agent)

    def _run_settings(
        self, session: Session | None, run_input: RunInput, **more: Any
    ) -> dict[str, Any]:
        handlers = {**self.error_handlers, **(more.pop("error_handlers", None) or {})}
        config = more.pop("run_config", None)
        resumed = isinstance(run_input, RunState)
        return {
            "session": None if session is None else self._clean_session(session, resumed=resumed),
            "run_config": self._config if config is None else _run_tools_serially(config),
            "error_handlers": handlers,
            **more,
        }

    def _clean_session(self, session: Session, *, resumed: bool = False) -> Session:
        if isinstance(session, OpenAIConversationsSession):
            raise InputError("demur cannot filter a session that the provider stores")
        return CleanSession(session, self._hooks.run_state, resumed=resumed)

    async def _end_stream(
        self, result: RunResultStreaming, events: AsyncIterator[StreamEvent], refused: CheckResult
    ) -> NoReturn:
        """Cancel a streamed run, let it clean up, and raise the SDK's tripwire."""
        result.cancel()
        with suppress(AgentsException):
            _ = [event async for event in events]
        raise OutputGuardrailTripwireTriggered(
            OutputGuardrailResult(
                guardrail=self.output_guardrail,
                agent_output=refused.user_text,
                agent=result.current_agent,
                output=to_output(refused),
            )
        )


def _raise_if_refused(result: CheckResult, error: Exception) -> None:
    if not result.allowed:
        raise Refused(result) from error


def _run_tools_serially(config: RunConfig | dict[str, Any]) -> RunConfig:
    """Return the configuration with tool concurrency 1, unless it sets another."""
    run_config = RunConfig(**config) if isinstance(config, dict) else config
    execution = run_config.tool_execution or ToolExecutionConfig()
    if execution.max_function_tool_concurrency is not None:
        return run_config
    serial = dataclasses.replace(execution, max_function_tool_concurrency=1)
    return dataclasses.replace(run_config, tool_execution=serial)
