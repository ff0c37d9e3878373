"""Scenes played through OpenAI's own client."""

import asyncio
import inspect
import json
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

from demur.emit.openai import from_openai
from demur.gate.enforcer import Enforcer, Occasion
from demur.gate.ruling import Refused
from demur.integrations.model_client.call import OnRefusal, ruling_of
from demur.integrations.openai_client import guard_openai
from demur.testing.conformance.scene import Ask, Filtered, Point, Scene, Seen, Tools, Turn

if TYPE_CHECKING:
    from demur.model.refusal import Refusal

__all__ = [
    "STAGES",
    "AsyncOpenAIChatStage",
    "AsyncOpenAIResponsesStage",
    "OpenAIChatStage",
    "OpenAIResponsesStage",
]

Interface = Literal["chat", "responses"]


class _Stage:
    """A loop around OpenAI's client, by one of its interfaces, waited for or awaited."""

    points = frozenset(set(Point) - {Point.TOOL_CALL})
    ends_runs = False
    interface: Interface = "chat"
    on_refusal: OnRefusal = "answer"
    awaits = False

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Return what was seen."""
        streams = scene.point is Point.STREAM
        reply, run = _INTERFACES[self.interface]
        fake = FakeOpenAI(*(reply(turn, streams) for turn in scene.turns))
        plain: Any = fake.async_client() if self.awaits else fake.client()
        at = Occasion(run="run-1")
        client = guard_openai(plain, enforcer, at=at, on_refusal=self.on_refusal)
        seen = asyncio.run(run(client, tools, streams=streams).seen(scene.prompt))
        return seen._replace(heard="".join(json.dumps(one) for one in fake.heard[1:]))


class OpenAIChatStage(_Stage):
    """Chat completions that answer with refusals."""

    name = "openai-chat"


class AsyncOpenAIChatStage(_Stage):
    """Chat completions, awaited, that raise refusals."""

    name = "openai-chat-async"
    on_refusal = "raise"
    awaits = True


class OpenAIResponsesStage(_Stage):
    """Responses that raise refusals."""

    name = "openai-responses"
    interface = "responses"
    on_refusal = "raise"


class AsyncOpenAIResponsesStage(_Stage):
    """Responses, awaited, that answer with refusals."""

    name = "openai-responses-async"
    interface = "responses"
    awaits = True


STAGES = (
    OpenAIChatStage(),
    AsyncOpenAIChatStage(),
    OpenAIResponsesStage(),
    AsyncOpenAIResponsesStage(),
)


def _chat_reply(turn: Turn, streams: bool) -> Reply:
    if isinstance(turn, Ask):
        calls = [
            {
                "id": f"call{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(completion(None, calls=calls))
    if isinstance(turn, Filtered):
        return Reply(completion("", finish="content_filter"))
    return Reply(events=chat_chunks(*turn.pieces)) if streams else Reply(completion(turn.text))


def _response_reply(turn: Turn, streams: bool) -> Reply:
    if isinstance(turn, Ask):
        calls = [
            {"call_id": f"call{number}", "name": name, "arguments": json.dumps(given)}
            for number, (name, given) in enumerate(turn.calls)
        ]
        return Reply(response(None, calls=calls))
    if isinstance(turn, Filtered):
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
        """Return what was seen of a conversation that begins with `prompt`."""
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
        raise NotImplementedError

    def _say(self, text: str | None) -> None:
        self._shown.append(text or "")

    def _refused(self, data: object, answer: Any) -> None:
        """Read a refusal where the interface has one: said by us, or ruled on the model's."""
        ruling = ruling_of(answer)
        self._refusal = from_openai(data) or (None if ruling is None else ruling.refusal)


class _Chat(_Run):
    async def _turn(self) -> bool:
        asked = self._client.chat.completions.create(
            model="m1", messages=self._history, stream=self._streams
        )
        answer = await _had(asked)
        if self._streams:
            said = ""
            async for chunk in _events(answer):
                for choice in chunk.choices:
                    self._say(choice.delta.content)
                    said += choice.delta.refusal or ""
            self._say(said.partition("\n")[0])
            self._refused({"refusal": said or None}, answer)
            return False
        message = answer.choices[0].message
        self._say(message.content or (message.refusal or "").rpartition("\n")[0])
        self._refused(message.model_dump(), answer)
        self._history.append(message)
        for call in message.tool_calls or ():
            given = json.loads(call.function.arguments)
            result = self._tools.run(call.function.name, given)
            done = {"role": "tool", "tool_call_id": call.id, "content": result}
            self._history.append(done)
        return bool(message.tool_calls)


class _Responses(_Run):
    async def _turn(self) -> bool:
        asked = self._client.responses.create(model="m1", input=self._history, stream=self._streams)
        answer = await _had(asked)
        if self._streams:
            said = ""
            async for event in _events(answer):
                if event.type == "response.output_text.delta":
                    self._say(event.delta)
                elif event.type == "response.refusal.delta":
                    said += event.delta
            self._refused({"refusal": said or None}, answer)
            return False
        self._say(answer.output_text)
        parts = [part for item in answer.output for part in getattr(item, "content", None) or ()]
        refusals = [part for part in parts if part.type == "refusal"]
        for part in refusals:
            self._say(part.refusal.rpartition("\n")[0])
        self._refused(refusals[0].model_dump() if refusals else None, answer)
        calls = [item for item in answer.output if item.type == "function_call"]
        self._history += answer.output
        for call in calls:
            result = self._tools.run(call.name, json.loads(call.arguments))
            done = {"type": "function_call_output", "call_id": call.call_id, "output": result}
            self._history.append(done)
        return bool(calls)


_INTERFACES: Mapping[Interface, tuple[Any, Any]] = {
    "chat": (_chat_reply, _Chat),
    "responses": (_response_reply, _Responses),
}
