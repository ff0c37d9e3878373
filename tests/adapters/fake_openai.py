"""OpenAI as a provider that replies what it is told to, for its real client to talk to."""

import importlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import openai
from openai.providers import bedrock, vertex

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.integrations.openai import guard_openai

__all__ = [
    "PLATFORMS",
    "FakeOpenAI",
    "Kept",
    "Reply",
    "ask",
    "assistant",
    "chat_chunks",
    "completion",
    "guarded",
    "httpx",
    "respond",
    "response",
    "response_events",
    "shown",
    "user",
]

# Since version 3, OpenAI's client speaks HTTP by another package.
httpx: Any = importlib.import_module("httpx2" if openai.__version__[0] >= "3" else "httpx")


_AZURE: dict[str, Any] = {"api_key": "k", "azure_endpoint": "http://fake", "api_version": "1"}
_AWS: dict[str, Any] = {"region": "eu-west-1", "access_key_id": "k", "secret_access_key": "s"}
_GOOGLE: dict[str, Any] = {"project": "p", "location": "global", "token_provider": lambda: "t"}
# The clients of the SDK, by platform: their names, and their own settings.
PLATFORMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "openai": ("OpenAI", {"api_key": "k", "base_url": "http://fake/v1"}),
    "azure": ("AzureOpenAI", _AZURE),
    "azure-deployment": ("AzureOpenAI", {**_AZURE, "azure_deployment": "d"}),
    "bedrock": ("OpenAI", {"provider": bedrock(**_AWS)}),
    "bedrock-key": ("BedrockOpenAI", {"api_key": "k", "aws_region": "eu-west-1"}),
    "vertex": ("OpenAI", {"provider": vertex(**_GOOGLE)}),
}


class Reply(NamedTuple):
    """What a provider replies: a body, or the events of a stream."""

    body: Mapping[str, Any] | None = None
    events: Sequence[Mapping[str, Any]] = ()
    status: int = 200
    headers: Mapping[str, str] = {}


class Kept(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Bytes of a stream, and how much of them was read before it was closed."""

    def __init__(self, events: Iterable[str]) -> None:
        self._events = events
        self.read = 0
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for event in self._events:
            self.read += 1
            yield event.encode()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            self.read += 1
            yield event.encode()

    def close(self) -> None:
        """Note it."""
        self.closed = True

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True


class FakeOpenAI:
    """A provider that replies what it was told to, in order. `heard` keeps what it was sent.

    Its clients are those of OpenAI, or of another of the `PLATFORMS`.
    """

    def __init__(self, *replies: Reply | Exception, platform: str = "openai") -> None:
        self._platform = platform
        self._replies = list(replies)
        self.heard: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.streams: list[Kept] = []

    def client(self) -> Any:
        """Return a client that talks to it."""
        return self._make_client("", httpx.Client)

    def async_client(self) -> Any:
        """Return a client that talks to it, to be awaited."""
        return self._make_client("Async", httpx.AsyncClient)

    def _make_client(self, kind: str, http: Callable[..., Any]) -> Any:
        name, options = PLATFORMS[self._platform]
        sending = http(transport=httpx.MockTransport(self._answer))
        return getattr(openai, kind + name)(http_client=sending, max_retries=0, **options)

    def _answer(self, request: Any) -> Any:
        self.heard.append(json.loads(request.content))
        self.paths.append(request.url.path)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if reply.body is not None:
            return httpx.Response(reply.status, json=dict(reply.body), headers=dict(reply.headers))
        stream = Kept(_sent(reply.events))
        self.streams.append(stream)
        return httpx.Response(200, stream=stream, headers={"content-type": "text/event-stream"})


def _sent(events: Iterable[Mapping[str, Any]]) -> list[str]:
    return [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]


def completion(
    *texts: str | None, calls: Sequence[Mapping[str, Any]] = (), finish: str = "stop", **more: Any
) -> dict[str, Any]:
    """Return a chat completion with these choices."""
    choices = [
        {
            "index": index,
            "finish_reason": "tool_calls" if calls else finish,
            "message": {
                "role": "assistant",
                "content": text,
                **({"tool_calls": list(calls)} if calls else {}),
            },
        }
        for index, text in enumerate(texts)
    ]
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m1"}
    return {**head, "choices": choices, **more}


def chat_chunks(
    *pieces: str, finish: str | None = "stop", index: int = 0, usage: bool = False, **more: Any
) -> list[dict[str, Any]]:
    """Return the chunks of one choice."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces]
    chunks = [_chunk({"index": index, "delta": delta, "finish_reason": None}) for delta in deltas]
    if finish is not None:
        chunks.append(_chunk({"index": index, "delta": {}, "finish_reason": finish, **more}))
    if usage:
        counted = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        chunks.append({**_chunk(), "usage": counted})
    return chunks


def _chunk(*choices: Mapping[str, Any]) -> dict[str, Any]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1"}
    return {**head, "choices": list(choices)}


def response(
    text: str | None, *, calls: Sequence[Mapping[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    """Return a response with a message, calls, or both."""
    output: list[Any] = [] if text is None else [_message(text)]
    output += [
        {"type": "function_call", "id": f"fc_{call['call_id']}", "status": "completed", **call}
        for call in calls
    ]
    head = {"id": "r1", "object": "response", "created_at": 1, "model": "m1"}
    rest = {"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **rest, "output": output, **more}


def _message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    status = {"role": "assistant", "status": "completed"}
    return {"type": "message", "id": "msg1", **status, "content": [part]}


def response_events(*pieces: str, **more: Any) -> list[dict[str, Any]]:
    """Return the events of a response with one message."""
    text = "".join(pieces)
    whole, item = response(text, **more), _message(text)
    part = item["content"][0]
    here = {"item_id": "msg1", "output_index": 0, "content_index": 0}
    started = {**whole, "output": [], "status": "in_progress"}
    begun = {**item, "content": [], "status": "in_progress"}
    empty = {**part, "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **here, "part": empty},
        *(
            {"type": "response.output_text.delta", **here, "delta": piece, "logprobs": []}
            for piece in pieces
        ),
        {"type": "response.output_text.done", **here, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **here, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def guarded(client: Any, enforcer: Enforcer | Gate, **settings: Any) -> Any:
    """Return the client with guards, untyped, so that tests may ask it for anything."""
    return guard_openai(client, enforcer, **settings)


def user(content: Any) -> dict[str, Any]:
    """Return what a person said."""
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    """Return what the model said."""
    return {"role": "assistant", "content": content}


def ask(client: Any, *messages: Any, **more: Any) -> Any:
    """Return what comes of a chat."""
    given = messages or (user("Hello?"),)
    return client.chat.completions.create(model="m1", messages=list(given), **more)


def respond(client: Any, given: Any = "Hello?", **more: Any) -> Any:
    """Return what comes of a response."""
    return client.responses.create(model="m1", input=given, **more)


def shown(chunks: Any) -> str:
    """Return the text of a chat's chunks."""
    return "".join(one.delta.content or "" for chunk in chunks for one in chunk.choices)
