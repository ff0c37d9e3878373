"""Anthropic as a provider that replies what it is told to, for its real client to talk to."""

import base64
import importlib
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import anthropic

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.integrations.anthropic import guard_anthropic

__all__ = [
    "PLATFORMS",
    "FakeAnthropic",
    "Kept",
    "Reply",
    "ask",
    "assistant",
    "guarded",
    "httpx",
    "message",
    "message_events",
    "shown",
    "user",
]

httpx: Any = importlib.import_module("httpx2")


# The clients of the SDK, by platform: the end of their names, and their own settings.
PLATFORMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "anthropic": ("", {"api_key": "k"}),
    "bedrock": ("Bedrock", {"aws_region": "x", "aws_access_key": "k", "aws_secret_key": "s"}),
    "mantle": ("BedrockMantle", {"aws_region": "x", "api_key": "k"}),
    "vertex": ("Vertex", {"region": "x", "project_id": "p", "access_token": "t"}),
    "aws": ("AWS", {"aws_region": "x", "api_key": "k", "workspace_id": "w"}),
    "foundry": ("Foundry", {"api_key": "k"}),
    "google-cloud": (
        "GoogleCloud",
        {"project": "p", "workspace_id": "w", "token_provider": lambda: "t"},
    ),
}


class Reply(NamedTuple):
    """What a provider replies: a body, or the events of a stream."""

    body: Mapping[str, Any] | None = None
    events: Sequence[Mapping[str, Any]] = ()
    status: int = 200


class Kept(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Bytes of a stream, and how much of them was read before it was closed."""

    def __init__(self, events: Iterable[bytes]) -> None:
        self._events = list(events)
        self.read = 0
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for event in self._events:
            self.read += 1
            yield event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            self.read += 1
            yield event

    def close(self) -> None:
        """Note it."""
        self.closed = True

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True


class FakeAnthropic:
    """A provider that replies what it was told to, in order. `heard` keeps what it was sent.

    Its clients are those of Anthropic, or of another of the `PLATFORMS`.
    """

    def __init__(self, *replies: Reply | Exception, platform: str = "anthropic") -> None:
        self._platform = platform
        self._replies = list(replies)
        self.heard: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.streams: list[Kept] = []

    def client(self) -> Any:
        """Return a client that talks to it."""
        return self._make_client("Anthropic", httpx.Client)

    def async_client(self) -> Any:
        """Return a client that talks to it, to be awaited."""
        return self._make_client("AsyncAnthropic", httpx.AsyncClient)

    def _make_client(self, name: str, http: Callable[..., Any]) -> Any:
        end, options = PLATFORMS[self._platform]
        make = getattr(anthropic, name + end)
        sending = http(transport=httpx.MockTransport(self._answer))
        return make(base_url="http://fake", http_client=sending, max_retries=0, **options)

    def _answer(self, request: Any) -> Any:
        self.heard.append(json.loads(request.content))
        self.paths.append(request.url.path)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if reply.body is not None:
            return httpx.Response(reply.status, json=dict(reply.body))
        encode = _aws_frame if self._platform == "bedrock" else _server_sent_event
        stream = Kept(map(encode, reply.events))
        self.streams.append(stream)
        return httpx.Response(200, stream=stream, headers={"content-type": "text/event-stream"})


def _server_sent_event(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _aws_frame(event: Mapping[str, Any]) -> bytes:
    """Return an event in the binary format in which Bedrock streams."""
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    fields = {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}
    head = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", 7, len(value))
        + value.encode()
        for name, value in fields.items()
    )
    start = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    frame = start + struct.pack(">I", crc32(start)) + head + payload
    return frame + struct.pack(">I", crc32(frame))


def message(*blocks: str | Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a message with these blocks, of which some are texts."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m1", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 2}
    return {**head, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage, **more}


def message_events(*pieces: str, stop: str = "end_turn", **delta: Any) -> list[dict[str, Any]]:
    """Return the events of a message with one text."""
    start = message(stop_reason=None)
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    block = {"type": "text", "text": ""}
    ended = {"stop_reason": stop, "stop_sequence": None, **delta}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def guarded(client: Any, enforcer: Enforcer | Gate, **settings: Any) -> Any:
    """Return the client with guards, untyped, so that tests may ask it for anything."""
    return guard_anthropic(client, enforcer, **settings)


def user(content: Any) -> dict[str, Any]:
    """Return what a person said."""
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    """Return what the model said."""
    return {"role": "assistant", "content": content}


def ask(client: Any, *messages: Any, **more: Any) -> Any:
    """Return what comes of a message."""
    given = messages or (user("Hello?"),)
    return client.messages.create(model="m1", max_tokens=100, messages=list(given), **more)


def shown(events: Any) -> str:
    """Return the text of a message's events."""
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    return "".join(delta.text for delta in deltas if delta.type == "text_delta")
