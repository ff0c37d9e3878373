"""Call a model over HTTP with the standard library: kept connections, retries, signed requests.

Nothing that is sent or received appears in an error: texts and keys are confidential.
"""

import base64
import hashlib
import hmac
import io
import json
import os
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from demur.listener import is_loopback
from demur.scorers.contract import ScorerError
from demur.version import __version__

MAX_REPLY_BYTES = 4_000_000
_RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# The server works, and does not take this request.
_REJECTED_STATUSES = frozenset({400, 413, 422})
_INITIAL_PAUSE_S, _MAX_PAUSE_S = 0.2, 5.0
# A kept connection that the server closed meanwhile is opened again without counting as a retry.
_STALE_ERRORS = (ConnectionError, HTTPException)


class HttpReply(NamedTuple):
    """The status, the seconds that the server asks to wait, and the body of a reply."""

    status: int
    wait_s: float
    body: bytes


def system_jitter() -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class _Proxy(NamedTuple):
    """The host and port of a proxy, and the headers that it wants."""

    host: str
    port: int
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        # A traceback with its values must not show a password.
        return f"{type(self).__name__}(...)"


# Returns the headers of one request, given its path and its body.
MakeHeaders = Callable[[str, bytes], Mapping[str, str]]


class TooLargeReplyError(Exception):
    """A reply has more bytes than any verdict needs."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline, however little comes at a time."""

    def __init__(
        self, sock: socket.socket, deadline: float, monotonic: Callable[[], float]
    ) -> None:
        super().__init__()
        self._sock, self._raw = sock, sock.makefile("rb", buffering=0)
        self._deadline, self._monotonic = deadline, monotonic

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        # The socket stays open as long as this file is.
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    """A response that must be read by a deadline: a timeout of a socket is one of each read."""

    def __init__(
        self,
        sock: socket.socket,
        *args: Any,
        deadline: float,
        monotonic: Callable[[], float],
        **more: Any,
    ) -> None:
        super().__init__(sock, *args, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, deadline, monotonic))


class JsonClient:
    """Posts JSON to one address. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        make_headers: MakeHeaders,
        *,
        retries: int = 1,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = system_jitter,
    ) -> None:
        parts = urlsplit(url)
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_secure else 80)
        self._base = parts.path.rstrip("/")
        self._make_headers = make_headers
        self._retries = retries
        self._monotonic, self._sleep, self._jitter = monotonic, sleep, jitter
        self._free: list[HTTPConnection] = []
        # A client that nobody holds any more leaves no open connection.
        self._finalizer = weakref.finalize(self, _close_connections, self._free)
        self._lock, self._process = Lock(), os.getpid()
        self._context: ssl.SSLContext | None = None

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        deadline: float,
        *,
        admit: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return the JSON of a reply; `deadline` is a time of the monotonic clock.

        `admit` is called before each attempt, and raises if there may be none.

        Raises:
            ScorerError: There was no usable reply in that time, after all retries.
        """
        content = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode()
        attempt, failure = 0, None
        while True:
            attempt += 1
            if deadline <= self._monotonic():
                raise ScorerError("timeout", "it took too long")
            try:
                admit()
            except ScorerError as refused:
                # A retry that may not be made fails for the reason that called for it.
                raise failure or refused from None
            found = self._attempt(self._base + path, content, deadline)
            if isinstance(found, HttpReply):
                return _parse_json(found.body)
            failure, wait_s = found
            pause_s = self._pause(attempt, wait_s)
            if attempt > self._retries or self._monotonic() + pause_s >= deadline:
                raise failure
            self._sleep(pause_s)

    def _attempt(
        self, path: str, content: bytes, deadline: float
    ) -> HttpReply | tuple[ScorerError, float]:
        """Return a reply, or a failure that may be over after some seconds, and how many.

        Raises:
            ScorerError: Another attempt would fail in the same way.
        """
        try:
            reply = self._send(path, content, deadline)
        except TimeoutError:
            raise ScorerError("timeout", "it took too long") from None
        except TooLargeReplyError:
            problem = f"the reply has more than {MAX_REPLY_BYTES:,} bytes"
            raise ScorerError("invalid_reply", problem, "check `url`") from None
        except (HTTPException, OSError) as error:
            return ScorerError("unreachable", *_describe_failure(error)), 0.0
        if 200 <= reply.status < 300:
            return reply
        if reply.status not in _RETRIED_STATUSES:
            raise _status_error(reply.status)
        return _status_error(reply.status), reply.wait_s

    def _pause(self, attempt: int, wait_s: float) -> float:
        """Return the seconds before the next attempt, spread so that callers do not meet again."""
        grown = min(_INITIAL_PAUSE_S * float(1 << (attempt - 1)), _MAX_PAUSE_S)
        return max(wait_s, grown * (0.5 + self._jitter()))

    def _send(self, path: str, content: bytes, deadline: float) -> HttpReply:
        connection, is_kept = self._acquire(deadline)
        try:
            return self._exchange(connection, path, content, deadline)
        except _STALE_ERRORS:
            connection.close()
            if not is_kept:
                raise
        except BaseException:
            connection.close()
            raise
        fresh = self._open(deadline)
        try:
            return self._exchange(fresh, path, content, deadline)
        except BaseException:
            fresh.close()
            raise

    def _exchange(
        self, connection: HTTPConnection, path: str, content: bytes, deadline: float
    ) -> HttpReply:
        timed = partial(_TimedResponse, deadline=deadline, monotonic=self._monotonic)
        connection.response_class = timed  # type: ignore[assignment] # it makes a response, too
        target, proxy_headers = self._address_proxy(connection, path)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"demur/{__version__}",
            **self._make_headers(path, content),
            **proxy_headers,
        }
        connection.request("POST", target, content, headers)
        response = connection.getresponse()
        body = response.read(MAX_REPLY_BYTES + 1)
        if len(body) > MAX_REPLY_BYTES:
            raise TooLargeReplyError
        if response.length:
            # The server closed the connection before the end of its reply.
            raise ConnectionResetError
        reply = HttpReply(response.status, _parse_wait(response.headers.get("Retry-After")), body)
        if response.will_close:
            connection.close()
        else:
            self._release(connection)
        return reply

    def _acquire(self, deadline: float) -> tuple[HTTPConnection, bool]:
        with self._lock:
            if self._process != os.getpid():
                # After a fork, parent and child must not write to one socket.
                self._free.clear()
                self._process = os.getpid()
            kept = self._free.pop() if self._free else None
        if kept is None or kept.sock is None:
            return self._open(deadline), False
        kept.sock.settimeout(self._time_left(deadline))
        return kept, True

    def _time_left(self, deadline: float) -> float:
        """Return the seconds until a deadline; never 0, which is no timeout for a socket."""
        return max(0.001, deadline - self._monotonic())

    def _release(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._free.append(connection)

    def _open(self, deadline: float) -> HTTPConnection:
        timeout_s = self._time_left(deadline)
        proxy = self._find_proxy()
        host, port = (self._host, self._port) if proxy is None else proxy[:2]
        if not self._is_secure:
            return HTTPConnection(host, port, timeout=timeout_s)
        if self._context is None:
            self._context = ssl.create_default_context()
        secure = HTTPSConnection(host, port, timeout=timeout_s, context=self._context)
        if proxy is not None:
            secure.set_tunnel(self._host, self._port, proxy.headers)
        return secure

    def _find_proxy(self) -> "_Proxy | None":
        """Return the proxy that the environment names, or None; none leads to this machine."""
        address = getproxies().get("https" if self._is_secure else "http")
        if not address or is_loopback(self._host) or proxy_bypass(self._host):
            return None
        parts = urlsplit(address if "//" in address else f"//{address}")
        headers = {}
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            word = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers["Proxy-Authorization"] = f"Basic {word}"
        return _Proxy(parts.hostname or "", parts.port or 80, headers)

    def _address_proxy(
        self, connection: HTTPConnection, path: str
    ) -> tuple[str, Mapping[str, str]]:
        """Return what a request asks for, and headers for a proxy, which only tunnels HTTPS."""
        if self._is_secure or (connection.host, connection.port) == (self._host, self._port):
            return path, {}
        proxy = self._find_proxy()
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}{path}", {} if proxy is None else proxy.headers

    def close(self) -> None:
        """Close all kept connections."""
        with self._lock:
            _close_connections(self._free)


def _close_connections(connections: list[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ScorerError("invalid_reply", "the reply is no JSON") from None


def _status_error(status: int) -> ScorerError:
    if status in {401, 403}:
        help_text = "check the key in the environment variable that `api_key_env` names"
        return ScorerError("unreachable", f"the model refused the key: HTTP {status}", help_text)
    if status in _REJECTED_STATUSES:
        problem = f"the model rejected the text: HTTP {status}"
        help_text = "check `url` and `model`, and whether `max_length` is too long for it"
        return ScorerError("invalid_reply", problem, help_text)
    help_text = _STATUS_HELP.get(status // 100 if status // 100 == 3 else status, "")
    return ScorerError("unreachable", f"the model answered HTTP {status}", help_text)


# A redirect is not followed: the key and the text are meant for one host.
_STATUS_HELP = {
    3: "set `url` to the address that the redirect leads to; demur follows none",
    404: "check `model` and `url`, which ends with `/v1` for most servers of models",
    405: "check `url`",
}


def _describe_failure(error: Exception) -> tuple[str, str]:
    """Return why there was no answer, without the error's own words, and what to do."""
    if isinstance(error, ssl.SSLError):
        return "its certificate cannot be used", "see `SSL_CERT_FILE` for a certificate of your own"
    if isinstance(error, socket.gaierror):
        return "its host is not known", "check `url`"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens at its address", "start the model, or check `url`"
    if isinstance(error, ConnectionError):
        return "the connection broke", ""
    if isinstance(error, HTTPException):
        return "its reply is no HTTP", "check `url`"
    return "it cannot be reached", "check `url`"


def _parse_wait(value: str | None) -> float:
    """Return the seconds of a `Retry-After` header; 0 for a date or anything else."""
    with suppress(ValueError):
        seconds = float(value or 0)
        return seconds if 0 <= seconds < 1e6 else 0.0
    return 0.0


# -- Amazon's signature ------------------------------------------------------------------------


class AwsCredentials(NamedTuple):
    """An access key of AWS, as the usual environment variables hold it."""

    access_key: str
    secret_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        # A traceback with its values must not show keys.
        return f"{type(self).__name__}(...)"


def sign_aws_request(
    credentials: AwsCredentials,
    *,
    method: str,
    host: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    region: str,
    service: str,
    now: datetime,
    query: str = "",
) -> dict[str, str]:
    """Return the headers that sign a request by AWS Signature Version 4."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {**{name.lower(): value for name, value in headers.items()}, "host": host}
    signed["x-amz-date"] = stamp
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            method,
            # Each part of the path is quoted once more: services other than S3 want it so.
            quote(path, safe="/-_.~"),
            query,
            *(f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    sent = {name: value for name, value in signed.items() if name.startswith("x-amz-")}
    return {**sent, "Authorization": authorization}
