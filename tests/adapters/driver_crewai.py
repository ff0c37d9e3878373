"""Scenarios run by CrewAI: crews and agents, with native tool calls and with calls in text."""

import asyncio
import json
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

# CrewAI reads these when it is imported: nothing is sent anywhere.
os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "OTEL_SDK_DISABLED": "true",
}

with warnings.catch_warnings():
    # It warns about its own modules.
    warnings.simplefilter("ignore")
    import_module("crewai")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.tools import BaseTool
from pydantic import BaseModel, PrivateAttr

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.integrations.crewai import CrewAIGuard, CrewRefused
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FrameworkDriver,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

# It prints and logs every refusal as an error.
set_suppress_console_output(True)
logging.getLogger("crewai").setLevel(logging.CRITICAL)

__all__ = ["DRIVERS", "ScriptedModel", "free_tool", "orphans"]


class ScriptedModel(BaseLLM):
    """A model with scripted turns; `requests` keeps what it was sent, call by call."""

    native: bool = True
    _turns: list[Any] = PrivateAttr(default_factory=list)
    _requests: list[list[Any]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, turns: Sequence[ModelTurn | Exception], *, native: bool = True) -> "ScriptedModel":
        """Return a model that takes these turns."""
        model = cls(model="scripted", native=native)
        model._turns = list(turns)
        return model

    @property
    def requests(self) -> list[list[Any]]:
        """What it was sent, call by call."""
        return self._requests

    def supports_function_calling(self) -> bool:
        """Return whether it calls tools natively."""
        return self.native

    def call(self, messages: Any, *_: Any, **settings: Any) -> Any:
        """Take the next turn."""
        self._requests.append([dict(one) for one in messages])
        turn = self._turns[len(self._requests) - 1]
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, ToolTurn):
            return self._call_tools(turn)
        text = "" if self.native else "Thought: I now can give a great answer\nFinal Answer: "
        pieces = (text, *turn.pieces) if isinstance(turn, AnswerTurn) else ()
        for piece in pieces if self.stream else ():
            if piece:
                self._emit_stream_chunk_event(piece, from_agent=settings.get("from_agent"))
        return "".join(pieces)

    async def acall(self, messages: Any, *args: Any, **settings: Any) -> Any:
        """Take the next turn."""
        return self.call(messages, *args, **settings)

    def _call_tools(self, turn: ToolTurn) -> Any:
        if not self.native:
            [(name, given)] = turn.calls
            return f"Thought: I need it\nAction: {name}\nAction Input: {json.dumps(dict(given))}"
        return [
            {
                "id": f"call-{len(self._requests)}-{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(dict(given))},
            }
            for at, (name, given) in enumerate(turn.calls)
        ]


class _AnyArguments(BaseModel, extra="allow"):
    """A schema that takes any arguments."""


class _FreeTool(BaseTool):
    name: str = ""
    description: str = "Does it."
    args_schema: type[BaseModel] = _AnyArguments
    _call: Callable[..., Any] = PrivateAttr()

    def _run(self, **given: Any) -> Any:
        return self._call(self.name, given)


def free_tool(name: str, run: Callable[..., Any], **settings: Any) -> BaseTool:
    """Return a tool that takes any arguments."""
    tool = _FreeTool(name=name, cache_function=lambda *_: False, **settings)
    tool._call = run
    return tool


def orphans(messages: Sequence[Any]) -> int:
    """Return how many tool calls nothing answers."""
    asked = {call["id"] for one in messages for call in one.get("tool_calls") or ()}
    return len(asked - {one.get("tool_call_id") for one in messages})


class CrewDriver:
    """A crew of one agent and one task."""

    points = frozenset(CheckPoint)
    ends_runs = True

    def __init__(self, name: str, *, native: bool = True, awaited: bool = False) -> None:
        self.name = name
        # A filtered answer is an empty text, and no hook sees why. In text, CrewAI itself refuses
        # to run a call twice, and calls stand in an answer, which is refused first.
        in_text = ("tool loop", "secret in arguments")
        self.skipped = ("model filtered", *(() if native else in_text))
        self._native = native
        self._awaited = awaited

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = ScriptedModel.of(self._turns(scenario), native=self._native)
        agent = Agent(
            role="clerk",
            goal="help",
            backstory="You help.",
            llm=model,
            tools=[free_tool(name, tools.run) for name in tools.names],
        )
        shown: list[str] = []
        refusal: Refusal | None = None
        with CrewAIGuard(enforcer):
            try:
                refusal = _refusal_in(self._run(agent, scenario, shown))
            except CrewRefused as refused:
                refusal = from_envelope(refused.envelope)
                shown.append(refused.result.user_text)
        sent = [one for messages in model.requests[1:] for one in messages]
        model_input = "\n".join(str(one.get("content")) for one in sent)
        left = orphans(model.requests[-1]) if model.requests else 0
        return ScenarioResult(refusal, "".join(shown), model_input, left, len(model.requests))

    def _turns(self, scenario: Scenario) -> list[ModelTurn]:
        if self._native:
            return list(scenario.turns)
        turns: list[ModelTurn] = []
        for turn in scenario.turns:
            calls = turn.calls if isinstance(turn, ToolTurn) else ()
            turns += [ToolTurn((call,)) for call in calls] or [turn]
        return turns

    def _run(self, agent: Agent, scenario: Scenario, shown: list[str]) -> Any:
        streams = scenario.point is CheckPoint.STREAM
        task = Task(description=scenario.prompt, expected_output="An answer.", agent=agent)
        crew = Crew(agents=[agent], tasks=[task], stream=streams)
        if not streams:
            output: Any = asyncio.run(crew.akickoff()) if self._awaited else crew.kickoff()
            shown.append(output.raw)
            return output
        if self._awaited:
            return asyncio.run(_listen(crew, shown))
        streamed: Any = crew.kickoff()
        for chunk in streamed:
            shown.append(chunk.content)  # noqa: PERF401 - what was shown before an error counts
        return streamed.result


class AgentDriver(CrewDriver):
    """An agent alone."""

    points = frozenset(CheckPoint) - {CheckPoint.STREAM}

    def _run(self, agent: Agent, scenario: Scenario, shown: list[str]) -> Any:
        if self._awaited:
            output: Any = asyncio.run(agent.kickoff_async(scenario.prompt))
        else:
            output = agent.kickoff(scenario.prompt)
        shown.append(output.raw)
        return output


async def _listen(crew: Crew, shown: list[str]) -> Any:
    output: Any = await crew.akickoff()
    async for chunk in output:
        shown.append(chunk.content)  # noqa: PERF401 - what was shown before an error counts
    return output.result


def _refusal_in(output: Any) -> Refusal | None:
    """Return the last refusal of a tool call that the output reports."""
    found = [one.failure.details.get("refusal") for one in output.tool_failures]
    return from_envelope(found[-1]) if found else None


DRIVERS: tuple[FrameworkDriver, ...] = (
    CrewDriver("crewai"),
    CrewDriver("crewai-text", native=False),
    CrewDriver("crewai-async", awaited=True),
    AgentDriver("crewai-agent"),
    AgentDriver("crewai-agent-async", awaited=True),
)
