"""A client over streamable HTTP, as one side of a relay.

What it posts is what it says. What is said to it goes to the stream that waits for it: an
answer to the request that asked for it, progress to the request it tells of, everything else
to the stream that the client holds open for that, or else to the request that was made last.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from demur.errors import DemurError
from demur.integrations.mcp_proxy.message import (
    SERVER_GONE,
    RequestKey,
    RpcMessage,
    encode_message,
    error_response,
    request_key,
    parse_json,
)
from demur.integrations.mcp_proxy.stream import STREAM_TIMEOUT_S, EventStream

__all__ = ["ServerBusyError", "HttpDownstream"]

# How many posted lines may wait for the relay.
_MAX_POSTED_LINES = 16
# Unsolicited messages kept while no stream is open; above the limit, the oldest are dropped.
_MAX_BACKLOG = 256
_MAX_BACKLOG_BYTES = 1024 * 1024
_PROGRESS_METHOD = "notifications/progress"


class ServerBusyError(DemurError):
    """The server has not read its input for long, and the queue is full."""


class HttpDownstream:
    """One client, with its open requests and its stream for unsolicited messages.

    `is_greeted` says that the server has accepted the handshake.
    """

    def __init__(self, timeout_s: float = STREAM_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._posted_lines: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._is_closed = False
        self._waiting: dict[RequestKey, EventStream] = {}
        self._progress: dict[RequestKey, EventStream] = {}
        self._listening: EventStream | None = None
        self._backlog: deque[bytes] = deque(maxlen=_MAX_BACKLOG)
        self._greeting: RequestKey | None = None
        self.is_greeted = False

    @property
    def in_use(self) -> bool:
        """Whether one of its streams is open."""
        return bool(self._waiting) or self._is_listening

    # Called for the client.

    async def post_line(self, line: bytes) -> None:
        """Queue a message that needs no answer; it is lost if the relay has ended.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        await self._wait_for_room()
        self._append_line(line)

    async def post_request(self, line: bytes, message: RpcMessage) -> EventStream | None:
        """Queue a request, and return the stream of its answer; None if its id is in use.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        assert message.key is not None
        await self._wait_for_room()
        if message.key in self._waiting:
            return None
        stream = EventStream()
        if message.method == "initialize":
            self._greeting = message.key
        elif not self._is_listening:
            self._deliver_backlog(stream)
        self._waiting[message.key] = stream
        token = _progress_token(message.params.get("_meta"))
        if token is not None:
            self._progress[token] = stream
        self._append_line(line)
        if self._is_closed:
            self.close()
        return stream

    async def _wait_for_room(self) -> None:
        """Wait until the queue has room, or the relay has ended."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while len(self._posted_lines) >= _MAX_POSTED_LINES and not self._is_closed:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise ServerBusyError("the server does not read its input") from None

    def _append_line(self, line: bytes) -> None:
        if not self._is_closed:
            self._posted_lines.append(line)
            self._more.set()

    def cancel_request(self, identity: Any) -> None:
        """End the stream of a cancelled request."""
        key = request_key(identity)
        if key in self._waiting:
            self.forget_stream(self._waiting[key])

    def open_stream(self) -> EventStream:
        """Open the stream for unsolicited messages; an earlier one ends."""
        if self._listening is not None:
            self._listening.end()
        self._listening = stream = EventStream()
        if self._is_closed:
            stream.end()
        self._deliver_backlog(stream)
        return stream

    def forget_stream(self, stream: EventStream) -> None:
        """End a stream, and forget its request."""
        stream.end()
        for streams in (self._waiting, self._progress):
            for key in [key for key, one in streams.items() if one is stream]:
                del streams[key]

    def close(self) -> None:
        """End all streams, those of requests with an error; later messages are lost."""
        self._is_closed = True
        self._room.set()
        for (_, identity), stream in list(self._waiting.items()):
            stream.add(
                encode_message(error_response(identity, SERVER_GONE, "the session has ended"))
            )
            self.forget_stream(stream)
        if self._listening is not None:
            self._listening.end()

    # Called by the relay.

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the lines that the client posted."""
        while True:
            while not self._posted_lines:
                self._more.clear()
                await self._more.wait()
            line = self._posted_lines.popleft()
            self._room.set()
            yield line

    async def send(self, line: bytes) -> None:
        """Pass a message to its stream; an answer without a request is dropped."""
        value = parse_json(line)
        for one in value if isinstance(value, list) else [value]:
            own = line if one is value else encode_message(one)
            if "method" in one:
                await self._deliver_unasked(own, one)
            else:
                await self._deliver_answer(own, one)

    async def _deliver_answer(self, line: bytes, answer: dict[str, Any]) -> None:
        key = request_key(answer["id"])
        stream = None if key is None else self._waiting.get(key)
        if stream is None:
            return
        if key == self._greeting:
            self.is_greeted = self.is_greeted or ("result" in answer and not stream.ended)
        await stream.put(line)
        self.forget_stream(stream)

    async def _deliver_unasked(self, line: bytes, message: dict[str, Any]) -> None:
        while (stream := self._stream_for(message)) is not None:
            if await stream.put(line):
                return
            self.forget_stream(stream)
        self._backlog.append(line)
        while sum(map(len, self._backlog)) > _MAX_BACKLOG_BYTES:
            self._backlog.popleft()

    def _stream_for(self, message: dict[str, Any]) -> EventStream | None:
        if message["method"] == _PROGRESS_METHOD:
            token = _progress_token(message.get("params"))
            if token is not None and token in self._progress:
                return self._progress[token]
        if self._is_listening:
            return self._listening
        return next(reversed(self._waiting.values()), None)

    @property
    def _is_listening(self) -> bool:
        return self._listening is not None and not self._listening.ended

    def _deliver_backlog(self, stream: EventStream) -> None:
        for line in [self._backlog.popleft() for _ in range(min(len(self._backlog), 32))]:
            stream.add(line)


def _progress_token(holder: Any) -> RequestKey | None:
    return request_key(holder.get("progressToken")) if isinstance(holder, dict) else None
