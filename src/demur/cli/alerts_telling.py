"""Notify a webhook of alerts, in its own format.

With a state file, a rule is reported again only after its cooldown, and once more when it is over.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from demur.cli.alerts_webhook import WebhookError, post_json, read_secret, mask_url
from demur.errors import DemurError, InputError
from demur.observe.alerts.evaluate import Alert
from demur.observe.alerts.messages import json_message, pagerduty_events, slack_message
from demur.observe.alerts.notice import (
    AlertNotice,
    AlertDelivery,
    dump_deliveries,
    load_deliveries,
    make_notice,
)

__all__ = ["add_webhook_options", "make_notifier"]

_FORMATS = ("json", "slack", "pagerduty")
_MAX_RETRIES = 10
_MAX_TIMEOUT_S = 120


def add_webhook_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `make_notifier` reads."""
    told = parser.add_argument_group("webhook")
    told.add_argument(
        "--webhook", metavar="URL", help="notify this URL, or the URL in a file: @FILE"
    )
    told.add_argument(
        "--format", choices=_FORMATS, default="json", help="the format of the message"
    )
    told.add_argument("--routing-key", metavar="KEY", help="the PagerDuty routing key, or @FILE")
    told.add_argument(
        "--origin", default="", metavar="NAME", help="the name of this system in the message"
    )
    told.add_argument(
        "--state", type=Path, metavar="FILE", help="the file that records deliveries, for cooldowns"
    )
    told.add_argument("--timeout", type=float, default=10, metavar="S", help="seconds per attempt")
    told.add_argument("--retries", type=int, default=3, metavar="N", help="retries after a failure")


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

    def tell(alerts: Sequence[Alert]) -> None:
        notice = make_notice(alerts, told, now)
        sent, failures = _send_messages(_build_messages(notice, args, key), url, args)
        if args.state is not None:
            _write_state(args.state, _merge_deliveries(notice, told, sent))
        if failures:
            raise failures[0]

    return tell


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
