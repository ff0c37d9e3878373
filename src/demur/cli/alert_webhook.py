"""Notify a webhook of alerts: build the message, deliver it with retries, remember deliveries.

With a state file, a rule is reported again only after its cooldown, and once more when it is over.
The URL of a webhook is often a secret, so messages show only its host.
"""

import argparse
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

from demur.cli.options import add_argument
from demur.errors import DemurError, InputError
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

_INITIAL_PAUSE_S = 0.5
_MAX_PAUSE_S = 60.0
_RETRIED_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_REJECTED_HELP = "check the URL and its key; nothing was lost: the alerts are printed"
_RETRY_HELP = "nothing was lost: the alerts are printed, and the next check sends them again"


class WebhookError(DemurError):
    """A webhook that did not accept a message."""


class _AttemptError(Exception):
    """A failed attempt; `pause_s` is set if a retry may help."""

    def __init__(self, problem: str, pause_s: float | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pause_s = pause_s


class _RefuseRedirects(HTTPRedirectHandler):
    """Refuses redirects: alerts go to the given URL only."""

    def redirect_request(self, *_args: object, **_named: object) -> None:
        """Return None, which makes a redirect an error."""


def read_secret(text: str) -> str:
    """Return a secret from the command line: the text itself, or the content of `@FILE`.

    Raises:
        InputError: The file cannot be read.
    """
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise InputError(f"cannot read the secret: {reason}", where=text[1:]) from error


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
            pause_s = max(failed.pause_s, _INITIAL_PAUSE_S * 2 ** (attempt - 1))
            sleep(min(pause_s, _MAX_PAUSE_S))
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
            again = (
                error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _RETRIED_STATUSES
            )
            pause_s = _parse_retry_after(error.headers.get("Retry-After")) if again else None
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


_FORMATS = ("json", "slack", "pagerduty")
_MAX_RETRIES = 10
_MAX_TIMEOUT_S = 120


def add_webhook_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `make_notifier` reads."""
    told = parser.add_argument_group("webhook")
    add_argument(told, "--webhook URL", "notify this URL, or the URL in a file: @FILE")
    add_argument(told, "--format", "the format of the message", choices=_FORMATS, default="json")
    add_argument(told, "--routing-key KEY", "the PagerDuty routing key, or @FILE")
    add_argument(told, "--origin NAME", "the name of this system in the message", default="")
    add_argument(told, "--state FILE", "the file that records deliveries, for cooldowns", type=Path)
    add_argument(told, "--timeout S", "seconds per attempt", type=float, default=10)
    add_argument(told, "--retries N", "retries after a failure", type=int, default=3)


def _check_webhook_options(args: argparse.Namespace) -> None:
    if args.webhook is None and (args.state is not None or args.routing_key is not None):
        raise InputError("--state and --routing-key need --webhook")
    if (args.format == "pagerduty") != (args.routing_key is not None) and args.webhook:
        raise InputError("--format pagerduty needs --routing-key, and no other format takes it")
    if not 0 < args.timeout <= _MAX_TIMEOUT_S:
        raise InputError(f"--timeout must be above 0 and at most {_MAX_TIMEOUT_S} seconds")
    if not 0 <= args.retries <= _MAX_RETRIES:
        raise InputError(f"--retries must be from 0 to {_MAX_RETRIES}")


class _WebhookMessage(NamedTuple):
    """A message to send, and the rules that it reports."""

    rules: frozenset[str]
    body: dict[str, Any]


def make_notifier(
    args: argparse.Namespace, now: datetime
) -> Callable[[Sequence[Alert]], None] | None:
    """Return the function that notifies the webhook, or None without `--webhook`.

    The options are checked here, before any rule is evaluated.

    Raises:
        InputError: An option or a file is invalid.
    """
    _check_webhook_options(args)
    if args.webhook is None:
        return None
    url = read_secret(args.webhook)
    mask_url(url)
    key = "" if args.routing_key is None else read_secret(args.routing_key)
    told = _read_state(args.state)

    def notify(alerts: Sequence[Alert]) -> None:
        notice = make_notice(alerts, told, now)
        sent, failures = _send_messages(_build_messages(notice, args, key), url, args)
        if args.state is not None:
            _write_state(args.state, _merge_deliveries(notice, told, sent))
        if failures:
            raise failures[0]

    return notify


def _build_messages(
    notice: AlertNotice, args: argparse.Namespace, key: str
) -> list[_WebhookMessage]:
    about = (*notice.alerts, *notice.resolved)
    if not about:
        return []
    if args.format == "pagerduty":
        events = pagerduty_events(notice, key, args.origin)
        return [
            _WebhookMessage(frozenset({alert.rule.id}), event)
            for alert, event in zip(about, events, strict=True)
        ]
    make = slack_message if args.format == "slack" else json_message
    return [_WebhookMessage(frozenset(alert.rule.id for alert in about), make(notice, args.origin))]


def _send_messages(
    letters: Sequence[_WebhookMessage], url: str, args: argparse.Namespace
) -> tuple[frozenset[str], list[WebhookError]]:
    """Return the rules that were delivered, and the errors."""
    sent: set[str] = set()
    failures: list[WebhookError] = []
    for letter in letters:
        body = json.dumps(letter.body, ensure_ascii=True).encode()
        try:
            post_json(url, body, timeout_s=args.timeout, retries=args.retries)
            sent |= letter.rules
        except WebhookError as error:
            failures.append(error)
    return frozenset(sent), failures


def _merge_deliveries(
    notice: AlertNotice, before: Mapping[str, AlertDelivery], sent: frozenset[str]
) -> dict[str, AlertDelivery]:
    """Return the new delivery state; a rule whose message failed keeps its old state."""
    waiting = {alert.rule.id for alert in (*notice.alerts, *notice.resolved)} - sent
    kept = {name: one for name, one in before.items() if name in waiting}
    return {**{name: one for name, one in notice.deliveries.items() if name not in waiting}, **kept}


def _read_state(path: Path | None) -> Mapping[str, AlertDelivery]:
    if path is None:
        return {}
    try:
        return load_deliveries(path.read_bytes(), str(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if isinstance(error, DemurError):
            raise
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot read the state: {reason}", where=str(path)) from error


def _write_state(path: Path, told: Mapping[str, AlertDelivery]) -> None:
    beside = path.with_name(f"{path.name}.new")
    try:
        # Replace the file in one step: an interrupted check leaves the old or the new state.
        beside.write_bytes(dump_deliveries(told))
        beside.replace(path)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot write the state: {reason}", where=str(path)) from error
