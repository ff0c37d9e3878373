"""Notices of requests for approval: which is due, what it says, and its delivery to a webhook.

A request that begins to wait, one that goes to the next group, and, on demand, one that closes is
one notice each. The row of the request keeps its last notice, so that of several processes one
sends it, and one that failed is sent again after a restart. A notice names the action and the
reasons; it names people only if the settings allow it, and never what they wrote.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from demur.codes.registry import Registry
from demur.errors import InputError, one_line, shorten
from demur.gate.approvals import ApprovalSettings
from demur.gate.clock import Clock, format_timestamp, system_clock
from demur.observe.alerts.evaluate import escape_slack, slack_section
from demur.observe.alerts.webhook import WebhookError, post_json
from demur.store.rows import ApprovalRow, ApprovalState
from demur.store.store import Store

_log = logging.getLogger("demur")
_TIMEOUT_S = 10.0
# A process that began to send this long ago is gone.
_LEASE = timedelta(seconds=60)
_INITIAL_PAUSE_S, _MAX_PAUSE_S, _MAX_DOUBLINGS = 5.0, 900.0, 8
_CLOSED_SINCE = timedelta(days=1)
_MAX_ACTION_LENGTH = 120
_CARD = "application/vnd.microsoft.card.adaptive"
_CARD_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_MARKDOWN = re.compile(r"([\\`*_\[\]()<>#~|!])")

NoticeEvent = Literal["waiting", "escalated", "closed"]


class NoticeState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last notice of a request, as its row keeps it in `notified`."""

    notice: str
    status: Literal["sending", "sent", "failed"]
    attempts: int
    at: str
    problem: str = ""


def read_notice_state(row: ApprovalRow) -> NoticeState | None:
    """Return the last notice of a request, or None if there was none."""
    try:
        return msgspec.json.decode(row.notified, type=NoticeState)
    except msgspec.MsgspecError:
        return None


def find_due_notice(row: ApprovalRow, settings: ApprovalSettings, now: datetime) -> str | None:
    """Return the notice of a request that is due, or None."""
    last = read_notice_state(row)
    if row.state == ApprovalState.WAITING:
        wanted = f"waiting:{row.group_name}"
        is_wanted = row.expires_at > format_timestamp(now)
    else:
        wanted = f"closed:{row.state}"
        # An end without a beginning tells nobody anything.
        is_wanted = settings.notify_closed and last is not None
    if not is_wanted:
        return None
    if last is None or last.notice != wanted:
        return wanted
    if last.status == "sent":
        return None
    pause = _LEASE if last.status == "sending" else _pause_after(last.attempts)
    return wanted if datetime.fromisoformat(last.at) + pause <= now else None


def _pause_after(attempts: int) -> timedelta:
    doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
    return timedelta(seconds=min(_INITIAL_PAUSE_S * 2**doublings, _MAX_PAUSE_S))


class NoticeText(NamedTuple):
    """What a notice says; `requester` and `closed_by` are empty unless people may be named."""

    event: NoticeEvent
    row: ApprovalRow
    reasons: tuple[tuple[str, str], ...]
    link: str
    requester: str = ""
    closed_by: str = ""

    @property
    def headline(self) -> str:
        """The notice in one line."""
        action = shorten(one_line(self.row.action_type), _MAX_ACTION_LENGTH)
        if self.event == "closed":
            by = f" by {one_line(self.closed_by)}" if self.closed_by else ""
            return f"{self.row.state.capitalize()}{by}: {action}"
        if self.event == "escalated":
            return f"Nobody answered, so now {self.row.group_name} decides: {action}"
        return f"Waits for approval: {action}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the facts of the notice by their names."""
        row = self.row
        if self.requester:
            yield "Asked by", one_line(self.requester)
        yield "Tenant", one_line(row.tenant)
        yield "Reasons", "; ".join(f"{title} ({code})" for code, title in self.reasons)
        if self.event == "closed":
            yield "Ended", row.closed_at or ""
            return
        if row.group_name:
            yield "Group", row.group_name
        if row.needed > 1:
            yield "Needs", f"{row.needed} different people"
        yield "Asked at", row.requested_at
        yield "Ends at", row.expires_at


def make_notice_text(
    row: ApprovalRow, settings: ApprovalSettings, registry: Registry, requester: str = ""
) -> NoticeText:
    """Return what the notice of a request says, with a link to its page."""
    event: NoticeEvent = "waiting"
    if row.state != ApprovalState.WAITING:
        event = "closed"
    elif row.group_name in settings.groups[1:]:
        event = "escalated"
    known = (
        (code, registry[code].title if code in registry else code) for code in row.reason_codes
    )
    link = f"{settings.link.rstrip('/')}/approvals/{quote(row.decision_id, safe='')}"
    names = (requester, row.closed_by) if settings.name_people else ("", "")
    return NoticeText(event, row, tuple(known), link, *names)


def build_notice(text: NoticeText, style: str) -> dict[str, Any]:
    """Return the message for a webhook of one of the formats `json`, `slack` and `teams`."""
    return {"slack": _slack_notice, "teams": _teams_notice}.get(style, _json_notice)(text)


def _json_notice(text: NoticeText) -> dict[str, Any]:
    row = text.row
    people = {"requester": text.requester, "closed_by": text.closed_by}
    end = row.group_name if text.event != "closed" else row.state
    return {
        "schema_version": "approval_notice.v1",
        # The same notice keeps its id when it is sent again.
        "notice_id": f"{row.decision_id}:{text.event}:{end}",
        "event": text.event,
        "decision_id": row.decision_id,
        "tenant": row.tenant,
        "action": row.action_type,
        "reasons": [{"code": code, "title": title} for code, title in text.reasons],
        "state": row.state,
        "needed": row.needed,
        "group": row.group_name,
        "requested_at": row.requested_at,
        "expires_at": row.expires_at,
        "closed_at": row.closed_at,
        "link": text.link,
        **{name: value for name, value in people.items() if value},
    }


def _slack_notice(text: NoticeText) -> dict[str, Any]:
    head = escape_slack(text.headline)
    lines = [f"*{name}* {escape_slack(value)}" for name, value in text.facts()]
    body = "\n".join([f"*{head}*", *lines, f"<{text.link}|Open the request>"])
    return {"text": f"demur: {head}", "blocks": [slack_section(body)]}


def _teams_notice(text: NoticeText) -> dict[str, Any]:
    facts = [{"title": name, "value": _escape_markdown(value)} for name, value in text.facts()]
    title = {"type": "TextBlock", "size": "Medium", "weight": "Bolder", "wrap": True}
    card = {
        "$schema": _CARD_SCHEMA,
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {**title, "text": _escape_markdown(text.headline)},
            {"type": "FactSet", "facts": facts},
        ],
        "actions": [{"type": "Action.OpenUrl", "title": "Open the request", "url": text.link}],
    }
    attachment = {"contentType": _CARD, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _escape_markdown(text: str) -> str:
    """Return text escaped for the Markdown of cards: no links, no mentions."""
    return _MARKDOWN.sub(r"\\\1", text)


class NoticeDelivery:
    """Delivers the notices of a store to the webhook of the settings.

    Any number of processes may share a store. Each attempt calls `count` with its result. An
    outage is logged when it begins and when it ends.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: ApprovalSettings,
        *,
        clock: Clock = system_clock,
        count: Callable[[str], None] = lambda _: None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._store, self._registry, self._settings = store, registry, settings
        self._clock, self._count, self._timeout_s = clock, count, timeout_s
        self._failed = False

    def deliver_due(self) -> Mapping[str, int]:
        """Send what is due; return how many notices were sent, and how many failed.

        After one failure it stops until the next call: the others go to the same address.

        Raises:
            StorageError: The store does not answer.
        """
        results = {"sent": 0, "failed": 0}
        if not self._settings.webhook:
            return results
        for row in self._open_rows():
            result = self._deliver(row)
            if result is not None:
                results[result] += 1
                self._count(result)
            if result == "failed":
                break
        return results

    def _open_rows(self) -> Iterator[ApprovalRow]:
        after = ""
        while page := self._store.list_open_approvals(after):
            yield from page
            after = page[-1].decision_id
        if self._settings.notify_closed:
            since = format_timestamp(self._clock() - _CLOSED_SINCE)
            yield from self._store.list_closed_approvals(since)

    def _deliver(self, row: ApprovalRow) -> Literal["sent", "failed"] | None:
        """Return the result, or None if nothing is due or another process sends it."""
        now = self._clock()
        notice = find_due_notice(row, self._settings, now)
        if notice is None:
            return None
        last = read_notice_state(row)
        attempts = 1 + (last.attempts if last is not None and last.notice == notice else 0)
        state = NoticeState(
            notice=notice, status="sending", attempts=attempts, at=format_timestamp(now)
        )
        # INVARIANT: of several processes, one sends a notice.
        claimed = self._save(row, state)
        if claimed is None:
            return None
        problem = self._post(row)
        status: Literal["sent", "failed"] = "failed" if problem else "sent"
        ended = msgspec.structs.replace(
            state, status=status, at=format_timestamp(self._clock()), problem=problem
        )
        self._save(claimed, ended)
        self._log(problem)
        return status

    def _save(self, row: ApprovalRow, state: NoticeState) -> ApprovalRow | None:
        text = msgspec.json.encode(state).decode()
        return row._replace(notified=text) if self._store.claim_notice(row, text) else None

    def _post(self, row: ApprovalRow) -> str:
        """Send one notice; return what went wrong, or an empty text."""
        try:
            text = make_notice_text(row, self._settings, self._registry, self._requester(row))
            body = msgspec.json.encode(build_notice(text, self._settings.format))
            post_json(self._settings.webhook, body, timeout_s=self._timeout_s, retries=0)
        except WebhookError as error:
            # Attempts are counted here.
            return error.problem.removesuffix(" (tried once)")
        return ""

    def _requester(self, row: ApprovalRow) -> str:
        if not self._settings.name_people:
            return ""
        record = self._store.get(row.decision_id, row.tenant)
        try:
            personal = None if record is None else record.personal
        except InputError:
            return ""
        return "" if personal is None else personal.requester or ""

    def _log(self, problem: str) -> None:
        if problem and not self._failed:
            _log.error("cannot deliver notices of approvals: %s", problem)
        elif self._failed and not problem:
            _log.warning("demur delivers notices of approvals again")
        self._failed = bool(problem)
