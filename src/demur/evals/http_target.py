"""Endpoints with OpenAI's chat completions as targets, among them the test server of demur.

Temporary failures are retried, within bounds and on record. The key is read from the
environment when it is needed, and appears in no setting, answer or message. Needs `httpx`.
"""

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.request import getproxies, proxy_bypass

import h11
import httpx
import msgspec

from demur.errors import error_reason, one_line
from demur.evals.chat_reply import (
    ChatCompletion,
    ChatStreamParser,
    ReplyError,
    RequestPace,
    parse_completion,
    parse_error,
    parse_retry_after,
    retry_wait,
)
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetAnswer, TargetError, error_answer, limit_size, ms_since

if TYPE_CHECKING:
    import ssl


_READ_SIZE = 65_536


class ConnectionPool(httpx.AsyncBaseTransport):
    """A transport for direct connections, without a limit: the caller bounds the concurrency.

    httpx's own pool searches all its connections for each request, which with 64 of them takes
    longer than most answers do. Proxies are left to httpx.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[str, str, int], list[_Connection]] = {}
        self._context: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response with an unread body; closing the body frees the connection.

        Raises:
            httpx.TransportError: The connection failed.
        """
        connection = await self._acquire(request.url)
        try:
            await connection.send_request(request)
            head = await connection.read_head()
        except BaseException:
            connection.close()
            raise
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=connection)

    async def aclose(self) -> None:
        """Close every free connection."""
        connections = [connection for free in self._free.values() for connection in free]
        self._free.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    async def _acquire(self, url: httpx.URL) -> "_Connection":
        port = url.port or (443 if url.scheme == "https" else 80)
        free = self._free.setdefault((url.scheme, url.host, port), [])
        while free:
            connection = free.pop()
            if connection.is_usable:
                return connection
            connection.close()
        if url.scheme == "https" and self._context is None:
            self._context = httpx.create_ssl_context()
        secure = self._context if url.scheme == "https" else None
        try:
            reader, writer = await asyncio.open_connection(url.host, port, ssl=secure)
        except OSError as error:
            raise httpx.ConnectError(error_reason(error)) from error
        return _Connection(reader, writer, free)


class _Connection(httpx.AsyncByteStream):
    """One connection, which carries one request at a time.

    It is the body of its response: `aclose` returns it to the pool.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, free: "list[_Connection]"
    ) -> None:
        self._reader, self._writer, self._free = reader, writer, free
        self._http = h11.Connection(h11.CLIENT)

    @property
    def is_usable(self) -> bool:
        """Whether the connection is still open, as far as is known."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def send_request(self, request: httpx.Request) -> None:
        """Send a request with its body."""
        path, headers = request.url.raw_path, request.headers.raw
        head = h11.Request(method=request.method, target=path, headers=headers)
        events = (head, h11.Data(data=request.content), h11.EndOfMessage())
        try:
            self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
            await self._writer.drain()
        except OSError as error:
            raise httpx.WriteError(error_reason(error)) from error

    async def read_head(self) -> h11.Response:
        """Return status and headers, skipping informational responses."""
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def _next_event(self) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    break
                self._http.receive_data(await self._reader.read(_READ_SIZE))
            except h11.RemoteProtocolError as error:
                raise httpx.RemoteProtocolError(str(error)) from error
            except OSError as error:
                raise httpx.ReadError(error_reason(error)) from error
        if isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
            return event
        raise httpx.RemoteProtocolError("the connection was closed before an answer came")

    async def aclose(self) -> None:
        """Keep the connection for the next request, or close it if it cannot be reused."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._free.append(self)
        else:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


MAX_REPLY_BYTES = 16_000_000
_COMPLETIONS_PATH = "/chat/completions"
_MILLION = 1_000_000

Positive = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]


class OpenAIOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request options. Prices are per million tokens; `rate` is requests per second."""

    model: str = ""
    api_key_env: str = ""
    system: str = ""
    temperature: float | None = None
    seed: int | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stream: bool = False
    timeout_s: Positive = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    rate: Positive | None = None
    price_in: Price = 0.0
    price_out: Price = 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """The options that identify the target: speed, retries and prices do not."""
        names = ("model", "system", "temperature", "seed", "max_tokens", "stream")
        return {name: getattr(self, name) for name in names}


class OpenAITarget:
    """A model behind an address like `http://localhost:8000/v1`.

    `metadata` returns the field `metadata` of a row's request.
    """

    def __init__(
        self,
        url: str,
        options: OpenAIOptions,
        *,
        metadata: Callable[[EvalRow], Mapping[str, str]] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = _completions_url(url)
        self._options = options
        variable = options.api_key_env
        key = os.environ.get(variable, "").strip() if variable else ""
        if variable and not key:
            problem = f"the environment variable `{variable}` is not set"
            raise TargetError(problem, help="set it to the API key of the endpoint")
        if not key.isascii() or not key.isprintable():
            raise TargetError(f"the environment variable `{variable}` does not hold a key")
        self._key = key
        self._pace = RequestPace(options.rate)
        self._metadata = metadata
        self._transport = _make_transport(self._url) if transport is None else transport
        self._encode = msgspec.json.Encoder().encode
        self._fixed = _fixed_fields(options)
        self._headers = httpx.Headers(
            {
                "content-type": "application/json",
                "accept": "text/event-stream" if options.stream else "application/json",
                "user-agent": "demur-evals",
                **({"authorization": f"Bearer {self._key}"} if self._key else {}),
            }
        )

    @property
    def name(self) -> str:
        """The model's name, or else the host's."""
        return self._options.model or str(self._url.host)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The address without its secret parts, and the options that identify the target."""
        address = self._url.copy_with(userinfo=b"", query=None, fragment=None)
        return {"kind": "openai_compatible", "url": str(address), **self._options.identity}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the model's answer, or the error after all attempts."""
        messages = [{"role": "user", "content": row.prompt}]
        if self._options.system:
            messages.insert(0, {"role": "system", "content": self._options.system})
        more = {} if self._metadata is None else {"metadata": self._metadata(row)}
        content = self._encode({**self._fixed, **more, "messages": messages})
        attempt = 1
        while True:
            await self._pace.wait_turn()
            began = time.perf_counter()
            try:
                parsed = await self._send_request(content)
            except ReplyError as error:
                ms = ms_since(began)
                if not error.retryable or attempt > self._options.retries:
                    problem = error.problem
                    if self._key:
                        problem = problem.replace(self._key, "[key]")
                    return error_answer(row.id, error.kind, problem, ms=ms, attempts=attempt)
                attempt += 1
                await asyncio.sleep(retry_wait(attempt, error.wait_s, row.id))
            else:
                return self._make_answer(row, parsed, ms_since(began), attempt)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _send_request(self, content: bytes) -> ChatCompletion:
        request = httpx.Request("POST", self._url, headers=self._headers, content=content)
        limit = self._options.timeout_s
        try:
            async with asyncio.timeout(limit), AsyncExitStack() as closing:
                response = await self._transport.handle_async_request(request)
                closing.push_async_callback(response.stream.aclose)  # type: ignore[union-attr] # both of httpx's transports stream asynchronously
                return await self._read_response(response)
        except TimeoutError:
            raise ReplyError("timeout", f"no answer within {limit:g} s", retryable=True) from None
        except httpx.TimeoutException as error:
            raise ReplyError("timeout", _error_text(error), retryable=True) from None
        except httpx.RemoteProtocolError as error:
            raise ReplyError("protocol", _error_text(error), retryable=True) from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            problem = f"cannot connect: {_error_text(error)}"
            raise ReplyError("http", problem, retryable=True) from None

    async def _read_response(self, response: httpx.Response) -> ChatCompletion:
        status = response.status_code
        kind = response.headers.get("content-type", "")
        stream = ChatStreamParser() if status == 200 and "event-stream" in kind else None
        held: list[bytes] = []
        size = 0
        async for piece in response.stream:  # type: ignore[union-attr] # see above
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise ReplyError("protocol", f"the response has more than {MAX_REPLY_BYTES} bytes")
            if stream is None:
                held.append(piece)
            else:
                stream.feed(piece)
        if stream is not None:
            return stream.build_completion()
        body = _decompress_body(response, b"".join(held))
        if 200 <= status < 300:
            return parse_completion(body)
        try:
            return parse_error(status, body)
        except ReplyError as error:
            error.wait_s = parse_retry_after(response.headers)
            raise

    def _make_answer(
        self, row: EvalRow, parsed: ChatCompletion, ms: float, attempts: int
    ) -> TargetAnswer:
        prompt_tokens, completion_tokens = parsed.prompt_tokens, parsed.completion_tokens
        options = self._options
        cost = (prompt_tokens * options.price_in + completion_tokens * options.price_out) / _MILLION
        return TargetAnswer(
            row_id=row.id,
            text=parsed.text,
            native=limit_size(parsed.native),
            ms=ms,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost=round(cost, 9),
            attempts=attempts,
        )


def _completions_url(url: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in {"http", "https"} or not address.host:
        raise TargetError(f"`{url}` is not an HTTP address", help="like `http://localhost:8000/v1`")
    path = address.path.rstrip("/")
    whole = path.endswith(_COMPLETIONS_PATH)
    return address if whole else address.copy_with(path=path + _COMPLETIONS_PATH)


def _fixed_fields(options: OpenAIOptions) -> dict[str, Any]:
    """Return the fields that are the same for every row."""
    fields: dict[str, Any] = {
        "model": options.model or "default",
        "temperature": options.temperature,
        "seed": options.seed,
        "max_tokens": options.max_tokens,
    }
    fixed = {name: value for name, value in fields.items() if value is not None}
    if options.stream:
        fixed |= {"stream": True, "stream_options": {"include_usage": True}}
    return fixed


def _make_transport(url: httpx.URL) -> httpx.AsyncBaseTransport:
    """Return a transport for direct connections, or for the proxy in the environment."""
    proxy = getproxies().get(url.scheme)
    if proxy is None or proxy_bypass(url.host):
        return ConnectionPool()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncHTTPTransport(proxy=proxy, limits=limits)


def _decompress_body(response: httpx.Response, body: bytes) -> bytes:
    """Return a body decompressed; some servers compress without being asked."""
    if "content-encoding" not in response.headers:
        return body
    try:
        return httpx.Response(200, headers=response.headers, content=body).content
    except httpx.DecodingError:
        raise ReplyError("protocol", "the response cannot be decompressed") from None


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


# Named as a string: `demur.testing` is a layer above evals.
_SERVER_MODULE = "demur.testing.model_server"
_READY_PREFIX = "listening on "
_START_TIMEOUT_S = 30.0


class LocalServerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the test server; `model` can name a fault to simulate."""

    persona: Literal["balanced", "over-refusing", "under-refusing", "echo"] = "balanced"
    latency_ms: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    model: str = ""
    system: str = ""
    stream: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None


class LocalServerTarget:
    """A persona of demur's test server, which runs as a process of its own.

    The server starts with the first row and ends with the run, even if the run is killed. Row
    labels are sent along, so that personas know how to behave.
    """

    def __init__(self, options: LocalServerOptions | None = None) -> None:
        self._options = LocalServerOptions() if options is None else options
        self._process: Process | None = None
        self._target: OpenAITarget | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """The persona's name."""
        return f"testing-{self._options.persona}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The persona and the request options."""
        names = ("persona", "model", "system", "stream")
        return {"kind": "testing-server", **{n: getattr(self._options, n) for n in names}}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the persona's answer."""
        async with self._starting:
            if self._target is None:
                url = await self._start_server()
                if not url.startswith("http"):
                    return error_answer(row.id, "target", f"the test server did not start: {url}")
                names = ("model", "system", "stream", "timeout_s", "retries", "rate")
                options = OpenAIOptions(**{name: getattr(self._options, name) for name in names})
                self._target = OpenAITarget(url, options, metadata=lambda row: {"label": row.label})
        return await self._target.answer(row)

    async def close(self) -> None:
        """End the server."""
        if self._target is not None:
            await self._target.close()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()

    async def _start_server(self) -> str:
        """Start the process; return its address, or its output if it failed."""
        words = ("--persona", self._options.persona, "--latency-ms", str(self._options.latency_ms))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _SERVER_MODULE,
            "--with-stdin",
            *words,
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=sys.platform != "win32",
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_TIMEOUT_S):
            line = (await self._process.stdout.readline()).decode(errors="replace")
        return one_line(line.strip()).removeprefix(_READY_PREFIX)
