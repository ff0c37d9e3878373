"""Guard agents of the OpenAI Agents SDK: prompts, tool calls, results, answers, refusals.

`AgentsGuard(enforcer).protect(agent)` attaches guardrails to an agent, its function tools, its
MCP servers and whom it hands over to. A hard refusal ends the run by the SDK's own tripwire;
a soft one of a tool is told to the model, which goes on. The refusal is the `output_info` of
the guardrail that refused, under the key `refusal`: the text of the SDK's exceptions names
classes only.

What the SDK gives nobody a look at is not guarded: hosted tools, which run at the provider;
text beside tool calls in a run that is not streamed; images and files in a prompt.
"""

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias, get_args
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

from demur.enforce.approval import Approval, GrantFor, check_approval
from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused, Ruling
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.openai_agents.custom import Rulings
from demur.integrations.openai_agents.form import to_output
from demur.integrations.openai_agents.hooks import Hooks, Whose
from demur.integrations.openai_agents.protection import Protection
from demur.integrations.openai_agents.session import CleanSession
from demur.integrations.openai_agents.stream import Guarding, Refusal, released

__all__ = ["AgentsGuard"]

OnModelRefusal = Literal["say", "raise"]
Given: TypeAlias = str | list[Any] | RunState[Any]


class AgentsGuard:
    """Holds agents to the contract. Safe to share between tasks.

    `occasion` says for whom a run is, by its context; what it leaves open is filled in.
    `on_model_refusal`: a model's own refusal becomes the final output in words, or `Refused`
    is raised. With `approval="interrupt"`, a call that waits for approval interrupts the run.
    Once somebody approved that very call there, it is decided again, with the grants that
    `grant_for` gives for its ruling and the SDK's context of the call, or that the enforcer's
    authority has by then. Where there are none, the model is told: an approval alone lifts
    nothing, and neither does one of all calls of a tool.
    """

    def __init__(
        self,
        enforcer: Enforcer | Gate,
        *,
        occasion: Whose | None = None,
        on_model_refusal: OnModelRefusal = "say",
        approval: Approval = "message",
        grant_for: GrantFor | None = None,
    ) -> None:
        if on_model_refusal not in get_args(OnModelRefusal):
            wrong = f"unknown setting `{on_model_refusal}`"
            raise InputError(wrong, where="on_model_refusal", help="`say` or `raise`")
        self._enforcer = Enforcer.of(enforcer)
        self._waits = check_approval(approval) == "interrupt"
        self._hooks = Hooks(
            self._enforcer,
            occasion,
            grant_for,
            says=on_model_refusal == "say",
            waits=self._waits,
        )
        self._rulings = Rulings(
            self._hooks.due,
            self._hooks.call,
            self._hooks.result,
            self._hooks.tripwire,
            self._hooks.result_tripwire,
        )
        self._exempt: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.input_guardrail: InputGuardrail[Any] = self._hooks.input
        self.output_guardrail: OutputGuardrail[Any] = self._hooks.output
        self.tool_input_guardrail: ToolInputGuardrail[Any] = self._hooks.tool_input
        self.tool_output_guardrail: ToolOutputGuardrail[Any] = self._hooks.tool_output
        self.error_handlers: RunErrorHandlers[Any] = {"model_refusal": self._hooks.on_model_refusal}
        # Making one takes longer than all that a run asks the guard.
        self._config = self.run_config()

    def protect(self, agent: Agent[Any], *, unguarded: Iterable[str] = ()) -> Agent[Any]:
        """Return the agent with all guardrails, and with it all agents that it hands over to.

        The agent itself and its tools stay as they are; one that is guarded already is
        returned. MCP servers are live connections and are guarded where they are. `unguarded`
        names tools of these agents that may run without a guard, now and later.

        Raises:
            InputError: A tool that runs here cannot be guarded.
        """
        return self._protection(unguarded).agent(agent, {})

    def run_config(self, **settings: Any) -> RunConfig:
        """Return settings for a run in which tools run one after the other.

        Otherwise the calls of one turn run together, and a tool may be done before a hard
        refusal of its neighbour is known.
        """
        return _one_by_one(RunConfig(**settings))

    def session(self, session: Session) -> Session:
        """Return a view of the session that keeps no input that was refused.

        The SDK writes a user's words to its session before they are looked at.

        Raises:
            InputError: The provider keeps that session.
        """
        return self._clean(session)

    def why(self, result: RunResultBase) -> tuple[Ruling, ...]:
        """Return why the calls that interrupted a run wait, for the person who is asked."""
        return tuple(self._hooks.why(result.context_wrapper, getattr(result, "interruptions", ())))

    async def run(
        self, agent: Agent[Any], given: Given, *, session: Session | None = None, **more: Any
    ) -> RunResult:
        """Return the result of a run that is guarded throughout: `Runner.run` with all of it.

        Raises:
            Refused: The provider refused by an exception, which is the cause.
            AgentsException: As the SDK raises them; tripwires carry the refusal.
            InputError: A tool cannot be guarded, or a state goes on with an unguarded agent.
        """
        guarded, settings = self._guarded(agent, given), self._settings(session, given, **more)
        try:
            return await Runner.run(guarded, given, **settings)
        except (AgentsException, Refused):
            raise
        except Exception as error:
            at = self._hooks.at(RunContextWrapper(more.get("context")))
            _typed(await self._enforcer.amodel(error, at), error)
            raise

    def run_sync(
        self, agent: Agent[Any], given: Given, *, session: Session | None = None, **more: Any
    ) -> RunResult:
        """Return the result of a guarded run, like `run`, where no event loop runs."""
        guarded, settings = self._guarded(agent, given), self._settings(session, given, **more)
        try:
            return Runner.run_sync(guarded, given, **settings)
        except (AgentsException, Refused):
            raise
        except Exception as error:
            at = self._hooks.at(RunContextWrapper(more.get("context")))
            _typed(self._enforcer.model(error, at), error)
            raise

    def run_streamed(
        self, agent: Agent[Any], given: Given, *, session: Session | None = None, **more: Any
    ) -> RunResultStreaming:
        """Return a guarded run that has begun; read its events by `stream_events`."""
        settings = self._settings(session, given, **more)
        return Runner.run_streamed(self._guarded(agent, given), given, **settings)

    async def stream_events(self, result: RunResultStreaming) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed run, with no answer in them that nobody looked at.

        Text is held back as far as guards need it. A refused answer ends in the words for a
        person. What a model says of its reasoning is not looked at.

        Raises:
            OutputGuardrailTripwireTriggered: The answer was refused; the model is not heard out.
            Refused: The provider refused by an exception, which is the cause.
        """
        ctx = result.context_wrapper
        run, at = self._hooks.run(ctx), self._hooks.at(ctx, result.trace)
        events = result.stream_events()
        guarding = Guarding(
            lambda: self._enforcer.stream(at, prompt=run.prompt),
            lambda text: self._enforcer.aanswer(text, at, prompt=run.prompt),
            run.rule_once,
        )
        try:
            async for event in released(events, guarding):
                if isinstance(event, Refusal):
                    await self._end(result, events, event.ruling)
                yield event
        except (AgentsException, Refused):
            raise
        except Exception as error:
            _typed(await self._enforcer.amodel(error, at), error)
            raise

    def _protection(self, unguarded: Iterable[str] = ()) -> Protection:
        return Protection(
            self.input_guardrail,
            self.output_guardrail,
            self.tool_input_guardrail,
            self.tool_output_guardrail,
            self._hooks.handed_over,
            self._hooks.needs_approval,
            self._rulings,
            self._exempt,
            frozenset(unguarded),
            all_wait=self._waits,
        )

    def _guarded(self, agent: Agent[Any], given: Given) -> Agent[Any]:
        # The SDK goes on with the agent that is in a state, whoever is named beside it.
        if isinstance(given, RunState):
            goes_on = getattr(given, "_current_agent", None)
            if goes_on is None or not self._protection().holds(goes_on, set()):
                raise InputError(
                    "the state goes on with an agent that is not guarded",
                    help="read it with one that is: `RunState.from_json(guard.protect(agent), …)`",
                )
        return self.protect(agent)

    def _settings(self, session: Session | None, given: Given, **more: Any) -> dict[str, Any]:
        handlers = {**self.error_handlers, **(more.pop("error_handlers", None) or {})}
        config = more.pop("run_config", None)
        resumed = isinstance(given, RunState)
        return {
            "session": None if session is None else self._clean(session, resumed=resumed),
            "run_config": self._config if config is None else _one_by_one(config),
            "error_handlers": handlers,
            **more,
        }

    def _clean(self, session: Session, *, resumed: bool = False) -> Session:
        if isinstance(session, OpenAIConversationsSession):
            raise InputError("a session that the provider keeps cannot be kept clean")
        return CleanSession(session, self._hooks.run, resumed=resumed)

    async def _end(
        self, result: RunResultStreaming, events: AsyncIterator[StreamEvent], ruling: Ruling
    ) -> NoReturn:
        """End a streamed run by the SDK's tripwire, after it was let tidy up."""
        result.cancel()
        with suppress(AgentsException):
            _ = [event async for event in events]
        raise OutputGuardrailTripwireTriggered(
            OutputGuardrailResult(
                guardrail=self.output_guardrail,
                agent_output=ruling.words,
                agent=result.current_agent,
                output=to_output(ruling),
            )
        )


def _typed(ruling: Ruling, error: Exception) -> None:
    if not ruling.allowed:
        raise Refused(ruling) from error


def _one_by_one(config: RunConfig | dict[str, Any]) -> RunConfig:
    """Return the settings of a run; where they leave it open, its tools run one by one."""
    made = RunConfig(**config) if isinstance(config, dict) else config
    execution = made.tool_execution or ToolExecutionConfig()
    if execution.max_function_tool_concurrency is not None:
        return made
    one = dataclasses.replace(execution, max_function_tool_concurrency=1)
    return dataclasses.replace(made, tool_execution=one)
