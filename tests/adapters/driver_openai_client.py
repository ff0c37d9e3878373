"""Scenes played through OpenAI's own client."""

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    chat_chunks,
    completion,
    response,
    response_events,
)

from demur.emit.hosts import from_openai
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations._kit.model_api import RefusalMode, read_check_result
from demur.integrations.openai import guard_openai
from demur.providers.normalization import normalize
from demur.testing.scenarios import (
    CheckPoint,
    FilteredTurn,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

if TYPE_CHECKING:
    from demur.model.refusal import Refusal

__all__ = [
    "DRIVERS",
    "AsyncOpenAIChatDriver",
    "AsyncOpenAIResponsesDriver",
    "OpenAIChatDriver",
    "OpenAIResponsesDriver",
]

Interface = Literal["chat", "responses"]


class _ClientDriver:
    """A loop around OpenAI's client, by one of its interfaces, waited for or awaited."""

    points = frozenset(set(CheckPoint) - {CheckPoint.TOOL_CALL})
    ends_runs = False
    interface: Interface = "chat"
    on_refusal: RefusalMode = "answer"
    awaits = False
    platform = "openai"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        streams = scenario.point is CheckPoint.STREAM
        reply, run = _INTERFACES[self.interface]
        replies = (reply(turn, streams) for turn in scenario.turns)
        fake = FakeOpenAI(*replies, platform=self.platform)
        plain: Any = fake.async_client() if self.awaits else fake.client()
        at = CallContext(run="run-1")
        client = guard_openai(plain, enforcer, context=at, on_refusal=self.on_refusal)
        seen = asyncio.run(run(client, tools, streams=streams).seen(scenario.prompt))
        heard = "".join(json.dumps(one) for one in fake.heard[1:])
        return seen._replace(model_input=heard, model_calls=len(fake.heard))


class OpenAIChatDriver(_ClientDriver):
    """Chat completions that answer with refusals."""

    name = "openai-chat"


class AsyncOpenAIChatDriver(_ClientDriver):
    """Chat completions, awaited, that raise refusals."""

    name = "openai-chat-async"
    on_refusal = "raise"
    awaits = True


class OpenAIResponsesDriver(_ClientDriver):
    """Responses that raise refusals."""

    name = "openai-responses"
    interface = "responses"
    on_refusal = "raise"


class AsyncOpenAIResponsesDriver(_ClientDriver):
    """Responses, awaited, that answer with refusals."""

    name = "openai-responses-async"
    interface = "responses"
    awaits = True


class BedrockDriver(OpenAIChatDriver):
    """Chat completions that answer with refusals, on Bedrock."""

    name = "openai-bedrock"
    platform = "bedrock"


class VertexDriver(AsyncOpenAIResponsesDriver):
    """Responses, awaited, that answer with refusals, on Vertex."""

    name = "openai-vertex"
    platform = "vertex"


DRIVERS = (
    OpenAIChatDriver(),
    AsyncOpenAIChatDriver(),
    OpenAIResponsesDriver(),
    AsyncOpenAIResponsesDriver(),
    BedrockDriver(),
    VertexDriver(),
)


def _chat_reply(turn: ModelTurn, streams: bool) -> Reply:
    if isinstance(turn, ToolTurn):
        calls = [
            {
                "id": f"call{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(completion(None, calls=calls))
    if isinstance(turn, FilteredTurn):
        return Reply(completion("", finish="content_filter"))
    return Reply(events=chat_chunks(*turn.pieces)) if streams else Reply(completion(turn.text))


def _response_reply(turn: ModelTurn, streams: bool) -> Reply:
    if isinstance(turn, ToolTurn):
        calls = [
            {"call_id": f"call{number}", "name": name, "arguments": json.dumps(given)}
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(response(None, calls=calls))
    if isinstance(turn, FilteredTurn):
        details = {"reason": "content_filter"}
        return Reply(response(None, status="incomplete", incomplete_details=details))
    return Reply(events=response_events(*turn.pieces)) if streams else Reply(response(turn.text))


async def _had(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _events(stream: Any) -> AsyncIterator[Any]:
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class _Run(ABC):
    """One conversation: asks, runs the tools that are asked for, and asks again.

    What a tool returned and may not be read is replaced by its refusal, for the model to hear.
    """

    answered = ""
    result = ""

    def __init__(self, client: Any, tools: ScenarioTools, *, streams: bool) -> None:
        self._client = client
        self._tools = tools
        self._streams = streams
        self._history: list[Any] = []
        self._results: list[dict[str, Any]] = []
        self._calls: set[str] = set()
        self._refusal: Refusal | None = None
        self._shown: list[str] = []

    async def seen(self, prompt: str) -> ScenarioResult:
        """Return what was seen of a conversation that begins with `prompt`."""
        self._history.append({"role": "user", "content": prompt})
        try:
            while await self._went_on():
                """There are tools to go on with."""
        finally:
            await _had(self._client.close())
        answered = {one.get(self.answered) for one in self._history if isinstance(one, dict)}
        return ScenarioResult(
            self._refusal, "".join(self._shown), orphans=len(self._calls - answered)
        )

    async def _went_on(self) -> bool:
        try:
            return await self._turn()
        except Refused as refused:
            return self._stopped(refused.refusal, refused.result.user_text)

    @abstractmethod
    async def _turn(self) -> bool:
        """Take one turn of the model; return whether another follows."""

    def _say(self, text: str | None) -> None:
        self._shown.append(text or "")

    def _stopped(self, refusal: "Refusal | None", words: str) -> bool:
        """Note a refusal, and return whether there is anything to go on with."""
        self._refusal = self._refusal or refusal
        results, self._results = self._results, []
        if refusal is None or not results:
            self._say(words)
            return False
        for result in results:
            result[self.result] = refusal.line
        return True

    def _ran(self, call_id: str, name: str, arguments: str, **more: Any) -> None:
        result = self._tools.run(name, json.loads(arguments))
        done = {**more, self.answered: call_id, self.result: result}
        self._calls.add(call_id)
        self._results.append(done)
        self._history.append(done)


class _Chat(_Run):
    answered, result = "tool_call_id", "content"

    async def _turn(self) -> bool:
        asked = self._client.chat.completions.create(
            model="m1", messages=self._history, stream=self._streams
        )
        answer = await _had(asked)
        if self._streams:
            said, ended = "", ""
            async for chunk in _events(answer):
                for choice in chunk.choices:
                    self._say(choice.delta.content)
                    said += choice.delta.refusal or ""
                    ended = choice.finish_reason or ended
            return self._read(said, ended, answer)
        [choice] = answer.choices
        message = choice.message
        self._say(message.content)
        if message.refusal or not message.tool_calls:
            return self._read(message.refusal, choice.finish_reason, answer)
        self._results = []
        self._history.append(message)
        for call in message.tool_calls:
            self._ran(call.id, call.function.name, call.function.arguments, role="tool")
        return True

    def _read(self, refusal: str | None, finish: str, answer: Any) -> bool:
        if finish == "content_filter":
            return self._stopped(normalize({"choices": [{"finish_reason": finish}]}), "")
        return self._stopped(_refusal(refusal, answer), (refusal or "").rpartition("\n")[0])


class _Responses(_Run):
    answered, result = "call_id", "output"

    async def _turn(self) -> bool:
        asked = self._client.responses.create(model="m1", input=self._history, stream=self._streams)
        answer = await _had(asked)
        whole = await self._listened(answer) if self._streams else answer
        if not self._streams:
            self._say(whole.output_text)
        parts = [part for item in whole.output for part in getattr(item, "content", None) or ()]
        refusal = "".join(part.refusal for part in parts if part.type == "refusal")
        calls = [item for item in whole.output if item.type == "function_call"]
        if whole.incomplete_details is not None:
            return self._stopped(normalize(whole), "")
        if refusal or not calls:
            return self._stopped(_refusal(refusal, answer), refusal.rpartition("\n")[0])
        self._results = []
        self._history += whole.output
        for call in calls:
            self._ran(call.call_id, call.name, call.arguments, type="function_call_output")
        return True

    async def _listened(self, stream: Any) -> Any:
        """Return the response that a stream ends with, of which all that is shown was shown."""
        said, texts, whole = "", "", None
        async for event in _events(stream):
            if event.type == "response.output_text.delta":
                said += event.delta
            elif event.type == "response.output_text.done":
                texts += event.text
            elif event.type == "response.completed":
                whole = event.response
        assert whole is not None
        self._say(said)
        assert texts in {"", said}
        assert whole.output_text in {"", said}
        return whole


def _refusal(text: str | None, answer: Any) -> "Refusal | None":
    """Return a refusal of ours, or one that a model says in words and only a ruling tells."""
    ruling = read_check_result(answer)
    return from_openai({"refusal": text or None}) or (None if ruling is None else ruling.refusal)


_INTERFACES: Mapping[Interface, tuple[Any, Any]] = {
    "chat": (_chat_reply, _Chat),
    "responses": (_response_reply, _Responses),
}
