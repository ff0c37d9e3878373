"""Guard agents of the OpenAI Agents SDK: prompts, tool calls, results, answers, refusals.

`AgentsGuard(enforcer).protect(agent)` attaches guardrails to an agent, its function tools, its
MCP servers and whom it hands over to. A hard refusal ends the run by the SDK's own tripwire;
a soft one of a tool is told to the model, which goes on. The refusal is the `output_info` of
the guardrail that refused, under the key `refusal`: the text of the SDK's exceptions names
classes only.

What the SDK gives nobody a look at is not guarded: hosted tools, which run at the provider;
text beside tool calls in a run that is not streamed; images and files in a prompt.
"""

import inspect
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any, Literal, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

from agents import (
    Agent,
    AgentsException,
    GuardrailFunctionOutput,
    InputGuardrail,
    OpenAIConversationsSession,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    RunErrorHandlers,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    StreamEvent,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)
from agents.memory import Session
from agents.result import RunResultBase
from agents.tracing import get_current_trace

from demur.errors import InputError
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Refused, Ruling
from demur.integrations.openai_agents.form import (
    info_of,
    parsed,
    prompt_of,
    text_of,
    to_output,
    to_tool_output,
)
from demur.integrations.openai_agents.protection import Protection
from demur.integrations.openai_agents.run import Run
from demur.integrations.openai_agents.session import CleanSession
from demur.integrations.openai_agents.stream import Refusal, released
from demur.model.grant import Grant

__all__ = ["AgentsGuard"]

_FRAMEWORK = "openai-agents"
_NAME = "demur"
_NO_TRACE = "no-op"
_MOST_KEPT = 1_000

# Who gives grants for a call that a person approved in the SDK.
Approved = Callable[[Ruling], Iterable[Grant]]


class _Asked(NamedTuple):
    """A call that was ruled on before it was due."""

    name: str
    arguments: Any
    ruling: Ruling


class AgentsGuard:
    """Holds agents to the contract. Safe to share between tasks.

    `occasion` says for whom a run is, by its context; what it leaves open is filled in.
    `on_model_refusal`: a model's own refusal becomes the final output in words, or `Refused`
    is raised. With `approved`, a call that waits for approval interrupts the run; once it is
    approved there, the grants that `approved` gives for its ruling speak for it.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        *,
        occasion: Callable[[RunContextWrapper[Any]], Occasion] | None = None,
        on_model_refusal: Literal["say", "raise"] = "say",
        approved: Approved | None = None,
    ) -> None:
        self._enforcer = enforcer
        self._asked = occasion
        self._says = on_model_refusal == "say"
        self._approved = approved
        self._runs: WeakKeyDictionary[RunContextWrapper[Any], Run] = WeakKeyDictionary()
        self._traces: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._numbers = count(1)
        self._calls: OrderedDict[tuple[str | None, str], _Asked] = OrderedDict()
        self.input_guardrail: InputGuardrail[Any] = InputGuardrail(
            self._on_input, name=_NAME, run_in_parallel=False
        )
        self.output_guardrail: OutputGuardrail[Any] = OutputGuardrail(self._on_output, name=_NAME)
        self.tool_input_guardrail: ToolInputGuardrail[Any] = ToolInputGuardrail(
            self._on_tool_call, name=_NAME
        )
        self.tool_output_guardrail: ToolOutputGuardrail[Any] = ToolOutputGuardrail(
            self._on_tool_result, name=_NAME
        )
        self.error_handlers: RunErrorHandlers[Any] = {"model_refusal": self._on_model_refusal}
        # Making one takes longer than all that a run asks the guard.
        self._config = self.run_config()

    def protect(self, agent: Agent[Any], *, unguarded: Iterable[str] = ()) -> Agent[Any]:
        """Return the agent with all guardrails, and with it all agents that it hands over to.

        The agent itself and its tools stay as they are. MCP servers are live connections and
        are guarded where they are. `unguarded` names tools that may run without a guard.

        Raises:
            InputError: A tool that runs here cannot be guarded.
        """
        protection = Protection(
            self.input_guardrail,
            self.output_guardrail,
            self.tool_input_guardrail,
            self.tool_output_guardrail,
            None if self._approved is None else self._needs_approval,
            frozenset(unguarded),
        )
        return protection.agent(agent, {})

    def run_config(self, **settings: Any) -> RunConfig:
        """Return settings for a run in which tools run one after the other.

        Otherwise the calls of one turn run together, and a tool may be done before a hard
        refusal of its neighbour is known.
        """
        one = ToolExecutionConfig(max_function_tool_concurrency=1)
        return RunConfig(**{"tool_execution": one, **settings})

    def session(self, session: Session) -> Session:
        """Return a view of the session that keeps no input that was refused.

        The SDK writes a user's words to its session before they are looked at.

        Raises:
            InputError: The provider keeps that session.
        """
        if isinstance(session, OpenAIConversationsSession):
            raise InputError("a session that the provider keeps cannot be kept clean")
        return CleanSession(session, self._run)

    def why(self, result: RunResultBase) -> tuple[Ruling, ...]:
        """Return why the calls that interrupted a run wait, for the person who is asked."""
        waiting = self._run(result.context_wrapper).waiting
        calls = [one.call_id for one in getattr(result, "interruptions", ())]
        return tuple(waiting[call] for call in calls if call in waiting)

    async def run(
        self,
        agent: Agent[Any],
        given: str | list[Any] | RunState[Any],
        *,
        session: Session | None = None,
        **more: Any,
    ) -> RunResult:
        """Return the result of a run that is guarded throughout: `Runner.run` with all of it.

        Raises:
            Refused: The provider refused by an exception, which is the cause.
            AgentsException: As the SDK raises them; tripwires carry the refusal.
        """
        try:
            return await Runner.run(
                self._protected(agent), given, **self._settings(session, **more)
            )
        except (AgentsException, Refused):
            raise
        except Exception as error:
            await self._raised(error, RunContextWrapper(more.get("context")))
            raise

    def run_streamed(
        self,
        agent: Agent[Any],
        given: str | list[Any] | RunState[Any],
        *,
        session: Session | None = None,
        **more: Any,
    ) -> RunResultStreaming:
        """Return a guarded run that has begun; read its events by `stream_events`."""
        settings = self._settings(session, **more)
        return Runner.run_streamed(self._protected(agent), given, **settings)

    async def stream_events(self, result: RunResultStreaming) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed run, with no answer in them that nobody looked at.

        Text is held back as far as guards need it. A refused answer ends in the words for a
        person. What a model says of its reasoning is not looked at.

        Raises:
            OutputGuardrailTripwireTriggered: The answer was refused; the model is not heard out.
            Refused: The provider refused by an exception, which is the cause.
        """
        ctx = result.context_wrapper
        run, at = self._run(ctx), self._at(ctx, result.trace)
        events = result.stream_events()
        try:
            async for event in released(
                events, lambda: self._enforcer.stream(at, prompt=run.prompt), run.rule_once
            ):
                if isinstance(event, Refusal):
                    await self._end(result, events, event.ruling)
                yield event
        except (AgentsException, Refused):
            raise
        except Exception as error:
            await self._raised(error, ctx, result.trace)
            raise

    # What the SDK calls.

    async def _on_input(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], given: str | list[Any]
    ) -> GuardrailFunctionOutput:
        del agent
        run = self._run(ctx)
        run.prompt = prompt_of(given)
        ruling = await self._enforcer.aprompt(run.prompt, self._at(ctx))
        run.allowed = ruling.allowed
        await run.release()
        return to_output(ruling)

    async def _on_output(
        self, ctx: RunContextWrapper[Any], agent: Agent[Any], said: Any
    ) -> GuardrailFunctionOutput:
        del agent
        run, at, text = self._run(ctx), self._at(ctx), text_of(said)
        if run.said is not None and run.said[0] == text:
            # Our own words for a model's refusal, which is on record already.
            return GuardrailFunctionOutput(info_of(run.said[1]), tripwire_triggered=False)
        ruling = await run.rule_once(
            text, lambda: self._enforcer.aanswer(text, at, prompt=run.prompt)
        )
        if not ruling.allowed:
            return to_output(ruling)
        model = await self._enforcer.amodel(None, at, text=text, prompt=run.prompt)
        # A model that declines in its own words may be heard: nothing has to be stopped.
        told = ruling if model.allowed else model
        return GuardrailFunctionOutput(info_of(told), tripwire_triggered=False)

    async def _on_tool_call(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        ctx = data.context
        name, arguments = ctx.qualified_tool_name, ctx.tool_arguments
        at = self._at(ctx)._replace(call_id=ctx.tool_call_id)
        ruling = self._ruled(at, name, arguments)
        if ruling is None:
            ruling = await self._enforcer.atool_call(name, arguments, at)
        waits = ruling.may_be_approved and self._approved is not None
        if waits and ctx.is_tool_approved(ctx.tool_name, ctx.tool_call_id):
            assert self._approved is not None
            grants = self._approved(ruling)
            ruling = await self._enforcer.atool_call(name, arguments, at, grants=grants)
        return to_tool_output(ruling)

    async def _on_tool_result(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        ctx = data.context
        ruling = await self._enforcer.atool_result(
            ctx.qualified_tool_name,
            text_of(data.output),
            self._at(ctx)._replace(call_id=ctx.tool_call_id),
            arguments=ctx.tool_arguments,
        )
        return to_tool_output(ruling)

    async def _needs_approval(
        self,
        name: str,
        before: Any,
        ctx: RunContextWrapper[Any],
        arguments: dict[str, Any],
        call_id: str,
    ) -> bool:
        """Return whether a call has to wait for a person: by its own setting, or by ours."""
        at = self._at(ctx)._replace(call_id=call_id)
        ruling = await self._enforcer.atool_call(name, arguments, at)
        self._calls[at.run, call_id] = _Asked(name, arguments, ruling)
        while len(self._calls) > _MOST_KEPT:
            self._calls.popitem(last=False)
        if ruling.may_be_approved:
            self._run(ctx).waiting[call_id] = ruling
            return True
        asked = before(ctx, arguments, call_id) if callable(before) else before
        return bool(await asked if inspect.isawaitable(asked) else asked)

    def _ruled(self, at: Occasion, name: str, arguments: str) -> Ruling | None:
        """Return the ruling that was made when the SDK asked for an approval, or None."""
        asked = self._calls.pop((at.run, str(at.call_id)), None)
        if asked is None or asked.name != name or asked.arguments != parsed(arguments):
            return None
        return asked.ruling

    async def _on_model_refusal(
        self, given: RunErrorHandlerInput[Any]
    ) -> RunErrorHandlerResult | None:
        run, agent = self._run(given.context), given.run_data.last_agent
        ruling = await self._enforcer.amodel(
            given.error, self._at(given.context), prompt=run.prompt
        )
        if ruling.allowed:
            return None
        if not self._says or agent.output_type not in {None, str}:
            # Words are no value of a type that the agent was to give.
            raise Refused(ruling) from given.error
        run.said = (ruling.words, ruling)
        return RunErrorHandlerResult(final_output=ruling.words)

    async def _raised(
        self, error: Exception, ctx: RunContextWrapper[Any], trace: Any = None
    ) -> None:
        ruling = await self._enforcer.amodel(error, self._at(ctx, trace))
        if not ruling.allowed:
            raise Refused(ruling) from error

    def _protected(self, agent: Agent[Any]) -> Agent[Any]:
        return agent if self.input_guardrail in agent.input_guardrails else self.protect(agent)

    def _settings(self, session: Session | None, **more: Any) -> dict[str, Any]:
        handlers = {**self.error_handlers, **(more.pop("error_handlers", None) or {})}
        config = more.pop("run_config", None) or self._config
        kept = None if session is None else self.session(session)
        return {"session": kept, "run_config": config, "error_handlers": handlers, **more}

    # Which run it is.

    def _run(self, ctx: RunContextWrapper[Any]) -> Run:
        return self._runs.setdefault(ctx, Run())

    def _at(self, ctx: RunContextWrapper[Any], trace: Any = None) -> Occasion:
        at = Occasion() if self._asked is None else self._asked(ctx)
        run = at.run or self._trace_id(trace or get_current_trace())
        return at._replace(framework=at.framework or _FRAMEWORK, run=run)

    def _trace_id(self, trace: Any) -> str | None:
        if trace is None:
            return None
        if trace.trace_id != _NO_TRACE:
            return str(trace.trace_id)
        # Where tracing is off, all traces are named alike, but each run still has its own.
        if trace not in self._traces:
            self._traces[trace] = f"run-{next(self._numbers)}"
        return self._traces[trace]

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
