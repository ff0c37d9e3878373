import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.store_records import DIGEST, decision_id, make_record, moment

from demur.errors import InputError
from demur.model.record import Amount
from demur.store.backend import RecordFilter, StorageError, UnavailableError
from demur.store.linking import record_to_row, row_to_record, store_batch
from demur.store.opening import open_store
from demur.store.rows import (
    GENESIS,
    ChainHead,
    ExperienceRow,
    Label,
    RecordRow,
    Snapshot,
    genesis_head,
    link_hash,
)
from demur.store.sqlite import SqliteBackend
from demur.store.store import Store, StoredRecord
from demur.store.verify import verify_chain


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold the write lock of a database, as another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_stored_record_has_its_place_in_the_chain(store: Store) -> None:
    first, second = store.put(make_record(1)), store.put(make_record(2))

    assert not first.duplicate
    assert first.record.chain is not None
    assert second.record.chain is not None
    assert (first.record.chain.seq, first.record.chain.previous) == (1, GENESIS)
    assert (second.record.chain.seq, second.record.chain.previous) == (2, first.record.chain.hash)
    assert store.get(decision_id(2)) == second.record


def test_a_stored_record_equals_the_decided_one(store: Store) -> None:
    record = make_record(1, reason="zu groß 💶", request_id="r", amount=None)
    store.put(record)
    back = store.get(record.decision_id)

    assert back is not None
    assert msgspec.structs.replace(back, chain=None) == record


def test_a_repeated_request_gets_the_first_record(store: Store) -> None:
    first = store.put(make_record(1, request_id="r")).record
    again = store.put(make_record(2, request_id="r"))
    elsewhere = store.put(make_record(3, request_id="r", tenant="other"))

    assert again == StoredRecord(first, duplicate=True)
    assert not elsewhere.duplicate
    assert store.get(decision_id(2)) is None
    assert store.by_request("acme", "r") == first


def test_many_are_stored_in_one_transaction(store: Store) -> None:
    records = [make_record(n, request_id=f"r-{n % 3}", tenant=f"t{n % 2}") for n in range(9)]
    answers = store.put_many(records)

    assert [answer.duplicate for answer in answers] == [False] * 6 + [True] * 3
    assert answers[6].record.decision_id == decision_id(0)
    assert [head.seq for head in store.list_heads()] == [3, 3]
    assert store.put_many([]) == []


def test_many_are_stored_all_or_none(store: Store) -> None:
    store.put(make_record(1))

    with pytest.raises(StorageError, match="refused"):
        store.put_many([make_record(2), make_record(1)])
    assert store.count_rows()["records"] == 1
    assert store.put(make_record(2)).record.chain is not None


def test_an_id_is_stored_once(store: Store) -> None:
    store.put(make_record(1))

    with pytest.raises(StorageError, match="UNIQUE"):
        store.put(make_record(1, reason="another"))


def test_the_same_request_from_many_threads_is_stored_once(store: Store) -> None:
    answers: list[StoredRecord] = []
    start = threading.Barrier(64)

    def ask(number: int) -> None:
        record = make_record(number, request_id="same")
        start.wait()
        answers.append(store.put(record))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 63
    assert len({answer.record.decision_id for answer in answers}) == 1
    assert store.count_rows()["records"] == 1


def test_many_async_callers_get_their_own_records(store: Store) -> None:
    async def all_of_them() -> list[StoredRecord]:
        records = [make_record(n, request_id=f"r-{n % 60}") for n in range(64)]
        return await asyncio.gather(*(store.aput(record) for record in records))

    answers = asyncio.run(all_of_them())
    assert [answer.record.decision_id for answer in answers[:60]] == [
        decision_id(n) for n in range(60)
    ]
    assert [answer.duplicate for answer in answers] == [False] * 60 + [True] * 4
    assert verify_chain(store.backend).records == 60


def test_texts_are_saved_before_the_record_and_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Snapshot] = []
    save = store.backend.save_snapshot

    def counted(snapshot: Snapshot) -> None:
        saved.append(snapshot)
        save(snapshot)

    monkeypatch.setattr(store.backend, "save_snapshot", counted)
    policy, registry = Snapshot(DIGEST, "policy", "rules: []"), Snapshot("d2", "registry", "{}")
    store.put(make_record(1), [policy])
    asyncio.run(store.aput(make_record(2), [policy, registry]))
    asyncio.run(store.aput(make_record(3), [policy, registry]))
    store.put_many([make_record(4)], [registry])

    assert saved == [policy, registry]
    assert store.get_snapshot(DIGEST) == policy
    assert store.get_snapshot("unknown") is None


def test_a_record_of_another_tenant_is_not_found(store: Store) -> None:
    store.put(make_record(1))

    assert store.get(decision_id(1), "acme") is not None
    assert store.get(decision_id(1), "other") is None
    assert store.get(decision_id(9)) is None
    assert store.by_request("acme", "r") is None


def test_the_beginning_of_an_id_is_enough_if_it_is_unique(store: Store) -> None:
    store.put_many([make_record(number) for number in (11, 12, 20)])
    store.put(make_record(1, decision_id=decision_id(1)[:-1]))

    assert store.resolve_id(decision_id(20)[:-1]) == decision_id(20)
    assert store.resolve_id("02") is None
    assert store.resolve_id(decision_id(1)[:-1]) == decision_id(1)[:-1]
    with pytest.raises(InputError, match="several"):
        store.resolve_id("01J")


def test_the_beginning_of_an_id_tells_nothing_of_other_tenants(store: Store) -> None:
    store.put_many([make_record(1), make_record(2, tenant="other"), make_record(3, tenant="other")])

    assert store.resolve_id("01J", "acme") == decision_id(1)
    assert store.resolve_id(decision_id(2), "acme") is None
    assert store.resolve_id(decision_id(2), "other") == decision_id(2)


def test_a_family_is_the_root_and_what_continues_it(store: Store) -> None:
    root = decision_id(1)
    store.put_many(
        [
            make_record(1),
            make_record(2),
            make_record(3, continues=root, root_id=root, attempt=2),
            make_record(4, tenant="other", root_id=root),
            make_record(5, continues=decision_id(3), root_id=root, attempt=3),
        ]
    )

    assert [r.decision_id for r in store.list_family("acme", root)] == [
        decision_id(number) for number in (1, 3, 5)
    ]
    assert store.list_family("nobody", root) == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RecordFilter(), [0, 1, 2, 3]),
        (RecordFilter(tenant="acme"), [0, 1, 2]),
        (RecordFilter(verdict="ESCALATE", tenant="other"), [3]),
        (RecordFilter(reason_code="SECRET_LEAK"), [1]),
        (RecordFilter(action_type="mail.send"), [2]),
        (RecordFilter(since=moment(1), until=moment(3)), [1, 2]),
        (RecordFilter(tenant="acme", since=moment(1)), [1, 2]),
        (RecordFilter(subject="user:bob"), [2]),
        (RecordFilter(tenant="other", subject="user:bob"), []),
        (RecordFilter(verdict="DENY"), []),
    ],
)
def test_records_are_found_by_what_they_say(
    store: Store, wanted: RecordFilter, found: list[int]
) -> None:
    store.put_many(
        [
            make_record(0),
            make_record(1, reason_codes=("REFUND_OVER_ESCALATION_LIMIT", "SECRET_LEAK")),
            make_record(2, action_type="mail.send", sealed={"requester": "user:bob"}),
            make_record(3, tenant="other"),
        ]
    )

    assert [r.decision_id for r in store.find_records(wanted)] == [decision_id(n) for n in found]
    newest = store.find_records(wanted, newest_first=True)
    assert [r.decision_id for r in newest] == [decision_id(n) for n in reversed(found)]


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_many_records_are_read_in_pages_without_loss(
    store: Store, tenant: str | None, newest_first: bool
) -> None:
    # Many share a moment: the place between two pages is not only a time.
    records = [make_record(n, created_at=moment(n // 150)) for n in range(450)]
    store.put_many(records)
    found = list(store.find_records(RecordFilter(tenant=tenant), newest_first=newest_first))

    wanted = [record.decision_id for record in records]
    assert [r.decision_id for r in found] == (wanted[::-1] if newest_first else wanted)
    few = store.find_records(RecordFilter(tenant=tenant), newest_first=newest_first, limit=3)
    assert [r.decision_id for r in few] == [r.decision_id for r in found[:3]]


def experience(number: int, **fields: Any) -> ExperienceRow:
    given: dict[str, Any] = {
        "memory_id": f"m-{number}",
        "tenant": "acme",
        "decision_id": decision_id(number),
        "outcome": "failure",
        "severity": 3,
        "note": "charged back",
        "action_type": "refund",
        "projection": "hash.v1",
        "vector": b"\x00\xff",
        "created_at": moment(number),
        "expires_at": None,
        **fields,
    }
    return ExperienceRow(**given)


def label(number: int, **fields: Any) -> Label:
    given: dict[str, Any] = {
        "decision_id": decision_id(number),
        "tenant": "acme",
        "created_at": moment(number),
        "kind": "outcome",
        "value": "failure",
        "note": "",
        "by": "user:eve",
        **fields,
    }
    return Label(**given)


def test_experiences_are_kept_until_they_expire(store: Store) -> None:
    kept, short = experience(1), experience(2, expires_at=moment(5))
    store.add_experience(kept, label(1))
    store.add_experience(short, label(2))

    assert store.list_experiences("acme", moment(4)) == [kept, short]
    assert store.list_experiences("acme", moment(5)) == [kept]
    assert store.list_experiences("other", moment(4)) == []
    assert store.list_labels(decision_id(1)) == [label(1)]


def test_the_memory_version_moves_with_every_change(store: Store) -> None:
    versions = [store.memory_version("acme")]
    for number in (1, 2, 3):
        store.add_experience(experience(number, expires_at=moment(number)), label(number))
        versions.append(store.memory_version("acme"))
    assert store.forget_experiences("acme", ["m-1", "unknown"]) == 1
    versions.append(store.memory_version("acme"))
    assert store.forget_experiences("acme", before=moment(3)) == 1
    versions.append(store.memory_version("acme"))
    assert store.forget_experiences("acme", ["m-1"]) == 0
    assert store.forget_experiences("other", ["m-3"]) == 0
    assert store.forget_experiences("acme") == 0

    assert len(set(versions)) == len(versions)
    assert store.memory_version("acme") == versions[-1]
    assert store.memory_version("other") == 0


def test_labels_stay_in_the_order_of_time(store: Store) -> None:
    store.add_label(label(1, created_at=moment(9), value="success"))
    store.add_label(label(1))

    assert [said.value for said in store.list_labels(decision_id(1))] == ["failure", "success"]


def test_erasing_a_subject_takes_what_is_personal_and_nothing_else(store: Store) -> None:
    store.put_many([make_record(1), make_record(2, sealed={"requester": "user:bob"})])
    store.put(make_record(3, tenant="other"))
    for number in (1, 2):
        store.add_experience(experience(number), label(number))
    version = store.memory_version("acme")

    assert store.erase_subject("acme", "user:ada", by="ops", reason="test") == 1
    erased, other = store.get(decision_id(1)), store.get(decision_id(2))
    assert erased is not None
    assert other is not None
    assert (erased.personal, erased.seal_holds) == (None, True)
    assert other.personal is not None
    assert [e.memory_id for e in store.list_experiences("acme", moment(0))] == ["m-2"]
    assert store.memory_version("acme") != version
    assert list(store.find_records(RecordFilter(tenant="acme", subject="user:ada"))) == []
    assert len(list(store.find_records(RecordFilter(tenant="other", subject="user:ada")))) == 1
    assert store.erase_subject("acme", "user:ada", by="ops", reason="test") == 0


def test_erased_content_is_gone_from_the_file(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1, sealed={"request": {"note": "a very private matter"}}))
        store.erase_subject("acme", "user:ada", by="ops", reason="test")

        for file in path.parent.iterdir():
            assert b"a very private matter" not in file.read_bytes()
            assert b"user:ada" not in file.read_bytes()


def test_retired_records_are_gone_and_the_rest_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.store.retention._MAX_RETIRED", 2)
    store.put_many([make_record(number) for number in range(7)])
    store.put(make_record(7, tenant="other"))

    assert store.retire_records("acme", moment(5), by="ops", reason="test") == 5
    assert store.retire_records("acme", moment(5), by="ops", reason="test") == 0
    assert [r.decision_id for r in store.find_records(RecordFilter(tenant="acme"))] == [
        decision_id(5),
        decision_id(6),
    ]
    assert store.get(decision_id(7)) is not None
    assert verify_chain(store.backend).holds
    assert store.retire_records("acme", moment(100), by="ops", reason="test") == 2
    assert store.put(make_record(8)).record.chain is not None
    assert verify_chain(store.backend).holds


@pytest.mark.parametrize(
    ("times", "plan"),
    [
        # A clock that was ahead keeps nothing, whether its time has come or not.
        ([1, 9, 2, 3, 6, 7], (4, 4, 1)),
        ([900, 1, 6, 7], (2, 2, 1)),
        # A clock that was behind takes no younger record along.
        ([1, 2, 6, 7, 8, 0], (2, 2, 0)),
        # Where both readings are as likely, the records stay.
        ([9, 1], (0, 0, 0)),
        ([6, 7], (0, 0, 0)),
        ([1, 2, 3], (3, 3, 0)),
    ],
)
def test_a_record_from_a_wrong_clock_neither_stops_retirement_nor_widens_it(
    store: Store, times: list[int], plan: tuple[int, int, int]
) -> None:
    store.put_many(
        [make_record(n, created_at=moment(time)) for n, time in enumerate(times, start=1)]
    )

    assert store.backend.plan_retirement("acme", moment(5), moment(100)) == plan
    author = {"by": "ops", "reason": "test", "now": moment(100)}
    assert store.backend.retire_records("acme", moment(5), **author) == plan[1]
    assert verify_chain(store.backend).holds
    assert verify_chain(store.backend).records == len(times) - plan[1]


def test_nothing_is_let_go_without_a_name_and_a_reason(store: Store) -> None:
    store.put(make_record(1))
    for by, reason in (("", "why"), ("ops", " "), ("ops", "two\nlines"), ("o" * 201, "why")):
        with pytest.raises(InputError):
            store.erase_subject("acme", "user:ada", by=by, reason=reason)
        with pytest.raises(InputError):
            store.retire_records("acme", moment(5), by=by, reason=reason)

    assert verify_chain(store.backend)[:6] == (1, 1, 0, 0, (), 0)


def test_an_identifier_anywhere_in_the_inputs_is_erased_with_its_record(store: Store) -> None:
    inputs: list[dict[str, object]] = [
        {"facts": {"evidence.note": "Ann writes from ann@example.org."}},
        {"facts": {"evidence.email": "ANN@example.org"}},
        {"facts": {"evidence.email": "joann@example.org"}},
        {"facts": {"evidence.email": "ann@example.org.uk"}},
        {"request": {"action": {"type": "refund"}, "evidence": {"account": 4711}}},
        {"request": {"evidence": {"ann@example.org": 1}}},
    ]
    store.put_many([make_record(n, sealed=one) for n, one in enumerate(inputs, start=1)])
    author = {"by": "dpo", "reason": "request 12"}

    assert store.erase_identifier("acme", "ann@example.org", **author) == 3
    assert store.erase_identifier("acme", "4711", **author) == 1
    assert store.erase_identifier("acme", "4711", **author) == 0
    assert store.erase_identifier("other", "joann@example.org", **author) == 0
    kept = [record.decision_id for record in store.find_records() if record.sealed is not None]
    assert kept == [decision_id(3), decision_id(4)]
    assert verify_chain(store.backend)[:6] == (1, 6, 4, 0, (), 2)
    assert all(b"ann" not in row.event for row in store.backend.read_events("acme"))
    with pytest.raises(InputError):
        store.erase_identifier("acme", "an", **author)


def test_events_are_no_decisions(store: Store) -> None:
    store.put_many([make_record(number) for number in range(1, 4)])
    store.erase_subject("acme", "user:ada", by="ops", reason="test")
    store.retire_records("acme", moment(2), by="ops", reason="test")
    day = datetime(2027, 1, 1, tzinfo=UTC)

    assert store.count_rows()["records"] == 2
    assert len(list(store.find_records())) == 2
    tallies = store.read_tallies("acme", day, day + timedelta(days=1))
    assert sum(one.number for one in tallies.decisions) == 3


def test_a_checkpoint_keeps_where_chains_end(store: Store) -> None:
    store.put(make_record(1))
    heads = store.save_checkpoint(moment(2))
    store.save_checkpoint(moment(2))

    assert heads == store.list_heads()
    assert store.backend.list_checkpoints("acme") == [(moment(2), heads[0])]


def test_counts_and_info_say_what_a_doctor_asks(store: Store, path: Path) -> None:
    store.put(make_record(1))

    assert store.count_rows() == {
        "records": 1,
        "tenants": 1,
        "checkpoints": 0,
        "snapshots": 0,
        "experiences": 0,
        "labels": 0,
    }
    info = store.info()
    assert (info["kind"], info["place"]) == ("sqlite", str(path))
    assert (info["schema_version"], info["durability"]) == (6, "normal")
    assert info["deadline_s"] == 5.0


def test_a_closed_store_refuses(path: Path) -> None:
    store = open_store(path)
    store.close()
    store.close()

    with pytest.raises(StorageError, match="closed"):
        store.put(make_record(1))
    with pytest.raises(StorageError, match="closed"):
        store.get(decision_id(1))


def test_a_locked_database_is_an_error_and_stores_nothing(path: Path) -> None:
    with open_store(path, busy_timeout_s=0.05) as store:
        with write_lock(path), pytest.raises(UnavailableError, match="locked") as caught:
            store.put(make_record(1))

        assert caught.value.where == str(path)
        assert caught.value.help is not None
        assert store.count_rows()["records"] == 0
        assert store.put(make_record(1)).record.chain is not None


def unconfirmed(store: Store) -> list[str]:
    rows = store.backend.read_chain("acme", 1, None)
    return [row.decision_id for row in rows if not row.confirmed]


def soon(condition: Callable[[], bool]) -> bool:
    waiting = threading.Event()
    return any(condition() or waiting.wait(0.01) for _ in range(500))


def test_a_record_that_lands_after_the_deadline_is_marked(path: Path) -> None:
    with open_store(path, deadline_s=0.1) as store:
        store.put(make_record(1))
        with write_lock(path), pytest.raises(StorageError, match="in time"):
            store.put(make_record(2))

        assert soon(lambda: unconfirmed(store) == [decision_id(2)])
        assert verify_chain(store.backend).unconfirmed == 1
        assert store.info()["deadline_s"] == 0.1


def test_an_async_record_that_lands_after_the_deadline_is_marked(path: Path) -> None:
    with open_store(path, deadline_s=0.1) as store:
        with write_lock(path), pytest.raises(StorageError, match="in time"):
            asyncio.run(store.aput(make_record(1)))

        assert soon(lambda: unconfirmed(store) == [decision_id(1)])


def test_a_duplicate_that_is_answered_late_leaves_the_first_confirmed(path: Path) -> None:
    with open_store(path, deadline_s=0.1) as store:
        store.put(make_record(1, request_id="r"))
        with write_lock(path), pytest.raises(StorageError, match="in time"):
            store.put(make_record(2, request_id="r"))
        store.close()
    with open_store(path) as store:
        assert unconfirmed(store) == []
        assert store.count_rows()["records"] == 1


def test_a_cancelled_caller_counts_as_not_notified(path: Path) -> None:
    with open_store(path) as store:

        async def cancelled() -> None:
            with write_lock(path):
                task = asyncio.create_task(store.aput(make_record(1)))
                await asyncio.sleep(0)
                # From then on the record waits for the lock, and is stored whoever waits for it.
                assert soon(lambda: store._committer._leading and not store._committer._pending)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(cancelled())
        assert soon(lambda: unconfirmed(store) == [decision_id(1)])


def test_a_caller_cancelled_after_the_commit_counts_as_not_notified(path: Path) -> None:
    with open_store(path) as store:

        async def cancelled() -> None:
            task = asyncio.create_task(store.aput(make_record(1)))
            await asyncio.sleep(0)
            # The loop is busy until the record is stored; then the wake and the end meet.
            assert soon(lambda: store.get(decision_id(1)) is not None)
            assert soon(lambda: not store._committer._leading)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        store.put(make_record(2))
        assert unconfirmed(store) == [decision_id(1)]


def test_a_caller_with_a_closed_loop_counts_as_not_notified(path: Path) -> None:
    with open_store(path) as store:
        loop = asyncio.new_event_loop()
        with write_lock(path):
            waiting = store.aput(make_record(1))
            step = loop.create_task(waiting)
            loop.run_until_complete(asyncio.sleep(0.05))
            step._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()

        assert soon(lambda: store.get(decision_id(1)) is not None)
        assert soon(lambda: not store._committer._leading)
        store.put(make_record(2))
        assert unconfirmed(store) == [decision_id(1)]
        waiting.close()


def test_a_caller_whose_loop_is_gone_and_whose_record_failed_leaves_nothing(path: Path) -> None:
    with open_store(path, busy_timeout_s=0.2) as store:
        loop = asyncio.new_event_loop()
        with write_lock(path):
            waiting = store.aput(make_record(1))
            step = loop.create_task(waiting)
            loop.run_until_complete(asyncio.sleep(0.05))
            step._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()
            assert soon(lambda: not store._committer._leading)

        store.put(make_record(2))
        assert unconfirmed(store) == []
        assert store.count_rows()["records"] == 1
        waiting.close()


class LosesTheAnswer(SqliteBackend):
    """A database whose connection dies once, right after it committed."""

    lost = False

    @contextmanager
    def transaction(self) -> Iterator[Any]:  # type: ignore[override]
        """Yield one write, and then break off."""
        with super().transaction() as write:
            yield write
        if not self.lost:
            self.lost = True
            raise UnavailableError("the connection is gone")


def test_a_row_that_landed_without_an_answer_is_marked_unconfirmed(path: Path) -> None:
    with Store(LosesTheAnswer(str(path))) as store:
        with pytest.raises(UnavailableError):
            store.put(make_record(1))
        store.put(make_record(2))

        assert store.get(decision_id(1)) is not None
        assert unconfirmed(store) == [decision_id(1)]


def test_a_record_stored_at_the_very_deadline_is_confirmed(path: Path) -> None:
    async def slow() -> StoredRecord:
        task = asyncio.create_task(store.aput(make_record(1)))
        await asyncio.sleep(0)
        # The loop looks away until the record is stored and the deadline is over.
        assert soon(lambda: store.get(decision_id(1)) is not None)
        assert soon(lambda: not store._committer._leading)
        time.sleep(0.5)  # noqa: ASYNC251 - the loop has to be late
        return await task

    with open_store(path, deadline_s=0.5) as store:
        assert asyncio.run(slow()).record.chain is not None
        assert unconfirmed(store) == []


@pytest.mark.parametrize(
    ("deadline_s", "error"),
    [
        pytest.param(None, KeyboardInterrupt, id="in the caller's thread"),
        pytest.param(60.0, StorageError, id="in the committer's thread"),
    ],
)
def test_an_interrupted_commit_leaves_nothing_confirmed(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deadline_s: float | None,
    error: type[BaseException],
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with open_store(path, deadline_s=deadline_s) as store:
        with monkeypatch.context() as patch:
            patch.setattr("demur.store.store.store_batch", interrupted)
            with pytest.raises(error):
                store.put(make_record(1))
        store.put(make_record(1))

        assert unconfirmed(store) == []
        assert not store._unconfirmed


def test_marks_wait_for_a_commit_that_succeeds(path: Path) -> None:
    with open_store(path, busy_timeout_s=0.05) as store:
        store.put(make_record(1))
        store._unconfirmed.append(decision_id(1))
        with write_lock(path), pytest.raises(StorageError):
            store.put(make_record(2))
        assert unconfirmed(store) == []
        store.put(make_record(2))

        assert unconfirmed(store) == [decision_id(1)]


class EndsLate(SqliteBackend):
    """A database that ends what it does for others only while it is asked the second time."""

    asked = 0

    def mark_unconfirmed(self, decision_ids: Collection[str]) -> list[str]:
        """Mark records from the second time on."""
        self.asked += 1
        return super().mark_unconfirmed(decision_ids) if self.asked > 1 else list(decision_ids)


def test_closing_asks_again_if_something_may_still_be_stored(path: Path) -> None:
    with Store(EndsLate(str(path))) as store:
        store.put(make_record(1))
        store._unconfirmed.append(decision_id(1))
    with open_store(path) as store:
        assert unconfirmed(store) == [decision_id(1)]


def test_closing_marks_what_is_left_to_mark(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        store._unconfirmed.append(decision_id(1))
    with open_store(path, busy_timeout_s=0.05) as store:
        assert unconfirmed(store) == [decision_id(1)]
        store._unconfirmed.append(decision_id(1))
        with write_lock(path):
            store.close()


def test_a_deleted_first_record_is_reported(
    store: Store, tamper: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(make_record(1, request_id="r"))
    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "get_record", lambda _: None)
        with pytest.raises(StorageError, match="gone"):
            store.put(make_record(2, request_id="r"))
    assert tamper("DELETE FROM decision_records") == 1


def test_each_link_covers_the_one_before_it() -> None:
    rows = [record_to_row(make_record(number)) for number in (1, 2)]
    with closing(SqliteBackend(":memory:")) as backend:
        first, second = store_batch(backend, rows)

        assert first.previous == genesis_head("acme")
        assert first.hash == link_hash(genesis_head("acme"), rows[0].decision_id, rows[0].record)
        assert second.previous == ChainHead("acme", 1, first.hash)
        assert backend.all_heads() == [ChainHead("acme", 2, second.hash)]


def test_a_request_repeated_in_one_batch_is_stored_once() -> None:
    rows = [record_to_row(make_record(number, request_id="r")) for number in (1, 2)]
    with closing(SqliteBackend(":memory:")) as backend:
        first, second = store_batch(backend, rows)
        [again] = store_batch(backend, rows[1:])

        assert (first.first, second.first, again.first) == (None, decision_id(1), decision_id(1))
        assert backend.count_rows()["records"] == 1


def test_a_row_repeats_what_people_query() -> None:
    row = record_to_row(make_record(7, request_id="r-7", root_id=decision_id(1)))

    assert row[:15] == (
        decision_id(7),
        moment(7),
        "acme",
        "r-7",
        decision_id(1),
        "user:ada",
        "ESCALATE",
        "NEED_CONTEXT",
        "WORKFLOW_BLOCK",
        "refund",
        400.0,
        "USD",
        ("REFUND_OVER_ESCALATION_LIMIT",),
        DIGEST,
        DIGEST,
    )
    assert all(type(value) is not int for value in row)


@pytest.mark.parametrize(
    ("amount", "columns"),
    [
        (None, (None, None)),
        (Amount(value=None, currency="EUR"), (None, "EUR")),
        (Amount(value=0.5, currency=None), (0.5, None)),
    ],
)
def test_an_amount_may_lack_its_parts(
    amount: Amount | None, columns: tuple[float | None, str | None]
) -> None:
    row = record_to_row(make_record(amount=amount))

    assert (row.amount_value, row.amount_currency) == columns


def test_a_record_without_class_or_sealed_part_has_empty_columns() -> None:
    record = msgspec.structs.replace(make_record(refusal_class=None), sealed=None)
    row = record_to_row(record)

    assert (row.refusal_class, row.subject, row.sealed) == (None, None, None)


def test_a_record_comes_back_as_it_was_with_its_place() -> None:
    record = make_record()
    row = record_to_row(record)
    back = row_to_record(
        RecordRow(row.decision_id, row.tenant, row.record, row.sealed, 3, "before", "own")
    )

    assert back.chain is not None
    assert (back.chain.seq, back.chain.previous, back.chain.hash) == (3, "before", "own")
    assert back.open_bytes() == record.open_bytes()
    assert back.sealed == record.sealed
    assert back.seal_holds


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b'{"decision_id":"\xff"}'])
def test_a_malformed_record_is_reported_by_its_id(raw: bytes) -> None:
    with pytest.raises(StorageError, match="not a decision record") as caught:
        row_to_record(RecordRow("01J", "acme", raw, None, 1, "", ""))

    assert caught.value.where == "01J"
