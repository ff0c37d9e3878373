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
    Key,
    Message,
    encode,
    error_to,
    key_of,
    read,
)
from demur.integrations.mcp_proxy.stream import PATIENCE_S, Stream

__all__ = ["BusyError", "HttpClient"]

# How many posted lines may wait for the relay.
_MOST_SAID = 16
# Unsolicited messages kept while no stream is open; above the limit, the oldest are dropped.
_MOST_UNHEARD = 256
_MOST_UNHEARD_BYTES = 1024 * 1024
_PROGRESS = "notifications/progress"


class BusyError(DemurError):
    """The server has not read its input for long, and the queue is full."""


class HttpClient:
    """One client, with its open requests and its stream for unsolicited messages.

    `is_greeted` says that the server has accepted the handshake.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._said: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._is_closed = False
        self._waiting: dict[Key, Stream] = {}
        self._progress: dict[Key, Stream] = {}
        self._listening: Stream | None = None
        self._unheard: deque[bytes] = deque(maxlen=_MOST_UNHEARD)
        self._greeting: Key | None = None
        self.greeted = False

    @property
    def in_use(self) -> bool:
        """Whether one of its streams is open."""
        return bool(self._waiting) or self._is_heard

    # Called for the client.

    async def tell(self, line: bytes) -> None:
        """Queue a message that needs no answer; it is lost if the relay has ended.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        await self._admitted()
        self._say(line)

    async def ask(self, line: bytes, message: Message) -> Stream | None:
        """Queue a request, and return the stream of its answer; None if its id is in use.

        Raises:
            ServerBusyError: The server does not read its input.
        """
        assert message.key is not None
        await self._admitted()
        if message.key in self._waiting:
            return None
        stream = Stream()
        if message.method == "initialize":
            self._greeting = message.key
        elif not self._is_heard:
            self._catch_up(stream)
        self._waiting[message.key] = stream
        token = _token(message.params.get("_meta"))
        if token is not None:
            self._progress[token] = stream
        self._say(line)
        if self._is_closed:
            self.close()
        return stream

    async def _admitted(self) -> None:
        """Wait until the queue has room, or the relay has ended."""
        try:
            async with asyncio.timeout(self._patience_s):
                while len(self._said) >= _MOST_SAID and not self._is_closed:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BusyError("the server does not read its input") from None

    def _say(self, line: bytes) -> None:
        if not self._is_closed:
            self._said.append(line)
            self._more.set()

    def cancel(self, identity: Any) -> None:
        """End the stream of a cancelled request."""
        key = key_of(identity)
        if key in self._waiting:
            self.forget(self._waiting[key])

    def listen(self) -> Stream:
        """Open the stream for unsolicited messages; an earlier one ends."""
        if self._listening is not None:
            self._listening.end()
        self._listening = stream = Stream()
        if self._is_closed:
            stream.end()
        self._catch_up(stream)
        return stream

    def forget(self, stream: Stream) -> None:
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
            stream.add(encode(error_to(identity, SERVER_GONE, "the session has ended")))
            self.forget(stream)
        if self._listening is not None:
            self._listening.end()

    # Called by the relay.

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield the lines that the client posted."""
        while True:
            while not self._said:
                self._more.clear()
                await self._more.wait()
            line = self._said.popleft()
            self._room.set()
            yield line

    async def send(self, line: bytes) -> None:
        """Pass a message to its stream; an answer without a request is dropped."""
        value = read(line)
        for one in value if isinstance(value, list) else [value]:
            own = line if one is value else encode(one)
            if "method" in one:
                await self._tell_unasked(own, one)
            else:
                await self._answer(own, one)

    async def _answer(self, line: bytes, answer: dict[str, Any]) -> None:
        key = key_of(answer["id"])
        stream = None if key is None else self._waiting.get(key)
        if stream is None:
            return
        if key == self._greeting:
            self.greeted = self.greeted or ("result" in answer and not stream.ended)
        await stream.put(line)
        self.forget(stream)

    async def _tell_unasked(self, line: bytes, message: dict[str, Any]) -> None:
        while (stream := self._stream_for(message)) is not None:
            if await stream.put(line):
                return
            self.forget(stream)
        self._unheard.append(line)
        while sum(map(len, self._unheard)) > _MOST_UNHEARD_BYTES:
            self._unheard.popleft()

    def _stream_for(self, message: dict[str, Any]) -> Stream | None:
        if message["method"] == _PROGRESS:
            token = _token(message.get("params"))
            if token is not None and token in self._progress:
                return self._progress[token]
        if self._is_heard:
            return self._listening
        return next(reversed(self._waiting.values()), None)

    @property
    def _is_heard(self) -> bool:
        return self._listening is not None and not self._listening.ended

    def _catch_up(self, stream: Stream) -> None:
        for line in [self._unheard.popleft() for _ in range(min(len(self._unheard), 32))]:
            stream.add(line)


def _token(holder: Any) -> Key | None:
    return key_of(holder.get("progressToken")) if isinstance(holder, dict) else None
