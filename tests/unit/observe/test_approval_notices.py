"""Notices of approvals: when one is due, what it says, and its delivery to a real server."""

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import NOON, gate_over, refund
from support.people import add_person
from support.webhook_server import SECRET_PATH, Hook, hook

from demur.codes.loading import default_registry
from demur.gate.approvals import ApprovalSettings
from demur.gate.clock import format_timestamp
from demur.gate.gate import Gate
from demur.observe.approval_notices import (
    NoticeDelivery,
    NoticeState,
    build_notice,
    find_due_notice,
    make_notice_text,
    read_notice_state,
)
from demur.store.opening import open_store
from demur.store.rows import ApprovalRow, ApprovalVote
from demur.store.store import Store

LINK = "https://demur.example.com/"
SETTINGS = ApprovalSettings(webhook="https://hooks.example.com/x", link=LINK)
GROUPS = msgspec.structs.replace(SETTINGS, groups=("desk", "leads"))
CLOSING = msgspec.structs.replace(SETTINGS, notify_closed=True)
ROW = ApprovalRow(
    decision_id="01KA",
    tenant="acme",
    action_type="refund",
    reason_codes=("REFUND_OVER_ESCALATION_LIMIT",),
    kinds=("approval",),
    needed=1,
    requested_at="2026-11-15T12:00:00.000Z",
    expires_at="2026-11-16T12:00:00.000Z",
)


def noted(row: ApprovalRow, notice: str, status: Any = "sent", attempts: int = 1) -> ApprovalRow:
    state = NoticeState(
        notice=notice, status=status, attempts=attempts, at=format_timestamp(NOON), problem="x"
    )
    return row._replace(notified=msgspec.json.encode(state).decode())


@pytest.mark.parametrize(
    ("row", "settings", "after_s", "expected"),
    [
        (ROW, SETTINGS, 0, "waiting:"),
        (noted(ROW, "waiting:"), SETTINGS, 9000, None),
        (ROW, SETTINGS, 86_400, None),
        (noted(ROW, "waiting:", "failed"), SETTINGS, 4, None),
        (noted(ROW, "waiting:", "failed"), SETTINGS, 5, "waiting:"),
        (noted(ROW, "waiting:", "failed", 99), SETTINGS, 899, None),
        (noted(ROW, "waiting:", "failed", 99), SETTINGS, 900, "waiting:"),
        (noted(ROW, "waiting:", "sending"), SETTINGS, 59, None),
        (noted(ROW, "waiting:", "sending"), SETTINGS, 60, "waiting:"),
        (noted(ROW, "waiting:desk")._replace(group_name="leads"), GROUPS, 0, "waiting:leads"),
        (noted(ROW, "waiting:")._replace(state="declined"), SETTINGS, 0, None),
        (noted(ROW, "waiting:")._replace(state="declined"), CLOSING, 0, "closed:declined"),
        (noted(ROW, "closed:declined")._replace(state="declined"), CLOSING, 900, None),
        (ROW._replace(state="declined"), CLOSING, 0, None),
        (ROW._replace(notified="of another version"), SETTINGS, 0, "waiting:"),
    ],
)
def test_a_notice_is_due_once_and_again_after_a_failure(
    row: ApprovalRow, settings: ApprovalSettings, after_s: int, expected: str | None
) -> None:
    assert find_due_notice(row, settings, NOON + timedelta(seconds=after_s)) == expected


def message(row: ApprovalRow, style: str, settings: ApprovalSettings = SETTINGS) -> Any:
    text = make_notice_text(row, settings, default_registry(), "customer:ada")
    return build_notice(text, style)


def test_a_generic_notice_names_action_and_reasons_and_no_person() -> None:
    sent = message(ROW, "json")

    assert sent["event"] == "waiting"
    assert sent["notice_id"] == "01KA:waiting:"
    assert sent["link"] == "https://demur.example.com/approvals/01KA"
    assert [one["code"] for one in sent["reasons"]] == ["REFUND_OVER_ESCALATION_LIMIT"]
    assert "ada" not in json.dumps(sent)
    named = msgspec.structs.replace(CLOSING, name_people=True)
    closed = ROW._replace(state="approved", closed_by="person:mary", closed_at=ROW.requested_at)
    assert message(ROW, "json", named)["requester"] == "customer:ada"
    assert message(closed, "json", named)["closed_by"] == "person:mary"
    assert "mary" not in json.dumps(message(closed, "json", CLOSING))


@pytest.mark.parametrize("style", ["slack", "teams"])
def test_a_chat_shows_what_callers_chose_as_plain_text(style: str) -> None:
    row = ROW._replace(action_type="<!channel> [x](http://evil)\n*b*", group_name="leads")
    shown = json.dumps(message(row, style, GROUPS))

    assert "leads decides" in shown
    assert "https://demur.example.com/approvals/01KA" in shown
    assert "<!channel>" not in shown
    assert "[x](http" not in shown or style == "slack"
    assert "\\\\n" in shown


def test_a_card_of_teams_has_the_form_that_webhooks_take() -> None:
    sent = message(ROW._replace(needed=2), "teams")
    [attached] = sent["attachments"]
    card = attached["content"]

    assert (sent["type"], attached["contentType"]) == (
        "message",
        "application/vnd.microsoft.card.adaptive",
    )
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {"title": "Needs", "value": "2 different people"} in card["body"][1]["facts"]
    assert card["actions"][0]["url"] == "https://demur.example.com/approvals/01KA"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"webhook": "https://hooks.example.com/x"}, "`link` is"),
        ({"webhook": "ftp://x/", "link": LINK}, "`webhook` begins"),
        ({"webhook": "https:///secret", "link": LINK}, "`webhook` begins"),
        ({"link": "demur.example.com"}, "`link` begins"),
    ],
)
def test_an_address_must_be_usable(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=expected) as caught:
        msgspec.convert(fields, ApprovalSettings)
    assert "secret" not in str(caught.value)


class Hours:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with gate_over(open_store(str(tmp_path / "store.db"))) as opened:
        yield opened


def delivery(gate: Gate, server: Hook, clock: Hours, **fields: Any) -> NoticeDelivery:
    assert gate.store is not None
    settings = ApprovalSettings(webhook=server.url, link=LINK, **fields)
    return NoticeDelivery(gate.store, gate.registry, settings, clock=clock)


def store_of(gate: Gate) -> Store:
    assert gate.store is not None
    return gate.store


def sent(server: Hook) -> list[Any]:
    return [json.loads(body) for _, body in server.deliveries]


def test_a_request_is_announced_once_by_whichever_process(gate: Gate) -> None:
    clock = Hours()
    decision_id = gate.decide(refund(900)).decision_id
    with hook() as server:
        assert delivery(gate, server, clock).deliver_due() == {"sent": 1, "failed": 0}
        # Another process, and the same one after a restart.
        assert delivery(gate, server, clock).deliver_due() == {"sent": 0, "failed": 0}
        [notice] = sent(server)

    assert notice["decision_id"] == decision_id
    assert notice["action"] == "refund"
    assert server.deliveries[0][0] == "application/json"


def test_two_processes_with_the_same_row_send_one_notice(gate: Gate) -> None:
    """INVARIANT: of several processes, one sends a notice."""
    decision_id = gate.decide(refund(900)).decision_id
    store = store_of(gate)
    with hook() as server:
        one, other = (delivery(gate, server, Hours()) for _ in range(2))
        row = store.get_approval(decision_id)
        assert row is not None

        assert one._deliver(row) == "sent"
        assert other._deliver(row) is None
        assert len(server.deliveries) == 1


def test_a_failure_is_logged_shown_counted_and_tried_again(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    clock, counted = Hours(), list[str]()
    decision_id = gate.decide(refund(900)).decision_id
    store = store_of(gate)
    with hook(500, 500, 200) as server, caplog.at_level(logging.WARNING, "demur"):
        settings = ApprovalSettings(webhook=server.url, link=LINK)
        sender = NoticeDelivery(store, gate.registry, settings, clock=clock, count=counted.append)
        sender.deliver_due()
        sender.deliver_due()
        row = store.get_approval(decision_id)
        assert row is not None
        failed = read_notice_state(row)
        clock.pass_by(5)
        sender.deliver_due()
        clock.pass_by(9)
        sender.deliver_due()
        clock.pass_by(1)
        sender.deliver_due()

    assert failed is not None
    assert (failed.status, failed.problem) == ("failed", "the webhook answered 500")
    assert counted == ["failed", "failed", "sent"]
    assert len({notice["notice_id"] for notice in sent(server)}) == 1
    messages = [record.message for record in caplog.records]
    assert messages == [
        "cannot deliver notices of approvals: the webhook answered 500",
        "demur delivers notices of approvals again",
    ]
    assert SECRET_PATH not in caplog.text


def test_one_failure_leaves_the_others_for_the_next_time(gate: Gate) -> None:
    for _ in range(3):
        gate.decide(refund(900))
    with hook(500, 200, 200) as server:
        sender = delivery(gate, server, Hours())
        assert sender.deliver_due() == {"sent": 0, "failed": 1}
        assert sender.deliver_due() == {"sent": 2, "failed": 0}


def test_the_next_group_and_the_end_are_announced(gate: Gate) -> None:
    clock = Hours()
    decision_id = gate.decide(refund(900)).decision_id
    store = store_of(gate)
    row = store.get_approval(decision_id)
    assert row is not None
    moment = format_timestamp(NOON)
    with hook() as server:
        sender = delivery(gate, server, clock, groups=("", "leads")[1:], notify_closed=True)
        sender.deliver_due()
        assert store.move_approval(row, "leads", now=moment, by="demur", reason="late")
        sender.deliver_due()
        moved = store.get_approval(decision_id)
        assert moved is not None
        assert store.close_approval(moved, now=moment, by="demur", reason="late")
        sender.deliver_due()
        sender.deliver_due()

    assert [(one["event"], one["group"], one["state"]) for one in sent(server)] == [
        ("waiting", "", "waiting"),
        ("waiting", "leads", "waiting"),
        ("closed", "leads", "expired"),
    ]


def test_what_was_decided_before_its_notice_is_not_announced(gate: Gate) -> None:
    decision_id = gate.decide(refund(900)).decision_id
    vote = ApprovalVote(
        decision_id, "default", "person:mary", "decline", "", {}, (), format_timestamp(NOON)
    )
    add_person(store_of(gate))
    assert store_of(gate).add_vote(vote).problem is None
    with hook() as server:
        assert delivery(gate, server, Hours(), notify_closed=True).deliver_due()["sent"] == 0
        assert server.deliveries == []


def test_nothing_is_sent_without_a_webhook(gate: Gate) -> None:
    gate.decide(refund(900))
    sender = NoticeDelivery(store_of(gate), gate.registry, ApprovalSettings(), clock=Hours())

    assert sender.deliver_due() == {"sent": 0, "failed": 0}
