"""Anchors that are delivered to a file or an address, once or on a schedule."""

import logging
from pathlib import Path

import pytest
from support.gates import KEY, NOON, RING, Ticking
from support.store_records import make_record
from support.webhook_server import hook

from demur.audit.anchors import read_anchor, read_anchor_file
from demur.errors import InputError
from demur.observe.alerts.webhook import WebhookError
from demur.observe.anchoring import AnchorSchedule, deliver_anchor
from demur.store.opening import open_store
from demur.store.store import Store
from demur.store.verify import verify_chain


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(tmp_path / "demur.db")
    opened.put_many([make_record(1), make_record(2), make_record(3, tenant="other")])
    return opened


def test_an_anchor_holds_the_head_of_each_chain(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "anchors.jsonl"
    done = deliver_anchor(store, KEY, str(path), NOON)
    [line] = read_anchor_file(path, RING)

    assert (done.place, done.heads) == (str(path), 2)
    assert [(head.tenant, head.seq) for head in line.anchor.heads] == [("acme", 2), ("other", 1)]
    assert verify_chain(store.backend, anchored=line.anchor.checkpoints).holds
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_crash_cut_short_is_refused_and_hides_no_other(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "anchors.jsonl"
    path.write_bytes(b'{"created_at":')
    deliver_anchor(store, KEY, str(path), NOON)
    lines = path.read_bytes().splitlines()

    assert read_anchor(lines[1], RING).signed_by == KEY.holder
    with pytest.raises(InputError, match=r"anchors\.jsonl:1: not an anchor"):
        read_anchor_file(path, RING)


def test_an_address_gets_the_same_line(store: Store) -> None:
    with hook() as server:
        done = deliver_anchor(store, KEY, server.url, NOON)
        [(_, body)] = server.deliveries

    assert done.place == "http://127.0.0.1/…"
    assert read_anchor(body, RING).anchor.created_at == done.created_at
    with hook(404) as server, pytest.raises(WebhookError, match="answered 404"):
        deliver_anchor(store, KEY, server.url, NOON)


def test_a_schedule_goes_on_through_outages_and_logs_each_once(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "later"
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 2:
            folder.mkdir()
        return len(waits) == 4

    path = folder / "anchors.jsonl"
    schedule = AnchorSchedule(store, KEY, str(path), 60.0, clock=Ticking(), wait=wait)
    with caplog.at_level(logging.WARNING, "demur"):
        schedule.run()

    assert waits == [60.0] * 4
    assert len(read_anchor_file(path, RING)) == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "cannot be anchored" in caplog.messages[0]


def test_a_schedule_that_is_stopped_ends_after_its_anchor(store: Store, tmp_path: Path) -> None:
    schedule = AnchorSchedule(store, KEY, str(tmp_path / "anchors.jsonl"), 3600.0, clock=Ticking())
    schedule.stop()
    schedule.run()

    assert len(read_anchor_file(tmp_path / "anchors.jsonl", RING)) == 1
