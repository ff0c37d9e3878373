"""Scenes played through Anthropic's own client."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

from adapters.fake_anthropic import FakeAnthropic, Reply, message, message_events

from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Refused
from demur.integrations.anthropic_client import guard_anthropic
from demur.integrations.model_client.call import OnRefusal, ruling_of
from demur.model.refusal import Refusal
from demur.testing.conformance.scene import Ask, Filtered, Point, Scene, Seen, Tools, Turn

__all__ = ["STAGES", "AnthropicStage", "AsyncAnthropicStage"]

_MOST = 100


class _Stage:
    """A loop around Anthropic's client, waited for or awaited."""

    points = frozenset(set(Point) - {Point.TOOL_CALL})
    ends_runs = False
    on_refusal: OnRefusal = "answer"
    awaits = False

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Return what was seen."""
        streams = scene.point is Point.STREAM
        fake = FakeAnthropic(*(_reply(turn, streams) for turn in scene.turns))
        plain: Any = fake.async_client() if self.awaits else fake.client()
        at = Occasion(run="run-1")
        client = guard_anthropic(plain, enforcer, at=at, on_refusal=self.on_refusal)
        seen = asyncio.run(_Run(client, tools, streams=streams).seen(scene.prompt))
        return seen._replace(heard="".join(json.dumps(one) for one in fake.heard[1:]))


class AnthropicStage(_Stage):
    """Messages that answer with refusals."""

    name = "anthropic"


class AsyncAnthropicStage(_Stage):
    """Messages, awaited, that raise refusals."""

    name = "anthropic-async"
    on_refusal = "raise"
    awaits = True


STAGES = (AnthropicStage(), AsyncAnthropicStage())


def _reply(turn: Turn, streams: bool) -> Reply:
    if isinstance(turn, Ask):
        calls = [
            {"type": "tool_use", "id": f"call{number}", "name": name, "input": dict(given)}
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(message(*calls, stop_reason="tool_use"))
    if isinstance(turn, Filtered):
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
    """One conversation: asks, runs the tools that are asked for, and asks again."""

    def __init__(self, client: Any, tools: Tools, *, streams: bool) -> None:
        self._client = client
        self._tools = tools
        self._streams = streams
        self._history: list[Any] = []
        self._refusal: Refusal | None = None
        self._shown: list[str] = []

    async def seen(self, prompt: str) -> Seen:
        self._history.append({"role": "user", "content": prompt})
        try:
            while await self._turn():
                """There are tools to go on with."""
        except Refused as refused:
            self._refusal = refused.refusal
            self._shown.append(refused.ruling.words)
        finally:
            await _had(self._client.close())
        return Seen(self._refusal, "".join(self._shown))

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
                    self._read(event.delta, answer)
            return False
        self._shown += [block.text for block in answer.content if block.type == "text"]
        self._read(answer, answer)
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": self._tools.run(call.name, call.input),
            }
            for call in calls
        ]
        self._history += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": results},
        ]
        return bool(calls)

    def _read(self, ended: Any, answer: Any) -> None:
        """Read a refusal where the interface has one: said by us, or ruled on the model's."""
        ruling = ruling_of(answer)
        if ended.stop_details is not None:
            self._refusal = Refusal.from_line(ended.stop_details.explanation)
        elif ruling is not None:
            self._refusal = ruling.refusal
