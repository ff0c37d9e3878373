"""The disk, the lock and the clock go wrong: nothing is allowed by accident, nothing is lost."""

import logging
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults.conftest import Report
from faults.writer import POLICY

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.spool import Spool
from demur.store.verify import verify_chain

if TYPE_CHECKING:
    from demur.model.record import DecisionRecord

REQUEST = {"action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}}}


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Let the system refuse every write beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, id="short"), pytest.param(20, id="full", marks=pytest.mark.slow)]
)
def test_a_disk_that_fills_up_again_and_again_loses_nothing(
    tmp_path: Path, rounds: int, report_counts: Report, caplog: pytest.LogCaptureFixture
) -> None:
    path, spool = tmp_path / "demur.db", Spool(tmp_path / "spool.jsonl")
    large = {**REQUEST, "evidence": {"text": "x" * 50_000}}
    records: list[DecisionRecord] = []
    with Gate(parse_policy(POLICY), open_store(path), spool=spool) as gate:
        assert gate.store is not None
        for _ in range(rounds):
            # No file may grow by more than a little.
            size = max(file.stat().st_size for file in tmp_path.iterdir()) + 300_000
            with no_file_beyond(size), caplog.at_level(logging.INFO, "demur"):
                while not records or records[-1].verdict is not Verdict.ABSTAIN:
                    records.append(gate.decide(large))
                records += [gate.decide(large) for _ in range(50)]
            after = gate.decide(REQUEST)
            assert after.verdict is Verdict.ALLOW
            records.append(after)
        stored = [record.decision_id for record in gate.store.find_records()]
        assert verify_chain(gate.store.backend).holds

    refused = [record for record in records if record.verdict is not Verdict.ALLOW]
    assert {record.reason_codes for record in refused} == {("STORAGE_UNAVAILABLE",)}
    turns = zip([Verdict.ALLOW, *(one.verdict for one in records)], records, strict=False)
    outages = sum(record in refused and before is Verdict.ALLOW for before, record in turns)
    # The begin and the end of each outage, and once that the spool is full, too.
    assert outages < len(refused)
    assert 2 * outages <= len(caplog.messages) <= 3 * outages
    report_counts([one.decision_id for one in records if one not in refused], stored)


def test_a_full_disk_refuses_is_spooled_and_passes_again_with_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.jsonl")
    large = {**REQUEST, "evidence": {"text": "x" * 400_000}}
    with Gate(parse_policy(POLICY), open_store(tmp_path / "demur.db"), spool=spool) as gate:
        store = gate.store
        assert store is not None
        before = gate.decide(REQUEST)
        with no_file_beyond(1_500_000):
            filled = [gate.decide(large) for _ in range(10)]
        after = gate.decide(large)

        refused = [record for record in filled if record.verdict is Verdict.ABSTAIN]
        kept = [record for record in filled if record.verdict is not Verdict.ABSTAIN]
        assert before.verdict is after.verdict is Verdict.ALLOW
        assert refused
        assert {record.reason_codes for record in refused} == {("STORAGE_UNAVAILABLE",)}
        assert not any(record.may_execute for record in refused)
        assert [record.decision_id for record in store.find_records()] == [
            record.decision_id for record in (before, *kept, after)
        ]
        # The spool's own disk is as full; what did fit is there, and nothing else failed of it.
        spooled = [one.decision_id for one in spool.read().records]
        assert spooled
        assert spooled == [record.decision_id for record in refused][: len(spooled)]
        assert verify_chain(store.backend).holds


def test_a_locked_database_refuses_and_passes_again(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    store = open_store(path, busy_timeout_s=0.05)
    with Gate(parse_policy(POLICY), store) as gate:
        gate.decide(REQUEST)
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        refused = gate.decide(REQUEST)
        lock.execute("ROLLBACK")
        lock.close()
        after = gate.decide(REQUEST)

        assert refused.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert refused.verdict is Verdict.ABSTAIN
        assert store.get(refused.decision_id) is None
        assert after.verdict is Verdict.ALLOW
        assert len(list(store.find_records())) == 2


def test_a_clock_that_goes_back_changes_nothing_but_the_times(tmp_path: Path) -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    times = iter([noon - timedelta(hours=number) for number in range(100)])
    with Gate(
        parse_policy(POLICY), open_store(tmp_path / "demur.db"), clock=lambda: next(times)
    ) as gate:
        records = [gate.decide(REQUEST) for _ in range(20)]

        assert gate.store is not None
        ids = [record.decision_id for record in records]
        assert ids == sorted(set(ids))
        assert [record.created_at for record in records] == sorted(
            (record.created_at for record in records), reverse=True
        )
        assert verify_chain(gate.store.backend).holds


@pytest.mark.parametrize("folder", ["there/is/none", "a-file/demur.db"])
def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a-file").write_text("", encoding="utf-8")

    with pytest.raises(Exception, match=r"open|folder|directory|create") as caught:
        open_store(tmp_path / folder)

    assert type(caught.value).__module__.startswith("demur.")
