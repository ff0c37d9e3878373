"""Scenes played by Pydantic AI agents: waited for, and streamed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, Tool

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Approval
from demur.integrations.pydantic_ai import PydanticAIGuard, RunRefused
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = [
    "DRIVERS",
    "PydanticAIDriver",
    "ScriptedModel",
    "SyncPydanticAIDriver",
    "TellingPydanticAIDriver",
    "free_tool",
    "orphans",
    "refusal_in",
]


class ScriptedModel:
    """Says what it was told to, turn by turn; `heard` keeps what it was sent, call by call."""

    def __init__(self, turns: Sequence[ModelTurn | ModelResponse | Exception]) -> None:
        self.turns = turns
        self.heard: list[list[ModelMessage]] = []

    @property
    def model(self) -> FunctionModel:
        """The model, as the framework takes one."""
        return FunctionModel(self._answer, stream_function=self._stream)

    def _next(self, messages: list[ModelMessage]) -> ModelTurn | ModelResponse:
        turn = self.turns[len(self.heard)]
        self.heard.append(list(messages))
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _answer(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        turn = self._next(messages)
        if isinstance(turn, ModelResponse):
            return turn
        if isinstance(turn, AnswerTurn):
            return ModelResponse([TextPart(turn.text)])
        if isinstance(turn, ToolTurn):
            return ModelResponse([ToolCallPart(name, dict(given)) for name, given in turn.calls])
        return ModelResponse([], finish_reason="content_filter")

    async def _stream(
        self, messages: list[ModelMessage], _info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        turn = self._next(messages)
        if isinstance(turn, AnswerTurn):
            for piece in turn.pieces:
                yield piece
        else:
            assert isinstance(turn, ModelResponse)
            for place, part in enumerate(turn.parts):
                if isinstance(part, TextPart):
                    yield part.content
                else:
                    assert isinstance(part, ToolCallPart)
                    text = part.args_as_json_str()
                    yield {place: DeltaToolCall(part.tool_name, text[:5])}
                    yield {place: DeltaToolCall(json_args=text[5:])}


def free_tool(name: str, run: Callable[[str, Mapping[str, Any]], Any]) -> Tool[Any]:
    """Return a tool that takes any arguments."""

    def call(**given: Any) -> Any:
        return run(name, given)

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool.from_schema(call, name, f"Does {name}.", schema)


def refusal_in(messages: Sequence[ModelMessage]) -> Refusal | None:
    """Return the last refusal that stands beside the answer to a tool call, or an answer."""
    found = [
        part.metadata["refusal"]
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart) and part.outcome == "denied"
    ]
    found += [(message.metadata or {}).get("refusal") for message in messages]
    return next((from_envelope(one) for one in reversed(found) if one is not None), None)


def orphans(messages: Sequence[ModelMessage], waiting: Sequence[ToolCallPart] = ()) -> int:
    """Return how many tool calls nothing answers, and nobody is asked to approve."""
    parts = [part for message in messages for part in message.parts]
    asked = {part.tool_call_id for part in parts if isinstance(part, ToolCallPart)}
    done = {part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)}
    return len(asked - done - {call.tool_call_id for call in waiting})


class PydanticAIDriver:
    """Runs scenarios by `run`, and those of streaming by `run_stream`."""

    name = "pydantic-ai"
    points = frozenset(CheckPoint)
    ends_runs = True
    approval: Approval = "interrupt"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        script = ScriptedModel(scenario.turns)
        agent: Agent[None, Any] = Agent(
            script.model,
            output_type=[str, DeferredToolRequests],
            tools=[free_tool(name, tools.run) for name in tools.names],
            capabilities=[PydanticAIGuard(enforcer, approval=self.approval)],
        )
        shown: list[str] = []
        refusal, waiting = None, []
        with capture_run_messages() as messages:
            try:
                if scenario.point is CheckPoint.STREAM:
                    self._listen(agent, scenario.prompt, shown)
                else:
                    output = self._ask(agent, scenario.prompt)
                    if isinstance(output, DeferredToolRequests):
                        waiting = output.approvals
                        refusal = _in_metadata(output)
                    else:
                        shown.append(output)
            except RunRefused as refused:
                refusal = from_envelope(refused.envelope)
                shown.append(refused.result.user_text)
        heard = "\n".join(
            str(part) for sent in script.heard[1:] for one in sent for part in one.parts
        )
        return ScenarioResult(
            refusal or refusal_in(messages),
            "".join(shown),
            heard,
            orphans(messages, waiting),
            len(script.heard),
        )

    def _ask(self, agent: Agent[None, Any], prompt: str) -> Any:
        return asyncio.run(agent.run(prompt)).output

    def _listen(self, agent: Agent[None, Any], prompt: str, shown: list[str]) -> None:
        asyncio.run(_streamed(agent, prompt, shown))


class SyncPydanticAIDriver(PydanticAIDriver):
    """Runs scenarios by `run_sync` and `run_stream_sync`."""

    name = "pydantic-ai-sync"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Return what was seen, by an event loop that is closed."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return super().run_scenario(scenario, enforcer, tools)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            asyncio.set_event_loop(None)

    def _ask(self, agent: Agent[None, Any], prompt: str) -> Any:
        return agent.run_sync(prompt).output

    def _listen(self, agent: Agent[None, Any], prompt: str, shown: list[str]) -> None:
        with agent.run_stream_sync(prompt) as result:
            for piece in result.stream_text(delta=True, debounce_by=None):
                shown.append(piece)  # noqa: PERF402 - what was shown before an error counts


class TellingPydanticAIDriver(PydanticAIDriver):
    """Runs scenarios in which the model is told that a call waits."""

    name = "pydantic-ai-message"
    approval = "message"


DRIVERS = (PydanticAIDriver(), SyncPydanticAIDriver(), TellingPydanticAIDriver())


def _in_metadata(requests: DeferredToolRequests) -> Refusal | None:
    [call, *_] = requests.approvals
    return from_envelope(requests.metadata[call.tool_call_id]["refusal"])


async def _streamed(agent: Agent[None, Any], prompt: str, shown: list[str]) -> None:
    async with agent.run_stream(prompt) as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            shown.append(piece)  # noqa: PERF401 - what was shown before an error counts
