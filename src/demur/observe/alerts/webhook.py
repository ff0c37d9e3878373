"""Notify a webhook of alerts: build the message, deliver it with retries, remember deliveries.

With a state file, a rule is reported again only after its cooldown, and once more when it is over.
The URL of a webhook is often a secret, so messages show only its host.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from demur.errors import DemurError, InputError, error_reason
from demur.observe.alerts.evaluate import (
    Alert,
    AlertDelivery,
    AlertNotice,
    dump_deliveries,
    json_message,
    load_deliveries,
    make_notice,
    pagerduty_events,
    slack_message,
)
from demur.version import __version__

WEBHOOK_FORMATS = ("json", "slack", "pagerduty")
_INITIAL_PAUSE_S, _MAX_PAUSE_S = 0.5, 60.0
_RETRIED_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_REJECTED_HELP = "check the URL and its key; nothing was lost: the alerts are printed"
_RETRY_HELP = "nothing was lost: the alerts are printed, and the next check sends them again"


class WebhookError(DemurError):
    """A webhook that did not accept a message."""


class _AttemptError(Exception):
    """A failed attempt; `pause_s` is set if a retry may help."""

    def __init__(self, problem: str, pause_s: float | None) -> None:
        super().__init__(problem)
        self.problem, self.pause_s = problem, pause_s


class _RefuseRedirects(HTTPRedirectHandler):
    """Refuses redirects: alerts go to the given URL only."""

    def redirect_request(self, *_args: object, **_named: object) -> None:
        """Return None, which makes a redirect an error."""


def mask_url(url: str) -> str:
    """Return the URL without its secret part: scheme and host.

    Raises:
        InputError: It is not an HTTP URL.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
        parts = urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not host or not plain:
        raise InputError("the webhook is not a URL", help="it begins with https:// or http://")
    return f"{parts.scheme}://{host}/…"


def post_json(
    url: str,
    body: bytes,
    *,
    timeout_s: float,
    retries: int,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send a JSON document; return how many attempts it took.

    Raises:
        WebhookError: No attempt succeeded.
    """
    where, attempt = mask_url(url), 0
    while True:
        attempt += 1
        try:
            _post_once(url, body, timeout_s)
        except _AttemptError as failed:
            if failed.pause_s is None:
                raise WebhookError(failed.problem, where=where, help=_REJECTED_HELP) from None
            if attempt > retries:
                times = "once" if attempt == 1 else f"{attempt} times"
                tried = f"{failed.problem} (tried {times})"
                raise WebhookError(tried, where=where, help=_RETRY_HELP) from None
            sleep(min(max(failed.pause_s, _INITIAL_PAUSE_S * 2 ** (attempt - 1)), _MAX_PAUSE_S))
        else:
            return attempt


def _post_once(url: str, body: bytes, timeout_s: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": f"demur/{__version__}"}
    request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - `mask_url` checked the scheme
    try:
        with build_opener(_RefuseRedirects).open(request, timeout=timeout_s):
            return
    except HTTPError as error:
        with error:
            retry = error.code >= 500 or error.code in _RETRIED_STATUSES
            pause_s = _parse_retry_after(error.headers.get("Retry-After")) if retry else None
        raise _AttemptError(f"the webhook answered {error.code}", pause_s) from None
    except (HTTPException, OSError, ValueError) as error:
        raise _AttemptError(_describe_failure(error, timeout_s), 0) from None


def _describe_failure(error: Exception, timeout_s: float) -> str:
    """Return why there was no answer, without the text of the error, which may quote the URL."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"the webhook did not answer in {timeout_s:g} s"
    why = getattr(reason, "strerror", None) or type(reason).__name__
    return f"the webhook cannot be reached: {str(why).lower()}"


def _parse_retry_after(value: str | None) -> float:
    """Return the seconds of a `Retry-After` header; 0 for a date or anything else."""
    text = (value or "").strip()
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0


class AlertWebhook(NamedTuple):
    """A webhook that gets alerts.

    `format` is one of `WEBHOOK_FORMATS`; `routing_key` belongs to PagerDuty; `origin` names this
    system in the messages.
    """

    url: str
    format: str = "json"
    routing_key: str = ""
    origin: str = ""
    timeout_s: float = 10
    retries: int = 3

    def notify(self, alerts: Sequence[Alert], now: datetime, state: Path | None = None) -> None:
        """Send what `alerts` changed since the deliveries in the file `state`, and update it.

        Raises:
            InputError: The file cannot be read or written.
            WebhookError: The webhook did not accept a message; the others were sent.
        """
        before = {} if state is None else read_deliveries(state)
        notice = make_notice(alerts, before, now)
        pending = {alert.rule.id for alert in (*notice.alerts, *notice.resolved)}
        failures = []
        for rules, message in self._build_messages(notice):
            body = json.dumps(message, ensure_ascii=True).encode()
            try:
                post_json(self.url, body, timeout_s=self.timeout_s, retries=self.retries)
                pending -= rules
            except WebhookError as error:
                failures.append(error)
        if state is not None:
            # A rule whose message failed keeps its old state.
            after = {name: one for name, one in notice.deliveries.items() if name not in pending}
            kept = {name: one for name, one in before.items() if name in pending}
            _write_deliveries(state, {**after, **kept})
        if failures:
            raise failures[0]

    def _build_messages(self, notice: AlertNotice) -> list[tuple[set[str], dict[str, Any]]]:
        """Return each message with the rules that it reports."""
        rules = [alert.rule.id for alert in (*notice.alerts, *notice.resolved)]
        if not rules:
            return []
        if self.format == "pagerduty":
            events = pagerduty_events(notice, self.routing_key, self.origin)
            return [({rule}, event) for rule, event in zip(rules, events, strict=True)]
        make = slack_message if self.format == "slack" else json_message
        return [(set(rules), make(notice, self.origin))]


def read_deliveries(path: Path) -> Mapping[str, AlertDelivery]:
    """Return the deliveries in a state file, or none if it does not exist.

    Raises:
        InputError: demur cannot read the file.
    """
    try:
        return load_deliveries(path.read_bytes(), str(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if isinstance(error, DemurError):
            raise
        problem = f"cannot read the state: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error


def _write_deliveries(path: Path, deliveries: Mapping[str, AlertDelivery]) -> None:
    draft = path.with_name(f"{path.name}.new")
    try:
        # Replace the file in one step: an interrupted check leaves the old or the new state.
        draft.write_bytes(dump_deliveries(deliveries))
        draft.replace(path)
    except OSError as error:
        problem = f"cannot write the state: {error_reason(error)}"
        raise InputError(problem, where=str(path)) from error
