"""Scenes played through Anthropic's own client."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

from adapters.fake_anthropic import FakeAnthropic, Reply, message, message_events

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations._kit.model_api import RefusalMode, read_check_result
from demur.integrations.anthropic import guard_anthropic
from demur.model.refusal import Refusal
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

__all__ = ["DRIVERS", "AnthropicDriver", "AsyncAnthropicDriver"]

_MOST = 100


class _ClientDriver:
    """A loop around Anthropic's client, waited for or awaited."""

    points = frozenset(set(CheckPoint) - {CheckPoint.TOOL_CALL})
    ends_runs = False
    on_refusal: RefusalMode = "answer"
    awaits = False
    platform = "anthropic"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        streams = scenario.point is CheckPoint.STREAM
        replies = (_reply(turn, streams) for turn in scenario.turns)
        fake = FakeAnthropic(*replies, platform=self.platform)
        plain: Any = fake.async_client() if self.awaits else fake.client()
        at = CallContext(run="run-1")
        client = guard_anthropic(plain, enforcer, context=at, on_refusal=self.on_refusal)
        seen = asyncio.run(_Run(client, tools, streams=streams).seen(scenario.prompt))
        heard = "".join(json.dumps(one) for one in fake.heard[1:])
        return seen._replace(model_input=heard, model_calls=len(fake.heard))


class AnthropicDriver(_ClientDriver):
    """Messages that answer with refusals."""

    name = "anthropic"


class AsyncAnthropicDriver(_ClientDriver):
    """Messages, awaited, that raise refusals."""

    name = "anthropic-async"
    on_refusal = "raise"
    awaits = True


class BedrockDriver(AsyncAnthropicDriver):
    """The same through the client for Bedrock."""

    name = "anthropic-bedrock"
    platform = "bedrock"


class VertexDriver(AnthropicDriver):
    """Messages that answer with refusals, through the client for Vertex."""

    name = "anthropic-vertex"
    platform = "vertex"


DRIVERS = (AnthropicDriver(), AsyncAnthropicDriver(), BedrockDriver(), VertexDriver())


def _reply(turn: ModelTurn, streams: bool) -> Reply:
    if isinstance(turn, ToolTurn):
        calls = [
            {"type": "tool_use", "id": f"call{number}", "name": name, "input": dict(given)}
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(message(*calls, stop_reason="tool_use"))
    if isinstance(turn, FilteredTurn):
        return Reply(message(stop_reason="refusal", stop_details=None))
    return Reply(events=message_events(*turn.pieces)) if streams else Reply(message(turn.text))


async def _had(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _events(stream: Any) -> AsyncIterator[Any]:
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class _Run:
    """One conversation: asks, runs the tools that are asked for, and asks again.

    What a tool returned and may not be read is replaced by its refusal, for the model to hear.
    """

    def __init__(self, client: Any, tools: ScenarioTools, *, streams: bool) -> None:
        self._client = client
        self._tools = tools
        self._streams = streams
        self._history: list[Any] = []
        self._results: list[dict[str, Any]] = []
        self._calls: set[str] = set()
        self._answered: set[str] = set()
        self._refusal: Refusal | None = None
        self._shown: list[str] = []

    async def seen(self, prompt: str) -> ScenarioResult:
        self._history.append({"role": "user", "content": prompt})
        try:
            while await self._went_on():
                """There are tools to go on with."""
        finally:
            await _had(self._client.close())
        orphans = len(self._calls - self._answered)
        return ScenarioResult(self._refusal, "".join(self._shown), orphans=orphans)

    async def _went_on(self) -> bool:
        try:
            return await self._turn()
        except Refused as refused:
            return self._stopped(refused.refusal, refused.result.user_text)

    async def _turn(self) -> bool:
        asked = self._client.messages.create(
            model="m1", max_tokens=_MOST, messages=self._history, stream=self._streams
        )
        answer = await _had(asked)
        if self._streams:
            async for event in _events(answer):
                if event.type == "content_block_delta":
                    self._shown.append(event.delta.text)
                elif event.type == "message_delta":
                    ended = event.delta
            return self._stopped(_refusal(ended, answer), "")
        words = "".join(block.text for block in answer.content if block.type == "text")
        calls = [block for block in answer.content if block.type == "tool_use"]
        if answer.stop_reason == "refusal" or not calls:
            return self._stopped(_refusal(answer, answer), words)
        self._results = [self._ran(call) for call in calls]
        self._history += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": self._results},
        ]
        return True

    def _ran(self, call: Any) -> dict[str, Any]:
        self._calls.add(call.id)
        result = self._tools.run(call.name, call.input)
        self._answered.add(call.id)
        return {"type": "tool_result", "tool_use_id": call.id, "content": result}

    def _stopped(self, refusal: Refusal | None, words: str) -> bool:
        """Note a refusal, and return whether there is anything to go on with."""
        self._refusal = self._refusal or refusal
        results, self._results = self._results, []
        if refusal is None or not results:
            self._shown.append(words)
            return False
        for result in results:
            result["content"] = refusal.line
        return True


def _refusal(ended: Any, answer: Any) -> Refusal | None:
    """Return a refusal of ours, of the provider, or one that only a ruling tells of prose."""
    if ended.stop_details is not None:
        return Refusal.from_line(ended.stop_details.explanation)
    if ended.stop_reason == "refusal":
        return normalize({"type": "message", "content": [], "stop_reason": "refusal"})
    ruling = read_check_result(answer)
    return None if ruling is None else ruling.refusal
