"""Scenarios run by LlamaIndex: function agents, agents that reason in text, workflows, models."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, ChatResponse, MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool, ToolMetadata
from pydantic import BaseModel, PrivateAttr

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.integrations.llamaindex import LlamaIndexGuard
from demur.model.refusal import Refusal
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FilteredTurn,
    FrameworkDriver,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = ["DRIVERS", "ScriptedModel", "free_tool", "orphans", "run_agent"]


class ScriptedModel(MockFunctionCallingLLM):
    """LlamaIndex's own fake model, with scripted turns; `requests` keeps what it was sent."""

    _turns: list[Any] = PrivateAttr(default_factory=list)
    _requests: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, turns: Sequence[ModelTurn | Exception], **settings: Any) -> None:
        super().__init__(is_chat_model=True, **settings)
        self._turns = list(turns)

    @property
    def requests(self) -> list[list[ChatMessage]]:
        """What it was sent, call by call."""
        return self._requests

    def _next(self, messages: Sequence[ChatMessage]) -> Any:
        self._requests.append(list(messages))
        turn = self._turns[len(self._requests) - 1]
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _respond(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        return _chunks(self._next(messages), len(self._requests))[-1]

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        """Take the next turn."""
        return self._respond(messages)

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        """Take the next turn."""
        return self._respond(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Iterator[ChatResponse]:
        """Take the next turn."""
        chunks = _chunks(self._next(messages), len(self._requests))
        return (one for one in chunks)

    async def astream_chat(self, messages: Any, **_: Any) -> AsyncIterator[ChatResponse]:
        """Take the next turn."""
        chunks = _chunks(self._next(messages), len(self._requests))

        async def stream() -> AsyncIterator[ChatResponse]:
            for one in chunks:
                yield one

        return stream()


class TextModel(ScriptedModel):
    """A scripted model that calls tools in text, as `ReActAgent` wants it."""

    def _next(self, messages: Sequence[ChatMessage]) -> Any:
        turn = super()._next(messages)
        if not isinstance(turn, ToolTurn):
            return turn
        [(name, arguments)] = turn.calls
        written = json.dumps(dict(arguments))
        return AnswerTurn((f"Thought: I need it.\nAction: {name}\nAction Input: {written}",))


def _chunks(turn: Any, place: int) -> list[ChatResponse]:
    """Return a turn as the chunks of a stream; each holds the whole message so far."""
    if isinstance(turn, FilteredTurn):
        raw = {"choices": [{"finish_reason": "content_filter", "message": {"role": "assistant"}}]}
        return [ChatResponse(message=ChatMessage("", role="assistant"), raw=raw)]
    if isinstance(turn, ToolTurn):
        blocks = [
            ToolCallBlock(
                tool_call_id=f"call-{place}-{at}", tool_name=name, tool_kwargs=dict(arguments)
            )
            for at, (name, arguments) in enumerate(turn.calls)
        ]
        return [ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), delta="")]
    said, chunks = "", []
    for piece in turn.pieces:
        said += piece
        chunks.append(ChatResponse(message=ChatMessage(said, role="assistant"), delta=piece))
    return chunks


class _AnyArguments(BaseModel, extra="allow"):
    """A schema that takes any arguments."""


def free_tool(
    name: str, run: Callable[[str, Mapping[str, Any]], Any], **settings: Any
) -> FunctionTool:
    """Return a tool that takes any arguments."""

    def call(**given: Any) -> Any:
        return run(name, given)

    metadata = ToolMetadata(f"Does {name}.", name, _AnyArguments, **settings)
    return FunctionTool(call, metadata=metadata)


def orphans(messages: Sequence[ChatMessage]) -> int:
    """Return how many tool calls nothing answers."""
    asked = {
        block.tool_call_id
        for one in messages
        for block in one.blocks
        if isinstance(block, ToolCallBlock)
    }
    done = {one.additional_kwargs.get("tool_call_id") for one in messages if one.role == "tool"}
    return len(asked - done)


async def run_agent(agent: Any, prompt: str, **settings: Any) -> tuple[AgentOutput, list[Any]]:
    """Run an agent; return its output and the events of its stream."""
    handler = agent.run(prompt, **settings)
    events = [event async for event in handler.stream_events()]
    return await handler, events


class AgentDriver:
    """A function agent, streaming or not, alone or in a workflow."""

    points = frozenset(CheckPoint)
    ends_runs = True
    agent_type: Any = FunctionAgent
    model_type: Any = ScriptedModel

    def __init__(self, name: str, *, streaming: bool = True, workflow: bool = False) -> None:
        self.name = name
        self._streaming = streaming
        self._workflow = workflow

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = self.model_type(scenario.turns)
        agent = self.agent_type(
            tools=[free_tool(name, tools.run) for name in tools.names],
            llm=model,
            streaming=self._streaming,
        )
        guarded = LlamaIndexGuard(enforcer).attach(
            AgentWorkflow(agents=[agent]) if self._workflow else agent
        )
        memory = ChatMemoryBuffer.from_defaults(llm=model)
        output, events = asyncio.run(run_agent(guarded, scenario.prompt, memory=memory))
        refusal = _refusal_in(output, events)
        shown = [one.delta for one in events if isinstance(one, AgentStream)]
        text = "".join(shown) if scenario.point is CheckPoint.STREAM else str(output)
        model_input = "\n".join(str(one) for sent in model.requests[1:] for one in sent)
        return ScenarioResult(
            refusal, text, model_input, orphans(memory.get_all()), len(model.requests)
        )


class WholeAgentDriver(AgentDriver):
    """A function agent that does not stream."""

    points = frozenset(CheckPoint) - {CheckPoint.STREAM}


class TextAgentDriver(AgentDriver):
    """An agent that reasons in text."""

    agent_type = ReActAgent
    model_type = TextModel
    # The model writes its calls into an answer, which is refused first.
    skipped = ("secret in arguments",)

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario; two calls in one turn become one after the other."""
        turns: list[ModelTurn] = []
        for turn in scenario.turns:
            calls = turn.calls if isinstance(turn, ToolTurn) else ()
            turns += [ToolTurn((call,)) for call in calls] or [turn]
        return super().run_scenario(scenario._replace(turns=tuple(turns)), enforcer, tools)


class ModelDriver:
    """A model without an agent, whose refusals are answers."""

    name = "llamaindex-model"
    points = frozenset({CheckPoint.PROMPT, CheckPoint.ANSWER, CheckPoint.STREAM, CheckPoint.MODEL})
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, _tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = ScriptedModel(scenario.turns)
        guarded = LlamaIndexGuard(enforcer, on_refusal="answer").attach(model)
        given = [ChatMessage(scenario.prompt, role="user")]
        if scenario.point is CheckPoint.STREAM:
            chunks = list(guarded.stream_chat(given))
            text = "".join(one.delta or "" for one in chunks)
        else:
            chunks = [guarded.chat(given)]
            text = chunks[-1].message.content or ""
        refusal = from_envelope((chunks[-1].raw or {}).get("refusal"))
        return ScenarioResult(refusal, text, model_calls=len(model.requests))


def _refusal_in(output: AgentOutput, events: Sequence[Any]) -> Refusal | None:
    """Return the last refusal of the run: of the answer, or of a tool call."""
    raws = [one.tool_output.raw_output for one in events if isinstance(one, ToolCallResult)]
    found = [
        one["refusal"] for one in (*raws, output.raw) if isinstance(one, dict) if "refusal" in one
    ]
    return from_envelope(found[-1]) if found else None


DRIVERS: tuple[FrameworkDriver, ...] = (
    AgentDriver("llamaindex"),
    WholeAgentDriver("llamaindex-whole", streaming=False),
    AgentDriver("llamaindex-workflow", workflow=True),
    TextAgentDriver("llamaindex-react"),
    ModelDriver(),
)
