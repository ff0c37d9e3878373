"""The stage of the OpenAI Agents SDK: its runner, its scripted model, its guardrails."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import openai
from agents import Agent as SdkAgent
from agents import (
    AgentsException,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RunResult,
    SQLiteSession,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations.openai_agents import OpenAIAgentsGuard
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FilteredTurn,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = ["DRIVERS", "OpenAIAgentsDriver", "OpenAIAgentsSyncDriver"]

_ANY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


# The SDK lets nobody change an answer, or have it given again.
_SKIPPED = frozenset({"secret in an answer", "secret in a stream", "answer given again"})


class OpenAIAgentsDriver:
    """Runs scenarios with `OpenAIAgentsGuard.run`, those of streaming with `stream_events`."""

    name = "openai-agents"
    points = frozenset(CheckPoint)
    skipped = _SKIPPED
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        return asyncio.run(_Play(scenario, enforcer, tools).seen())


class OpenAIAgentsSyncDriver:
    """Runs scenarios with `OpenAIAgentsGuard.run_sync`, which has no streams."""

    name = "openai-agents-sync"
    points = frozenset(CheckPoint) - {CheckPoint.STREAM}
    skipped = _SKIPPED
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        # The SDK runs in the loop of the thread and leaves it open.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return _Play(scenario, enforcer, tools).seen_without_loop()
        finally:
            asyncio.set_event_loop(None)
            loop.close()


DRIVERS = (OpenAIAgentsDriver(), OpenAIAgentsSyncDriver())


class _Play:
    def __init__(self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools) -> None:
        self._scene = scenario
        self._guard = OpenAIAgentsGuard(enforcer)
        streams = scenario.point is CheckPoint.STREAM
        self._model = ScriptedModel(
            [_step(turn, n, streams=streams) for n, turn in enumerate(scenario.turns)]
        )
        self._agent: SdkAgent[Any] = SdkAgent(
            "stage", model=self._model, tools=[_tool(name, tools) for name in tools.names]
        )
        self._info: list[Any] = []
        self._text: list[str] = []

    async def seen(self) -> ScenarioResult:
        """Run a scenario, and return its result."""
        session = SQLiteSession("scene")
        with closing(session):
            with self._ended():
                if self._scene.point is CheckPoint.STREAM:
                    await self._streamed(session)
                else:
                    run = self._guard.run(
                        self._agent, self._scene.prompt, **self._settings(session)
                    )
                    self._shown(await run)
            return self._seen(list(await session.get_items()))

    def seen_without_loop(self) -> ScenarioResult:
        """Return what was seen of a run that nobody awaits."""
        session = SQLiteSession("scene")
        with closing(session):
            with self._ended():
                settings = self._settings(session)
                self._shown(self._guard.run_sync(self._agent, self._scene.prompt, **settings))
            return self._seen(list(asyncio.run(session.get_items())))

    def _settings(self, session: SQLiteSession) -> dict[str, Any]:
        return {"session": session, "run_config": self._guard.run_config(tracing_disabled=True)}

    @contextmanager
    def _ended(self) -> Iterator[None]:
        try:
            yield
        except AgentsException as error:
            self._told(_info_in(error))
            self._text.append(self._info[-1]["words"])
        except Refused as refused:
            self._told({"refusal": refused.envelope})
            self._text.append(refused.result.user_text)

    def _seen(self, items: list[Any]) -> ScenarioResult:
        heard = [str(call.input) for call in self._model.calls[1:]]
        kept = "\n".join(map(str, items))
        found = [from_envelope(info["refusal"]) for info in self._info]
        return ScenarioResult(
            found[-1] if found else None,
            "".join(self._text),
            "\n".join([*heard, kept]),
            _orphans(items),
            len(self._model.calls),
        )

    def _shown(self, result: RunResult) -> None:
        for one in result.output_guardrail_results:
            self._told(one.output.output_info)
        for results in (result.tool_input_guardrail_results, result.tool_output_guardrail_results):
            for each in results:
                self._told(each.output.output_info)
        self._text.append(str(result.final_output))

    async def _streamed(self, session: SQLiteSession) -> None:
        settings = self._settings(session)
        result = self._guard.run_streamed(self._agent, self._scene.prompt, **settings)
        async for event in self._guard.stream_events(result):
            data: Any = getattr(event, "data", None)
            if getattr(data, "type", "") == "response.output_text.delta":
                self._text.append(data.delta)
            elif "output_text" in str(data):
                # Later events repeat the whole text.
                self._text.append(f"\n{data}")

    def _told(self, info: Mapping[str, Any] | None) -> None:
        if info and "refusal" in info:
            self._info.append(info)


def _info_in(error: AgentsException) -> Mapping[str, Any]:
    """Return the refusal where the SDK's own exceptions carry it."""
    if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
        info: Mapping[str, Any] = error.guardrail_result.output.output_info
        return info
    if isinstance(
        error, ToolInputGuardrailTripwireTriggered | ToolOutputGuardrailTripwireTriggered
    ):
        told: Mapping[str, Any] = error.output.output_info
        return told
    raise error


def _step(turn: ModelTurn, number: int, *, streams: bool) -> Any:
    if isinstance(turn, FilteredTurn):
        return ModelStep.raise_error(_filtered())
    if isinstance(turn, AnswerTurn):
        return _pieces(turn) if streams else [assistant_message(turn.text)]
    assert isinstance(turn, ToolTurn)
    return [
        function_call(name, dict(given), call_id=f"call-{number}-{place}")
        for place, (name, given) in enumerate(turn.calls)
    ]


def _pieces(turn: AnswerTurn) -> ModelStep:
    """Return an answer that is streamed piece by piece."""
    whole = [assistant_message(turn.text)]

    async def streamed(call: ModelCall) -> AsyncIterator[Any]:
        model = ScriptedModel([whole])
        events = model.stream_response(
            call.system_instructions,
            call.input,
            call.model_settings,
            call.tools,
            call.output_schema,
            call.handoffs,
            call.tracing,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        async for event in events:
            if event.type != "response.output_text.delta":
                yield event
                continue
            for piece in turn.pieces:
                yield event.model_copy(update={"delta": piece})

    return ModelStep.stream(streamed, output=whole)


def _filtered() -> openai.BadRequestError:
    """Return how Azure reports a prompt that its filter stopped."""
    body = {"code": "content_filter", "message": "The response was filtered.", "param": "prompt"}
    response: Any = SimpleNamespace(request=None, status_code=400, headers={})
    return openai.BadRequestError("filtered", response=response, body=body)


def _tool(name: str, tools: ScenarioTools) -> FunctionTool:
    async def invoked(_ctx: Any, arguments: str) -> str:
        return tools.run(name, json.loads(arguments))

    return FunctionTool(
        name=name,
        description=f"The tool {name}.",
        params_json_schema=_ANY,
        on_invoke_tool=invoked,
        strict_json_schema=False,
    )


def _orphans(items: list[Any]) -> int:
    """Return how many tool calls in a history have no output."""
    calls = {item.get("call_id") for item in items if item.get("type") == "function_call"}
    answered = {i.get("call_id") for i in items if i.get("type") == "function_call_output"}
    return len(calls - answered)
