"""Any endpoint with the chat completions of OpenAI as the thing under test.

Requests that fail for a while are sent again, within bounds and on record. The key is read
from the environment when it is needed, and stands in no setting, answer or message.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec

from demur.evals.answer import TargetAnswer, limit_size, error_answer
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetError
from demur.evals.targets.backoff import parse_retry_after, retry_wait
from demur.evals.targets.chat_reply import (
    ChatCompletion,
    ReplyError,
    ChatStreamParser,
    parse_completion,
    parse_error,
)
from demur.evals.targets.lanes import ConnectionPool
from demur.evals.targets.pace import RequestPace
from demur.evals.targets.timing import ms_since

__all__ = ["OpenAITarget", "OpenAIOptions"]

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
        self._key = _read_key(options.api_key_env)
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
        content = self._encode_request(row)
        attempt = 1
        while True:
            await self._pace.wait_turn()
            began = time.perf_counter()
            try:
                parsed = await self._send_request(content)
            except ReplyError as error:
                ms = ms_since(began)
                if not error.retryable or attempt > self._options.retries:
                    problem = self._redact_key(error.problem)
                    return error_answer(row.id, error.kind, problem, ms=ms, attempts=attempt)
                attempt += 1
                await asyncio.sleep(retry_wait(attempt, error.wait_s, row.id))
            else:
                return self._make_answer(row, parsed, ms_since(began), attempt)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _encode_request(self, row: EvalRow) -> bytes:
        words = [{"role": "user", "content": row.prompt}]
        if self._options.system:
            words.insert(0, {"role": "system", "content": self._options.system})
        more = {} if self._metadata is None else {"metadata": self._metadata(row)}
        return self._encode({**self._fixed, **more, "messages": words})

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
            raise ReplyError(
                "http", f"cannot connect: {_error_text(error)}", retryable=True
            ) from None

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
        if 200 <= status < 300:
            return parse_completion(_decompress_body(response, b"".join(held)))
        return self._parse_failure(response, _decompress_body(response, b"".join(held)))

    @staticmethod
    def _parse_failure(response: httpx.Response, body: bytes) -> ChatCompletion:
        try:
            return parse_error(response.status_code, body)
        except ReplyError as error:
            error.wait_s = parse_retry_after(response.headers)
            raise

    def _make_answer(
        self, row: EvalRow, parsed: ChatCompletion, ms: float, attempts: int
    ) -> TargetAnswer:
        asked, answered = parsed.prompt_tokens, parsed.completion_tokens
        options = self._options
        cost = (asked * options.price_in + answered * options.price_out) / _MILLION
        return TargetAnswer(
            row_id=row.id,
            text=parsed.text,
            native=limit_size(parsed.native),
            ms=ms,
            prompt_tokens=asked,
            completion_tokens=answered,
            cost=round(cost, 9),
            attempts=attempts,
        )

    def _redact_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _completions_url(url: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in {"http", "https"} or not address.host:
        raise TargetError(f"`{url}` is not an HTTP address", help="like `http://localhost:8000/v1`")
    path = address.path.rstrip("/")
    return (
        address
        if path.endswith(_COMPLETIONS_PATH)
        else address.copy_with(path=path + _COMPLETIONS_PATH)
    )


def _read_key(variable: str) -> str:
    key = os.environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise TargetError(
            f"the environment variable `{variable}` is not set",
            help="set it to the API key of the endpoint",
        )
    if not key.isascii() or not key.isprintable():
        raise TargetError(f"the environment variable `{variable}` does not hold a key")
    return key


def _fixed_fields(options: OpenAIOptions) -> dict[str, Any]:
    """Return the fields that are the same for every row."""
    given: dict[str, Any] = {
        "model": options.model or "default",
        "temperature": options.temperature,
        "seed": options.seed,
        "max_tokens": options.max_tokens,
    }
    fixed = {name: value for name, value in given.items() if value is not None}
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
