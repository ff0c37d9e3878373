"""What every backend does, shown on each: a store must not change when its database does."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.store_records import decision_id, make_record, moment

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Surface, Verdict
from demur.errors import InputError
from demur.model.finding import Finding
from demur.model.record import Amount
from demur.store.backend import RecordFilter, StorageError, UnavailableError, load_migrations
from demur.store.events import read_event
from demur.store.linking import record_to_row, store_batch
from demur.store.postgres import open_postgres
from demur.store.retention import _DELETE_RETIRED, _SAVE_ANCHOR
from demur.store.rows import (
    GENESIS,
    ApiKey,
    ChainHead,
    ChainPlace,
    Checkpoint,
    ExperienceRow,
    Label,
    LoginSession,
    Snapshot,
    UnlinkedRow,
    genesis_head,
    group_tallies,
)
from demur.store.sql import Backend
from demur.store.sqlite import SqliteBackend
from demur.store.store import Store, StoredRecord
from demur.store.verify import verify_chain

JANUARY_END = datetime(2027, 2, 1, tzinfo=UTC)
Opener = Callable[[], Backend]


@pytest.fixture(params=["sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Return the function that opens one and the same empty database."""
    if request.param == "sqlite":
        return lambda: SqliteBackend(str(tmp_path / "store.db"))
    url = request.getfixturevalue("postgres_url")
    return lambda: open_postgres(url, timeout_s=10)


@pytest.fixture
def backend(opener: Opener) -> Iterator[Backend]:
    opened = opener()
    yield opened
    opened.close()


def row(number: int, **fields: Any) -> UnlinkedRow:
    return record_to_row(make_record(number, **fields))


def rows(count: int, **fields: Any) -> list[UnlinkedRow]:
    return [row(number, **fields) for number in range(1, count + 1)]


def found(backend: Backend, *, newest_first: bool = False, **wanted: Any) -> list[int]:
    scanned = backend.scan_records(RecordFilter(**wanted), newest_first=newest_first)
    return [int(one.decision_id[3:]) for one in scanned]


def experience(memory_id: str, **fields: Any) -> ExperienceRow:
    made = ExperienceRow(
        memory_id=memory_id,
        tenant="acme",
        decision_id=decision_id(1),
        outcome="failure",
        severity=3,
        note="charged back",
        action_type="refund",
        projection="words.v1",
        vector=b"\x00\x01\xff",
        created_at=moment(1),
        expires_at=None,
    )
    return made._replace(**fields)


def label(number: int = 1, **fields: Any) -> Label:
    made = Label(decision_id(1), "acme", moment(number), "outcome", "failure", "", "user:mary")
    return made._replace(**fields)


# -- writing -------------------------------------------------------------------------------


def test_a_stored_row_is_read_back_byte_for_byte(backend: Backend) -> None:
    stored = row(1, sealed={"facts": {"note": 'a\x00b \u2028 \U0001f600 é \\ "'}})
    [place] = store_batch(backend, [stored])
    read = backend.get_record(stored.decision_id)

    assert read is not None
    assert (read.record, read.sealed) == (stored.record, stored.sealed)
    assert rb"a\u0000b" in (read.sealed or b"")
    assert (read.tenant, read.seq, read.previous, read.hash) == ("acme", 1, GENESIS, place.hash)
    assert read.confirmed


def test_an_audit_reads_every_column_as_it_was_written(backend: Backend) -> None:
    written = [
        row(1, request_id="r-1", root_id=decision_id(9), reason_codes=("B", "A", "A'{,}\"")),
        row(2, amount=None, refusal_class=None, reason_codes=(), sealed={"requester": None}),
    ]
    places = store_batch(backend, written)

    linked = list(backend.read_linked("acme", 1, None))
    assert [one.row for one in linked] == written
    assert [(one.seq, one.previous, one.hash, one.confirmed) for one in linked] == [
        (place.previous.seq + 1, place.previous.hash, place.hash, True) for place in places
    ]


def test_each_tenant_has_a_chain_of_its_own(backend: Backend) -> None:
    store_batch(backend, [row(1), row(2, tenant="zoo"), row(3), row(4, tenant="Über")])

    assert [(head.tenant, head.seq) for head in backend.all_heads()] == [
        ("acme", 2),
        ("zoo", 1),
        ("Über", 1),
    ]
    assert backend.list_tenants() == ["acme", "zoo", "Über"]
    assert verify_chain(backend)[:5] == (3, 4, 0, 0, ())


def test_the_next_batch_goes_on_where_the_last_one_ended(opener: Opener) -> None:
    for number in (1, 2, 3):
        backend = opener()
        store_batch(backend, [row(number)])
        backend.close()
    backend = opener()
    seqs = [one.seq for one in backend.read_chain("acme", 1, None)]
    backend.close()

    assert seqs == [1, 2, 3]


def test_a_request_id_is_stored_once_per_tenant(backend: Backend) -> None:
    store_batch(backend, [row(1, request_id="r")])
    again = [
        row(2, request_id="r"),
        row(3, request_id="r", tenant="zoo"),
        row(4, request_id="s"),
        row(5, request_id="s"),
    ]
    firsts = [place.first for place in store_batch(backend, again)]

    assert firsts == [decision_id(1), None, None, decision_id(4)]
    assert found(backend) == [1, 3, 4]
    first = backend.by_request("acme", "r")
    assert first is not None
    assert first.decision_id == decision_id(1)
    assert backend.by_request("zoo", "s") is None


def test_a_new_tenant_begins_at_its_genesis(backend: Backend) -> None:
    store_batch(backend, [row(1)])
    with backend.transaction() as write:
        heads = dict(write.lock_heads(["new", "acme"]))

    assert heads["new"] == genesis_head("new")
    assert heads["acme"].seq == 1
    # It was only looked at: it has no records and so no chain.
    assert backend.list_tenants() == ["acme"]
    assert backend.count_rows()["tenants"] == 1
    assert [head.tenant for head in backend.all_heads()] == ["acme"]


def test_an_error_rolls_the_whole_write_back(backend: Backend) -> None:
    store_batch(backend, [row(1)])

    def fail_half_way() -> None:
        with backend.transaction() as write:
            write.lock_heads(["acme"])
            write.append_rows([row(2)])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()

    assert found(backend) == [1]
    assert backend.all_heads()[0].seq == 1
    store_batch(backend, [row(3)])
    assert found(backend) == [1, 3]


@pytest.mark.parametrize("bad", [{"decision_id": decision_id(1)}, {"tenant": "\ud800"}])
def test_a_row_that_cannot_be_stored_fails_with_its_batch_alone(
    backend: Backend, bad: dict[str, str]
) -> None:
    store_batch(backend, [row(1)])
    with pytest.raises(StorageError) as caught:
        store_batch(backend, [row(2), row(3)._replace(**bad)])  # type: ignore[arg-type]

    assert not isinstance(caught.value, UnavailableError)
    assert found(backend) == [1]
    store_batch(backend, [row(4)])
    assert [one.seq for one in backend.read_chain("acme", 1, None)] == [1, 2]


def test_nothing_to_write_is_no_error(backend: Backend) -> None:
    with backend.transaction() as write:
        assert dict(write.lock_heads([])) == {}
        assert dict(write.find_existing([])) == {}
        assert write.append_rows([]) == []

    assert found(backend) == []


def test_a_row_can_lose_its_confirmation(backend: Backend) -> None:
    store_batch(backend, rows(2))

    assert backend.mark_unconfirmed([decision_id(2), decision_id(77)]) == []
    assert [one.confirmed for one in backend.read_chain("acme", 1, None)] == [True, False]


# -- reading -------------------------------------------------------------------------------


def test_a_family_is_read_in_the_order_of_the_chain(backend: Backend) -> None:
    root = decision_id(5)
    store_batch(
        backend,
        [
            row(5),
            row(2, root_id=root),
            row(6),
            row(7, root_id=root),
            row(8, root_id=root, tenant="zoo"),
        ],
    )

    ids = [one.decision_id for one in backend.list_family("acme", root)]
    assert ids == [decision_id(5), decision_id(2), decision_id(7)]
    assert backend.list_family("acme", "unknown") == []


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("tenant", [{}, {"tenant": "acme"}], ids=["all", "one tenant"])
def test_a_scan_of_many_pages_misses_nothing(
    backend: Backend, newest_first: bool, tenant: dict[str, str]
) -> None:
    # Times that are equal must not make a page skip or repeat anything.
    store_batch(backend, rows(1100, created_at=moment(7)))

    numbers = found(backend, newest_first=newest_first, **tenant)
    assert numbers == sorted(range(1, 1101), reverse=newest_first)
    assert [one.seq for one in backend.read_chain("acme", 1, None)] == list(range(1, 1101))
    assert [one.seq for one in backend.read_chain("acme", 499, 1002)] == list(range(499, 1003))
    assert len(list(backend.read_linked("acme", 2, None))) == 1099


def test_a_scan_finds_amounts(backend: Backend) -> None:
    amounts = (Amount(value=20, currency="USD"), Amount(value=0, currency="EUR"), None)
    store_batch(backend, [row(1), *(row(n, amount=one) for n, one in enumerate(amounts, 2))])

    assert found(backend, min_amount=20.0) == [1, 2]
    assert found(backend, max_amount=20.5) == [2, 3]
    assert found(backend, min_amount=0.0) == [1, 2, 3]
    assert found(backend, max_amount=0.0, currency="EUR") == [3]
    assert found(backend, min_amount=1.0, currency="EUR") == []


def test_a_scan_finds_what_each_part_of_a_filter_asks(backend: Backend) -> None:
    store_batch(
        backend,
        [
            row(1),
            row(2, tenant="zoo"),
            row(3, verdict=Verdict.DENY),
            row(4, reason_codes=("PII_EXPOSURE", "RATE_LIMIT")),
            row(5, action_type="purchase"),
            row(6, sealed={"requester": "user:" + "b" * 200}),
            row(7, sealed={"requester": "user:" + "b" * 201}),
        ],
    )

    assert found(backend, tenant="zoo") == [2]
    assert found(backend, verdict="DENY") == [3]
    assert found(backend, reason_code="RATE_LIMIT") == [4]
    assert found(backend, action_type="purchase") == [5]
    assert found(backend, subject="user:" + "b" * 200) == [6]
    assert found(backend, since=moment(3), until=moment(5)) == [3, 4]
    assert found(backend, tenant="acme", since=moment(6)) == [6, 7]
    assert found(backend, tenant="acme", verdict="DENY", reason_code="RATE_LIMIT") == []


def test_ids_are_found_by_their_beginning(backend: Backend) -> None:
    store_batch(backend, [row(11), row(12), row(2), row(13, tenant="zoo")])

    start = decision_id(11)[:-1]
    assert backend.find_ids(start, 10, "acme") == [decision_id(11), decision_id(12)]
    assert backend.find_ids(start, 10, "zoo") == [decision_id(13)]
    assert backend.find_ids(start, 10, "nobody") == []
    assert backend.find_ids(start, 10) == [decision_id(number) for number in (11, 12, 13)]
    assert backend.find_ids("01J", 2) == [decision_id(2), decision_id(11)]
    assert backend.find_ids("02", 10) == []


def test_a_missing_row_is_none(backend: Backend) -> None:
    assert backend.get_record("unknown") is None
    assert backend.by_request("acme", "unknown") is None
    assert backend.get_snapshot("unknown") is None
    assert backend.list_labels("unknown") == []
    assert backend.list_checkpoints("unknown") == []
    assert backend.list_experiences("acme", moment(1)) == []
    assert backend.memory_version("acme") == 0
    assert backend.get_anchor("acme") == genesis_head("acme")
    assert backend.list_tenants() == []
    assert list(backend.read_chain("acme", 1, None)) == []


# -- beside the records --------------------------------------------------------------------


def test_a_snapshot_is_kept_once(backend: Backend) -> None:
    first = Snapshot("sha256:1", "policy", "rules: []\n# é")
    backend.save_snapshot(first)
    backend.save_snapshot(first._replace(text="other"))

    assert backend.get_snapshot("sha256:1") == first
    assert backend.count_rows()["snapshots"] == 1


def test_checkpoints_are_kept_in_order(backend: Backend) -> None:
    [one, two] = [Checkpoint(moment(n), ChainHead("acme", n, f"sha256:{n}")) for n in (1, 2)]
    backend.save_checkpoints([two, one])
    backend.save_checkpoints([one, Checkpoint(moment(1), ChainHead("zoo", 1, "sha256:z"))])
    backend.save_checkpoints([])

    assert backend.list_checkpoints("acme") == [one, two]


def test_experiences_come_with_their_labels(backend: Backend) -> None:
    backend.add_experience(experience("m-2", expires_at=moment(5)), label())
    backend.add_experience(experience("m-1"), label(2))
    backend.add_experience(experience("m-1", tenant="zoo"), label(3, tenant="zoo"))

    assert backend.list_experiences("acme", moment(4)) == [
        experience("m-1"),
        experience("m-2", expires_at=moment(5)),
    ]
    assert backend.list_experiences("acme", moment(5)) == [experience("m-1")]
    assert backend.list_labels(decision_id(1)) == [label(), label(2), label(3, tenant="zoo")]


def test_an_experience_that_comes_again_replaces_the_first(backend: Backend) -> None:
    backend.add_experience(experience("m-1"), label())
    before = backend.memory_version("acme")
    backend.add_experience(experience("m-1", note="paid after all"), label(2))

    assert backend.list_experiences("acme", moment(1)) == [experience("m-1", note="paid after all")]
    assert backend.memory_version("acme") != before


def test_forgetting_takes_what_it_names_and_what_has_expired(backend: Backend) -> None:
    for name, expires in (("m-1", None), ("m-2", moment(5)), ("m-3", moment(9)), ("m-4", None)):
        backend.add_experience(experience(name, expires_at=expires), label())
    backend.add_experience(experience("m-1", tenant="zoo"), label())
    version = backend.memory_version("acme")

    assert backend.forget_experiences("acme", None, None) == 0
    assert backend.forget_experiences("acme", ["unknown"], None) == 0
    assert backend.memory_version("acme") == version
    assert backend.forget_experiences("acme", ["m-1"], None) == 1
    assert backend.memory_version("acme") != version
    assert backend.forget_experiences("acme", None, moment(6)) == 1
    assert backend.forget_experiences("acme", ["m-4"], moment(99)) == 2
    assert backend.list_experiences("acme", moment(1)) == []
    assert len(backend.list_experiences("zoo", moment(1))) == 1


def test_labels_are_read_oldest_first(backend: Backend) -> None:
    late, early, also_early = label(2), label(1), label(1, value="success")
    for one in (late, early, also_early):
        backend.add_labels([one])

    assert backend.list_labels(decision_id(1)) == [early, also_early, late]
    assert backend.count_rows()["labels"] == 3


# -- letting go ----------------------------------------------------------------------------


def test_an_erased_subject_is_gone_and_the_chain_holds(backend: Backend) -> None:
    ada, bob = {"requester": "user:ada"}, {"requester": "user:bob"}
    store_batch(backend, [row(1, sealed=ada), row(2, sealed=bob), row(3, sealed=ada, tenant="zoo")])
    backend.add_experience(experience("m-1"), label())
    backend.add_experience(experience("m-2", decision_id=decision_id(2)), label())
    version = backend.memory_version("acme")

    assert backend.erase_subject("acme", "user:ada", by="ops", reason="test") == 1
    assert backend.erase_subject("acme", "user:ada", by="ops", reason="test") == 0
    sealed = {
        one.decision_id: one.sealed is not None for one in backend.scan_records(RecordFilter())
    }
    assert sealed == {decision_id(1): False, decision_id(2): True, decision_id(3): True}
    assert found(backend, subject="user:ada") == [3]
    assert [one.memory_id for one in backend.list_experiences("acme", moment(1))] == ["m-2"]
    assert backend.memory_version("acme") != version
    assert verify_chain(backend)[:5] == (2, 3, 1, 0, ())


def test_a_request_with_a_nul_is_counted_erased_and_retired(backend: Backend) -> None:
    """An agent may send any text; it must neither stop the counts nor outlive an erasure."""
    finding = Finding(code="PROMPT_LEAK", surface=Surface.INPUT, detail="a\\u0000 \0")
    sealed = {"request": {"evidence": {"note\0": "a\0b\\u0000"}}, "findings": [finding]}
    with Store(backend) as store:
        store.put(make_record(1, sealed=sealed))
        store.put(make_record(2, sealed={"findings": [finding]}))
        tallies = store.read_tallies(None, datetime(2027, 1, 1, tzinfo=UTC), JANUARY_END)
        assert sum(one.number for one in tallies.findings) == 2
        assert {one.code for one in tallies.findings} == {"PROMPT_LEAK"}
        assert store.erase_identifier("acme", "user:ada", by="dpo", reason="request 12") == 2
        assert store.retire_records("acme", moment(9), by="ops", reason="old") == 2


def test_erasing_who_taught_nothing_leaves_the_memory_alone(backend: Backend) -> None:
    store_batch(backend, [row(1)])
    backend.add_experience(experience("m-1", decision_id=decision_id(9)), label())
    version = backend.memory_version("acme")

    assert backend.erase_subject("acme", "user:ada", by="ops", reason="test") == 1
    assert backend.memory_version("acme") == version


def test_retired_records_leave_a_link_to_begin_at(backend: Backend) -> None:
    places = store_batch(backend, [*rows(5), row(9, tenant="zoo")])

    assert backend.retire_records("acme", moment(4), by="ops", reason="test") == 3
    assert backend.retire_records("acme", moment(4), by="ops", reason="test") == 0
    assert [one.seq for one in backend.read_chain("acme", 1, None)] == [4, 5]
    assert backend.get_anchor("acme") == ChainHead("acme", 3, places[2].hash)
    assert next(backend.read_chain("acme", 1, None)).previous == backend.get_anchor("acme").hash
    assert backend.get_anchor("zoo") == genesis_head("zoo")
    assert found(backend) == [4, 5, 9]
    assert verify_chain(backend)[:5] == (2, 3, 0, 0, ())


def test_a_record_from_a_future_clock_does_not_block_retirement(backend: Backend) -> None:
    store_batch(backend, [row(1), row(2, created_at=moment(99)), row(3), row(4), row(5)])

    assert backend.plan_retirement("acme", moment(5), moment(100)) == (4, 4, 1)
    assert backend.retire_records("acme", moment(5), by="ops", reason="test", now=moment(9)) == 4
    assert found(backend, tenant="acme") == [5]
    assert verify_chain(backend).holds


def test_an_event_takes_a_place_in_the_chain(backend: Backend) -> None:
    [place] = store_batch(backend, [row(1)])
    what = {"decision": decision_id(1), "note": "ä"}
    event = backend.append_event("acme", "approve", what, by="ann", reason="fine", now=moment(2))
    [after] = store_batch(backend, [row(3)])

    assert (event.seq, event.previous_hash) == (2, place.hash)
    assert after.previous == event.head
    assert list(backend.read_events("acme")) == [event]
    assert read_event(event).what == what
    assert verify_chain(backend)[:6] == (1, 2, 0, 0, (), 1)
    assert [one.seq for one in backend.read_chain("acme", 1, None)] == [1, 3]
    fresh = backend.append_event("new", "approve", {}, by="ann", reason="first")
    assert (fresh.seq, fresh.previous_hash) == (1, GENESIS)
    assert verify_chain(backend, "new").holds


def test_what_is_let_go_and_its_event_are_stored_together(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_batch(backend, rows(3))
    before = verify_chain(backend)

    def interrupt(*_: object) -> None:
        raise InputError("interrupted")

    monkeypatch.setattr("demur.store.retention.link_event", interrupt)
    with pytest.raises(InputError, match="interrupted"):
        backend.retire_records("acme", moment(3), by="ops", reason="test")
    with pytest.raises(InputError, match="interrupted"):
        backend.erase_subject("acme", "user:ada", by="ops", reason="test")
    assert verify_chain(backend) == before
    monkeypatch.undo()
    monkeypatch.setattr("demur.store.retention._DELETE_RETIRED", "DELETE FROM nowhere")
    with pytest.raises(StorageError):
        backend.retire_records("acme", moment(3), by="ops", reason="test")
    assert verify_chain(backend) == before


def test_a_store_of_before_events_adopts_what_it_had_let_go(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("sqlite", "postgres"):
        first, second, *later = load_migrations(kind)
        # Today's code appends with functions of the schema.
        functions = "".join(step.sql for step in later if "demur_append_rows" in step.sql)
        steps = (first, second._replace(sql=second.sql + functions))
        monkeypatch.setattr(f"demur.store.{kind}._MIGRATIONS", steps)
    with closing(opener()) as old:
        places = store_batch(old, [*rows(4), row(9, tenant="zoo")])
        values = {"tenant": "acme", "seq": 2}
        with old._open_write() as execute:
            execute(old.dialect.begin_retire, {})
            execute(_DELETE_RETIRED, values)
            if old.dialect.end_retire:
                execute(old.dialect.end_retire, {})
            anchor = {**values, "record_hash": places[1].hash, "before": moment(3)}
            execute(_SAVE_ANCHOR, anchor)
            erase = "UPDATE decision_records SET sealed = NULL, subject = NULL WHERE seq = 3"
            execute(erase, {})
        heads = old.all_heads()
    monkeypatch.undo()

    with closing(opener()) as backend:
        checked = verify_chain(backend, heads=heads)
        acme, zoo = checked.chains
        assert checked.breaks == ()
        assert (acme.begins, acme.records, acme.erased, acme.events) == (3, 2, 1, 2)
        assert [one[:2] + one[3:8] for one in acme.let_go] == [
            ("retire", 5, "demur", "let go before events were links of the chain", None, 2, True),
            ("erase", 6, "demur", "let go before events were links of the chain", 1, None, True),
        ]
        assert zoo.let_go == ()


def test_a_wholly_retired_chain_goes_on(backend: Backend) -> None:
    store_batch(backend, rows(2100))
    assert backend.retire_records("acme", moment(5000), by="ops", reason="test") == 2100
    assert backend.list_tenants() == ["acme"]
    [place] = store_batch(backend, [row(3000)])

    assert backend.get_anchor("acme").seq == 2100
    assert place.previous.seq == 2102
    assert verify_chain(backend)[:5] == (1, 1, 0, 0, ())


# -- the store itself ----------------------------------------------------------------------


def test_rows_are_counted_by_kind(backend: Backend) -> None:
    store_batch(backend, [row(1), row(2, tenant="zoo")])

    assert backend.count_rows() == {
        "records": 2,
        "tenants": 2,
        "checkpoints": 0,
        "snapshots": 0,
        "experiences": 0,
        "labels": 0,
    }


def test_a_doctor_learns_what_the_store_is(backend: Backend) -> None:
    info = backend.info()

    assert info["kind"] in {"sqlite", "postgresql"}
    assert info["schema_version"] == (7 if info["kind"] == "postgresql" else 6)
    assert info["durability"] == "full"
    assert info["place"]


def test_a_closed_store_says_so(opener: Opener) -> None:
    backend = opener()
    backend.close()
    backend.close()

    with pytest.raises(StorageError, match="the store is closed"):
        backend.get_record("x")
    with pytest.raises(StorageError, match="the store is closed"):
        store_batch(backend, [row(1)])


def test_places_are_what_was_stored(backend: Backend) -> None:
    [place] = store_batch(backend, [row(1)])
    stored = backend.get_record(decision_id(1))

    assert stored is not None
    assert place == ChainPlace(genesis_head("acme"), stored.hash)


# -- the store over each -------------------------------------------------------------------


def test_a_store_returns_what_it_holds(backend: Backend) -> None:
    store = Store(backend)
    stored = store.put(make_record(1, request_id="r"), [Snapshot("sha256:1", "policy", "x")])
    again = store.put(make_record(2, request_id="r"))

    assert store.get(decision_id(1)) == stored.record
    assert (again.record, again.duplicate) == (stored.record, True)
    assert [one.decision_id for one in store.find_records(newest_first=True)] == [decision_id(1)]
    assert store.get_snapshot("sha256:1") == Snapshot("sha256:1", "policy", "x")


def test_callers_that_come_together_share_a_chain(backend: Backend) -> None:
    store = Store(backend)

    async def put_all() -> list[StoredRecord]:
        return await asyncio.gather(*(store.aput(make_record(n)) for n in range(1, 41)))

    stored = asyncio.run(put_all())
    with ThreadPoolExecutor(8) as pool:
        stored += pool.map(store.put, [make_record(n) for n in range(41, 81)])

    assert {one.record.decision_id for one in stored} == {decision_id(n) for n in range(1, 81)}
    assert {store.get(one.record.decision_id) == one.record for one in stored} == {True}
    assert verify_chain(backend)[:5] == (1, 80, 0, 0, ())
    store.close()


def test_a_bad_record_fails_alone(backend: Backend) -> None:
    store = Store(backend)
    store.put(make_record(1))

    async def put_all() -> list[StoredRecord | BaseException]:
        records = [make_record(number) for number in (2, 1, 3)]
        return await asyncio.gather(*map(store.aput, records), return_exceptions=True)

    kinds = [type(outcome) for outcome in asyncio.run(put_all())]
    assert kinds == [StoredRecord, StorageError, StoredRecord]
    assert verify_chain(backend)[:5] == (1, 3, 0, 0, ())
    store.close()


# -- watching ------------------------------------------------------------------------------


def stored(backend: Backend, *made: UnlinkedRow) -> None:
    store_batch(backend, made)


def test_tallies_count_decisions_reasons_and_findings_by_the_hour(backend: Backend) -> None:
    finding = {"code": "RCE_RISK", "surface": "code_execution", "detail": "x", "action": "warn"}
    stored(
        backend,
        row(1, sealed={"findings": (msgspec.convert(finding, Finding),)}),
        row(2, reason_codes=("RCE_RISK", "RATE_LIMIT"), verdict=Verdict.DENY),
        row(3_600_000),
    )
    backend.update_tallies("acme")

    counted = group_tallies(backend.read_tallies("acme", "2027-01-01T00", "2027-01-01T02"))

    assert set(counted.decisions) == {
        ("2027-01-01T00", "ESCALATE", "NEED_CONTEXT", "WORKFLOW_BLOCK", 1),
        ("2027-01-01T00", "DENY", "NEED_CONTEXT", "WORKFLOW_BLOCK", 1),
        ("2027-01-01T01", "ESCALATE", "NEED_CONTEXT", "WORKFLOW_BLOCK", 1),
    }
    assert set(counted.reasons) == {
        ("2027-01-01T00", "REFUND_OVER_ESCALATION_LIMIT", "ESCALATE", 1),
        ("2027-01-01T00", "RCE_RISK", "DENY", 1),
        ("2027-01-01T00", "RATE_LIMIT", "DENY", 1),
        ("2027-01-01T01", "REFUND_OVER_ESCALATION_LIMIT", "ESCALATE", 1),
    }
    assert counted.findings == (("2027-01-01T00", "code_execution", "RCE_RISK", "warn", 1),)


def test_a_record_is_tallied_once_however_often_tallies_are_updated(backend: Backend) -> None:
    for number in range(1, 4):
        stored(backend, row(number))
        backend.update_tallies(None)
        backend.update_tallies("acme")

    counted = group_tallies(backend.read_tallies(None, "2027", "2028"))
    assert [one.number for one in counted.decisions] == [3]


def test_tallies_of_one_tenant_leave_the_others_out(backend: Backend) -> None:
    stored(backend, row(1), row(2, tenant="other"))
    backend.update_tallies("acme")

    assert len(backend.read_tallies("acme", "2027", "2028")) == 2
    assert backend.read_tallies("other", "2027", "2028") == []
    backend.update_tallies(None)
    assert [one.number for one in backend.read_tallies(None, "2027", "2028")] == [2, 2]


def test_processes_that_tally_at_once_count_nothing_twice(opener: Opener) -> None:
    first, second = opener(), opener()
    stored(first, *rows(200))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda backend: backend.update_tallies(None), [first, second] * 8))

    assert [one.number for one in first.read_tallies(None, "2027", "2028")] == [200, 200]
    first.close()
    second.close()


def key(number: int, **fields: Any) -> ApiKey:
    made = ApiKey(
        key_id=f"k{number}",
        tenant="acme",
        roles="decide read",
        digest=f"sha256:{number}",
        created_at=moment(number),
        expires_at=None,
        revoked_at=None,
        note="",
    )
    return made._replace(**fields)


def test_a_key_is_found_by_its_digest_until_it_is_revoked(backend: Backend) -> None:
    backend.add_key(key(1))
    backend.add_key(key(2, expires_at=moment(9)))

    assert backend.find_key("sha256:2") == key(2, expires_at=moment(9))
    assert backend.find_key("sha256:3") is None
    assert backend.revoke_key("k1", moment(3))
    assert not backend.revoke_key("k1", moment(4))
    assert not backend.revoke_key("k3", moment(4))
    assert backend.list_keys() == [key(1, revoked_at=moment(3)), key(2, expires_at=moment(9))]


def test_a_key_cannot_be_added_twice(backend: Backend) -> None:
    backend.add_key(key(1))

    with pytest.raises(StorageError):
        backend.add_key(key(1))


def test_the_newest_sessions_of_a_key_are_kept_until_they_end(backend: Backend) -> None:
    def login(number: int, key_id: str = "k1", hours: int = 12) -> LoginSession:
        ends = f"2027-01-02T{hours:02}:00:00.000Z"
        return LoginSession(f"sha256:{number}", key_id, moment(number), ends)

    backend.add_session(login(900, "k2"))
    for number in range(105):
        backend.add_session(login(number))
    left = backend.list_sessions()
    assert sorted(one.created_at for one in left if one.key_id == "k1") == sorted(
        moment(number) for number in range(5, 105)
    )
    backend.delete_session("sha256:900")
    backend.delete_session("sha256:900")
    assert login(900, "k2") not in backend.list_sessions()
    late = LoginSession("sha256:late", "k2", "2027-01-02T13:00:00.000Z", "2027-01-03")
    backend.add_session(late)
    assert backend.list_sessions() == [late]


def test_labels_are_found_by_kind_value_tenant_and_time(backend: Backend) -> None:
    made = [
        Label(decision_id(number), tenant, moment(number), kind, value, "", "ada")
        for number, tenant, kind, value in [
            (1, "acme", "review", "good"),
            (2, "acme", "review", "false_refusal"),
            (3, "other", "review", "false_refusal"),
            (4, "acme", "outcome", "false_refusal"),
        ]
    ]
    for label in made:
        backend.add_labels([label])

    wrong = ("false_refusal", "missed_harm")
    assert list(backend.find_labels("acme", "review", wrong, "")) == [made[1]]
    assert list(backend.find_labels(None, "review", wrong, "")) == made[1:3]
    assert list(backend.find_labels(None, "review", wrong, moment(3))) == [made[2]]
    assert list(backend.find_labels("acme", "review", ("good",), "")) == [made[0]]


def test_many_labels_are_read_in_pages(backend: Backend) -> None:
    for number in range(1, 1012):
        backend.add_labels(
            [Label(decision_id(1), "acme", moment(1), "review", "good", str(number), "")]
        )

    read = list(backend.find_labels(None, "review", ("good",), ""))
    assert [label.note for label in read] == [str(number) for number in range(1, 1012)]


def test_records_are_paged_from_the_newest_and_narrowed_to_what_nobody_reviewed(
    backend: Backend,
) -> None:
    stored(backend, *rows(5))
    backend.add_labels([Label(decision_id(4), "acme", moment(9), "review", "good", "", "ada")])
    backend.add_labels([Label(decision_id(3), "acme", moment(9), "outcome", "failure", "", "ada")])

    assert found(backend, newest_first=True, before=decision_id(4)) == [3, 2, 1]
    assert found(backend, newest_first=True, tenant="acme", before=decision_id(2)) == [1]
    unreviewed = backend.scan_records(RecordFilter(unreviewed=True), newest_first=True)
    assert [int(one.decision_id[3:]) for one in unreviewed] == [5, 3, 2, 1]
    assert len(list(backend.scan_records(RecordFilter(unreviewed=False)))) == 5


def test_records_are_found_by_output_class_and_request(backend: Backend) -> None:
    denied = {"verdict": Verdict.DENY, "decision_output": DecisionOutput.REFUSE_WITH_PATH}
    stored(
        backend,
        row(1, request_id="a"),
        row(2, refusal_class=RefusalClass.HARD_BLOCK, reason_codes=("RCE_RISK",), **denied),
    )

    assert found(backend, decision_output="REFUSE_WITH_PATH") == [2]
    assert found(backend, outcome="refused") == [2]
    assert found(backend, outcome="could_not_judge") == []
    assert found(backend, refusal_class="HARD_BLOCK") == [2]
    assert found(backend, request_id="a", tenant="acme") == [1]


def test_a_withdrawn_review_is_none_and_is_counted_as_such(opener: Opener) -> None:
    def review(number: int, value: str, minute: int, kind: str = "review") -> Label:
        return Label(decision_id(number), "acme", moment(minute), kind, value, "", "ada")

    with closing(opener()) as backend:
        store = Store(backend)
        store.put_many([make_record(number) for number in range(1, 6)], ())
        for one in (
            review(1, "good", 10),
            review(2, "false_refusal", 10),
            review(2, "withdrawn", 11),
            review(3, "good", 10),
            review(3, "withdrawn", 11),
            review(3, "missed_harm", 11),
            review(4, "failure", 12, "outcome"),
        ):
            store.add_label(one)
        waiting = [
            record.decision_id for record in store.find_records(RecordFilter(unreviewed=True))
        ]
        [record, *_] = store.find_records(RecordFilter())

        assert waiting == [decision_id(number) for number in (2, 4, 5)]
        assert {name: one.value for name, one in store.find_reviews(tenant="acme").items()} == {
            decision_id(1): "good",
            decision_id(3): "missed_harm",
        }
        assert store.find_reviews(tenant="zoo") == {}
        for tenant, count in (("acme", 3), (None, 3), ("zoo", 0)):
            left = store.count_unreviewed(tenant, datetime(2026, 1, 1, tzinfo=UTC))
            assert left.get(record.verdict, 0) == count
