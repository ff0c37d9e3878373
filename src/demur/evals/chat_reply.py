"""Parse the replies of an OpenAI-compatible endpoint, and pace and retry requests to it.

A web page, half a stream or an empty list is an error, and never text. A provider that reports a
refusal has answered, even where it does so with an error status.
"""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from demur.errors import one_line, shorten
from demur.evals.target import ErrorKind
from demur.providers.normalization import normalize

_MAX_SHOWN = 160
_RETRYABLE_STATUSES = frozenset({408, 409, 425})


class ChatCompletion(NamedTuple):
    """A completion: its text, the response itself, and the token counts."""

    text: str
    native: Any
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ReplyError(Exception):
    """There is no answer; `retryable` says whether a retry may help."""

    def __init__(self, kind: ErrorKind, problem: str, *, retryable: bool = False) -> None:
        super().__init__(problem)
        self.kind, self.problem, self.retryable = kind, problem, retryable
        self.wait_s: float | None = None


def parse_completion(body: bytes) -> ChatCompletion:
    """Return the completion in the body of a successful response.

    Raises:
        ReplyError: The body holds no completion.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise ReplyError("protocol", _describe_body(body)) from None
    return parse_value(value)


def parse_value(value: Any) -> ChatCompletion:
    """Return the completion in a JSON value.

    Raises:
        ReplyError: The value is not a completion.
    """
    if not isinstance(value, dict):
        raise ReplyError("protocol", "the response is not a JSON object")
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        return _parse_error_body(value)
    first = choices[0]
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ReplyError("protocol", "the first choice has no message")
    content, refusal = (_content_text(message.get(name)) for name in ("content", "refusal"))
    text = content if refusal is None else content or refusal
    # Without a text, only the provider's own signal can say what happened.
    if text is None and normalize(value) is None:
        ended = one_line(str(first.get("finish_reason")))[:40]
        raise ReplyError("protocol", f"the message has no text; its finish reason is `{ended}`")
    return ChatCompletion(text or "", value, *_token_counts(value.get("usage")))


def parse_error(status: int, body: bytes) -> ChatCompletion:
    """Return the refusal in a response with an error status.

    Raises:
        ReplyError: The response is an error, not a refusal.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if 400 <= status < 429 and isinstance(value, dict):
        native = {"status_code": status, "body": value}
        refusal = normalize(native)
        if refusal is not None and refusal.decided:
            return ChatCompletion("", native)
    reason = _error_message(value) or _body_start(body)
    problem = f"status {status}" + (f": {reason}" if reason else "")
    if status == 429:
        raise ReplyError("rate_limit", problem, retryable=True)
    raise ReplyError("http", problem, retryable=status >= 500 or status in _RETRYABLE_STATUSES)


class ChatStreamParser:
    """Assembles the events of a stream into a complete response."""

    def __init__(self) -> None:
        self._held = b""
        self._text: dict[str, list[str]] = {"content": [], "refusal": []}
        self._choice: dict[str, Any] = {}
        self._value: dict[str, Any] = {"object": "chat.completion"}
        self._ended = False
        self._refusal: ChatCompletion | None = None

    def feed(self, piece: bytes) -> None:
        """Parse the next bytes.

        Raises:
            ReplyError: They are not events, or carry an error.
        """
        *lines, self._held = (self._held + piece).split(b"\n")
        for line in lines:
            self._parse_line(line.strip())

    def build_completion(self) -> ChatCompletion:
        """Return the complete response after the end of the stream.

        Raises:
            ReplyError: The stream ended too early, or holds no answer.
        """
        self._parse_line(self._held.strip())
        if self._refusal is not None:
            return self._refusal
        if not self._ended:
            raise ReplyError("protocol", "the stream stopped before its end", retryable=True)
        message = {name: "".join(parts) or None for name, parts in self._text.items()}
        if message["content"] is None and message["refusal"] is None:
            message["content"] = ""
        choice = {**self._choice, "message": {"role": "assistant", **message}}
        return parse_value({**self._value, "choices": [choice]})

    def _parse_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                self._ended = True
            else:
                try:
                    value = msgspec.json.decode(data)
                except (msgspec.DecodeError, RecursionError):
                    raise ReplyError("protocol", _describe_body(data)) from None
                if not isinstance(value, dict):
                    raise ReplyError("protocol", "an event of the stream is not a JSON object")
                self._add_chunk(value)
        elif line.startswith(b"<"):
            raise ReplyError("protocol", _describe_body(line))

    def _add_chunk(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error"):
            self._refusal = _parse_error_body(chunk)
        self._value |= {
            name: value
            for name, value in chunk.items()
            if name not in {"choices", "object"} and value is not None
        }
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            return
        delta = first.get("delta")
        for name, parts in self._text.items():
            if isinstance(delta, dict) and isinstance(delta.get(name), str):
                parts.append(delta[name])
        more = {name: value for name, value in first.items() if name != "delta"}
        self._choice |= {name: value for name, value in more.items() if value is not None}
        self._ended = self._ended or bool(first.get("finish_reason"))


def _parse_error_body(value: dict[str, Any]) -> ChatCompletion:
    """Return the refusal in an error body that came with a success status."""
    if value.get("error"):
        refusal = normalize(value)
        if refusal is not None and refusal.decided:
            return ChatCompletion("", value)
        raise ReplyError("http", f"an error with status 200: {_error_message(value) or 'no words'}")
    raise ReplyError("protocol", "the response has no choices")


def _content_text(content: Any) -> str | None:
    """Return the text of a message's content: a string, or a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def _token_counts(usage: Any) -> tuple[int, int]:
    if not isinstance(usage, Mapping):
        return 0, 0
    counts = map(usage.get, ("prompt_tokens", "completion_tokens"))
    sent, answered = (one if isinstance(one, int) and 0 <= one < 2**53 else 0 for one in counts)
    return sent, answered


def _error_message(value: Any) -> str:
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return _shorten_line(message) if isinstance(message, str) else ""


def _describe_body(body: bytes) -> str:
    if not body.strip():
        return "the response is empty"
    what = "a web page" if body.lstrip()[:1] == b"<" else "not JSON"
    return f"the response is {what}: {_body_start(body)}"


def _body_start(body: bytes) -> str:
    return _shorten_line(body[: 4 * _MAX_SHOWN].decode("utf-8", "replace"))


def _shorten_line(text: str) -> str:
    return shorten(one_line(" ".join(text.split())), _MAX_SHOWN)


MAX_WAIT_S = 60.0
_FIRST_WAIT_S = 0.5


def retry_wait(attempt: int, retry_after_s: float | None, key: str) -> float:
    """Return the seconds to wait before attempt number `attempt`, which is 2 for the first retry.

    The server's own request counts, up to a maximum. Otherwise the time doubles with each
    attempt, and a digest of `key` spreads requests that failed together.
    """
    if retry_after_s is not None:
        return min(retry_after_s, MAX_WAIT_S)
    drawn = hashlib.sha256(f"{attempt}\n{key}".encode(errors="replace")).digest()[0]
    whole: float = _FIRST_WAIT_S * 2 ** min(attempt - 2, 10)
    return min(whole * (0.5 + drawn / 510), MAX_WAIT_S)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, or None if it does not say.

    A date is compared with the server's own `Date`, so that clocks need not agree.
    """
    word = headers.get("retry-after", "").strip()
    seconds: float | None
    try:
        seconds = float(word)
    except ValueError:
        seconds = _seconds_between(headers.get("date", ""), word)
    # Ignore NaN and times in the past.
    return seconds if seconds is not None and seconds >= 0 else None


def _seconds_between(now: str, then: str) -> float | None:
    try:
        return (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds()
    except (TypeError, ValueError):
        return None


class RequestPace:
    """Spaces requests evenly, at most `per_second` in a second; None means no limit."""

    def __init__(self, per_second: float | None) -> None:
        self._gap = 0.0 if per_second is None else 1 / per_second
        self._next = 0.0

    async def wait_turn(self) -> None:
        """Wait until a request may be sent."""
        if not self._gap:
            return
        now = time.monotonic()
        mine = max(self._next, now)
        self._next = mine + self._gap
        await asyncio.sleep(mine - now)
