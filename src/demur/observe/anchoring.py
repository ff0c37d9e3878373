"""Deliver anchors of the chains to a file or an address, once or on a schedule."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from demur.audit.anchors import append_anchor, write_anchor
from demur.gate.clock import Clock, format_timestamp, system_clock
from demur.grants import SigningKey
from demur.observe.alerts.webhook import WebhookError, mask_url, post_json
from demur.observe.schedule import Schedule
from demur.store.store import Store

_POST_TIMEOUT_S, _POST_RETRIES = 10.0, 3


class DeliveredAnchor(NamedTuple):
    """Where an anchor went, its time, and how many heads it holds."""

    place: str
    created_at: str
    heads: int


def deliver_anchor(store: Store, key: SigningKey, target: str, now: datetime) -> DeliveredAnchor:
    """Sign the heads of a store, and append them to a file or send them to a URL.

    Raises:
        InputError: The file cannot be written, or it is no HTTP URL.
        StorageError: The store cannot be read.
        WebhookError: The address did not accept it.
    """
    heads, created_at = store.list_heads(durable=True), format_timestamp(now)
    line = write_anchor(heads, created_at, key)
    if "://" not in target:
        append_anchor(Path(target), line)
        return DeliveredAnchor(target, created_at, len(heads))
    place = mask_url(target)
    try:
        post_json(target, line, timeout_s=_POST_TIMEOUT_S, retries=_POST_RETRIES)
    except WebhookError as error:
        help_text = "the next anchor covers what this one would have"
        raise WebhookError(error.problem, where=error.where, help=help_text) from error
    return DeliveredAnchor(place, created_at, len(heads))


class AnchorSchedule(Schedule):
    """Delivers an anchor at once and then every `every_s` seconds, until it is stopped."""

    def __init__(
        self,
        store: Store,
        key: SigningKey,
        target: str,
        every_s: float,
        *,
        clock: Clock = system_clock,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        def deliver() -> str:
            return deliver_anchor(store, key, target, clock()).place

        words = ("the chains cannot be anchored", "the chains are anchored again")
        super().__init__(deliver, every_s, name="demur-anchors", words=words, wait=wait)
