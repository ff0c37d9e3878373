"""What the service says about its calls: counts and times for metrics, and a line in a log.

A line names the pattern of the route and never the address itself, so that no id, no query and no
text of a caller is in it.
"""

import logging
import re
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TextIO

from starlette.types import Message, Receive, Scope, Send

from demur.gate.clock import Clock, format_timestamp
from demur.service.json_body import encode_json

if TYPE_CHECKING:
    from demur.observe.metrics import Metrics

# The place of a call's trace in its ASGI scope.
TRACE = "demur.trace"
UNROUTED = "_other"
_access_log = logging.getLogger("demur.access")
_TRACE_PARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class WatchedCall:
    """What is known of one call so far; its endpoint names the route and the caller."""

    __slots__ = ("caller", "route", "size", "status")

    def __init__(self) -> None:
        self.route = UNROUTED
        self.caller = ""
        self.status = 0
        self.size = 0


class CallWatch:
    """Counts and times the calls of an application, and logs each if `access_log` is set."""

    def __init__(
        self,
        metrics: "Metrics | None",
        *,
        access_log: bool,
        clock: Clock,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._metrics = metrics
        self._access_log = access_log
        self._clock = clock
        self._seconds = seconds

    async def watch_call(
        self, application: Application, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one call by `application`, and report it."""
        trace = scope[TRACE] = WatchedCall()
        began = self._seconds()

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                trace.status = message["status"]
            else:
                trace.size += len(message.get("body", b""))
            await send(message)

        try:
            await application(scope, receive, count)
        finally:
            self._report(scope, trace, self._seconds() - began)

    def _report(self, scope: Scope, trace: WatchedCall, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.count_call(trace.route, scope["method"], trace.status, seconds)
        if self._access_log:
            _access_log.info(self._format_line(scope, trace, seconds))

    def _format_line(self, scope: Scope, trace: WatchedCall, seconds: float) -> str:
        parents = (value for name, value in scope["headers"] if name == b"traceparent")
        parent = _TRACE_PARENT.fullmatch(next(parents, b""))
        line = {
            "time": format_timestamp(self._clock()),
            "method": scope["method"],
            "route": trace.route,
            # Nothing was sent if the caller hung up before.
            "status": trace.status or None,
            "ms": round(1000 * seconds, 2),
            "bytes": trace.size,
            "caller": trace.caller or None,
            "trace_id": parent and parent[1].decode(),
        }
        return encode_json(line).decode()


def open_access_log(stream: TextIO | None = None) -> None:
    """Write the access log to a stream, by default to the standard error, without other logs."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _access_log.handlers[:] = [handler]
    _access_log.setLevel(logging.INFO)
    _access_log.propagate = False
