"""Properties of the chain of decision records and of events, and of its anchors."""

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gates import KEY, RING
from support.property_runs import examples
from support.store_records import make_record

from demur.audit.anchors import read_anchor, write_anchor
from demur.errors import InputError
from demur.model.record import Amount
from demur.store.events import event_hash
from demur.store.grant_tables import RecordGrants
from demur.store.linking import record_to_row, store_batch
from demur.store.opening import open_store
from demur.store.rows import GENESIS, ApprovalRow, ChainHead, link_hash
from demur.store.store import Store
from demur.store.verify import verify_chain

TENANTS = st.sampled_from(["acme", "other", "ä/ö \n 1", ""])
TEXTS = st.text(max_size=12)
PUTS = st.lists(st.tuples(TENANTS, TEXTS, st.integers(0, 4)), min_size=1, max_size=12)
SIZES = st.lists(st.integers(1, 4), min_size=12, max_size=12)
COLUMNS = st.sampled_from(["record", "sealed"])


@contextmanager
def stored(puts: list[tuple[str, str, int]], sizes: list[int]) -> Iterator[Store]:
    """Yield a store in which records were put in groups; some repeat a request."""
    records = [
        make_record(
            number,
            tenant=tenant,
            reason=text,
            request_id=f"r-{request}" if request else None,
            sealed={"request": {"text": text}},
        )
        for number, (tenant, text, request) in enumerate(puts)
    ]
    with open_store(":memory:") as store:
        for size in sizes:
            group, records = records[:size], records[size:]
            store.put_many(group)
        yield store


def connection_of(store: Store) -> sqlite3.Connection:
    connection = store.backend._connections.writer()  # type: ignore[attr-defined]
    assert isinstance(connection, sqlite3.Connection)
    return connection


@given(PUTS, SIZES)
@settings(max_examples=examples(50))
def test_whatever_is_put_the_chain_holds(
    puts: list[tuple[str, str, int]], sizes: list[int]
) -> None:
    """INVARIANT: each record follows the one stored before it for its tenant."""
    keys = [(tenant, request) for tenant, _, request in puts if request]
    fresh = len(puts) - len(keys) + len(set(keys))
    with stored(puts, sizes) as store:
        checked = verify_chain(store.backend)

        assert checked.breaks == ()
        assert checked.records == fresh
        for tenant in {tenant for tenant, _, _ in puts}:
            rows = list(store.backend.read_chain(tenant, 1, None))
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
            assert [row.previous for row in rows[1:]] == [row.hash for row in rows[:-1]]
            ids = [row.decision_id for row in rows]
            assert ids == sorted(ids)


ODD_TEXTS = st.one_of(
    st.sampled_from(["", "NULL", "{}", '"', "\\", "a b", "ä/ö \n 1"]),
    st.text(st.sampled_from("a\"\\{},' \n\té\u2028\U0001f600"), max_size=6),
)
ODD_ROWS = st.builds(
    dict[str, Any],
    tenant=ODD_TEXTS,
    request_id=st.none() | ODD_TEXTS,
    action_type=ODD_TEXTS,
    reason_codes=st.lists(ODD_TEXTS, max_size=2).map(tuple),
    amount=st.none() | st.builds(Amount, value=st.none() | st.floats(0, 1e9), currency=ODD_TEXTS),
    sealed=st.fixed_dictionaries({"requester": st.none() | ODD_TEXTS}),
)
ODD_BATCHES = st.lists(
    st.lists(st.tuples(ODD_ROWS, st.none() | ODD_TEXTS), max_size=4), min_size=1, max_size=4
)


def test_postgresql_puts_rows_and_approvals_where_sqlite_does(postgres_url: str) -> None:
    """INVARIANT: each record follows the one stored before it for its tenant."""
    numbers = itertools.count(1)

    @given(ODD_BATCHES)
    @settings(max_examples=examples(60))
    def compare(batches: list[list[tuple[dict[str, Any], str | None]]]) -> None:
        run = next(numbers)
        tenants = set()
        with open_store(":memory:") as model:
            for batch in batches:
                rows, grants = [], {}
                for fields, note in batch:
                    # Rows of other runs stay in the database.
                    tenant = f"{fields['tenant']}{run}"
                    record = make_record(next(numbers), **{**fields, "tenant": tenant})
                    rows.append(record_to_row(record))
                    tenants.add(tenant)
                    if note is not None:
                        opened = ApprovalRow(
                            decision_id=record.decision_id,
                            tenant=tenant,
                            action_type=record.action_type,
                            reason_codes=record.reason_codes,
                            kinds=("approval",),
                            needed=2,
                            requested_at=record.created_at,
                            expires_at=record.created_at,
                            group_name=note,
                            note=note,
                        )
                        grants[record.decision_id] = RecordGrants(opens=opened)
                expected = store_batch(model.backend, rows, grants=grants)
                assert store_batch(store.backend, rows, grants=grants) == expected
            for tenant in tenants:
                for read in ("read_linked", "list_approvals"):
                    values = (tenant, 1, None) if read == "read_linked" else (tenant,)
                    found, wanted = (
                        list(getattr(one.backend, read)(*values)) for one in (store, model)
                    )
                    assert found == wanted

    with open_store(postgres_url) as store:
        compare()
        assert verify_chain(store.backend).breaks == ()


@given(PUTS, SIZES, COLUMNS, st.data())
@settings(max_examples=examples(75))
def test_any_changed_byte_of_any_record_is_found(
    puts: list[tuple[str, str, int]], sizes: list[int], column: str, data: st.DataObject
) -> None:
    with stored(puts, sizes) as store:
        rows = [
            row
            for head in store.list_heads()
            for row in store.backend.read_chain(head.tenant, 1, None)
        ]
        row = data.draw(st.sampled_from(rows))
        raw = bytearray(row.record if column == "record" else row.sealed or b"")
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= data.draw(st.integers(1, 255))
        connection = connection_of(store)
        for name in ("not_changed", "only_erased"):
            connection.execute(f"DROP TRIGGER decision_records_are_{name}")
        connection.execute(
            f"UPDATE decision_records SET {column} = CAST(? AS TEXT) WHERE decision_id = ?",  # noqa: S608 - ours
            (bytes(raw), row.decision_id),
        )
        [broken] = verify_chain(store.backend).breaks

        assert (broken.tenant, broken.seq) == (row.tenant, row.seq)
        assert broken.decision_id == row.decision_id


@given(PUTS, SIZES, st.integers(0, 12))
@settings(max_examples=examples(25))
def test_letting_go_keeps_the_chain(
    puts: list[tuple[str, str, int]], sizes: list[int], kept: int
) -> None:
    """INVARIANT: what was let go is named by a link of the chain."""
    with stored(puts, sizes) as store:
        before = verify_chain(store.backend).records
        heads = store.list_heads()
        moments = [record.created_at for record in store.find_records()]
        tenant = puts[0][0]
        erased = store.erase_subject(tenant, "user:ada", by="ops", reason="test")
        time = moments[min(kept, len(moments) - 1)]
        retired = store.retire_records(tenant, time, by="ops", reason="test")
        checked = verify_chain(store.backend, heads=heads)
        [chain] = [one for one in checked.chains if one.tenant == tenant]

        assert checked.breaks == ()
        assert checked.records == before - retired
        assert checked.erased == erased - retired
        for kind, count in (("erase", erased), ("retire", retired)):
            assert sum(one.records or 0 for one in chain.let_go if one.kind == kind) == count
        connection = connection_of(store)
        connection.execute("DROP TRIGGER chain_events_are_not_deleted")
        connection.execute("DELETE FROM chain_events")
        assert bool(verify_chain(store.backend).breaks) == bool(erased or retired)


KINDS = st.sampled_from(["retire", "erase", "approve", "x"])
WHATS = st.dictionaries(TEXTS, st.none() | TEXTS | st.integers(-5, 5), max_size=3)


@given(PUTS, SIZES, st.lists(st.tuples(KINDS, WHATS), min_size=1, max_size=4))
@settings(max_examples=examples(25))
def test_events_of_any_kind_are_links_and_no_decisions(
    puts: list[tuple[str, str, int]], sizes: list[int], events: list[tuple[str, dict[str, Any]]]
) -> None:
    """INVARIANT: an event never counts as a decision."""
    since = datetime(2026, 12, 31, tzinfo=UTC)
    with stored(puts, sizes) as store:
        tenant, counts = puts[0][0], store.count_rows()
        before = list(store.find_records())
        tallies = store.read_tallies(None, since, since + timedelta(days=40))
        for kind, what in events:
            store.backend.append_event(tenant, kind, what, by="ops", reason="test")
        checked = verify_chain(store.backend)

        assert checked.breaks == ()
        assert (checked.records, checked.events) == (len(before), len(events))
        assert list(store.find_records()) == before
        assert store.count_rows() == counts
        assert store.read_tallies(None, since, since + timedelta(days=40)) == tallies


@given(PUTS, SIZES, st.data())
@settings(max_examples=examples(50))
def test_any_changed_byte_of_any_event_is_found(
    puts: list[tuple[str, str, int]], sizes: list[int], data: st.DataObject
) -> None:
    with stored(puts, sizes) as store:
        tenant = puts[0][0]
        store.erase_subject(tenant, "user:ada", by="ops", reason="test")
        [row] = store.backend.read_events(tenant)
        raw = bytearray(row.event)
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        connection = connection_of(store)
        connection.execute("DROP TRIGGER chain_events_are_not_changed")
        connection.execute("UPDATE chain_events SET event = CAST(? AS TEXT)", (bytes(raw),))
        [broken] = verify_chain(store.backend).breaks

        assert (broken.tenant, broken.seq) == (tenant, row.seq)


@given(TEXTS, st.integers(0, 9), TEXTS, st.binary(max_size=40))
def test_events_and_records_have_hashes_of_their_own(
    tenant: str, seq: int, decision_id: str, content: bytes
) -> None:
    """INVARIANT: no event has the hash of a record, and no record that of an event."""
    head = ChainHead(tenant, seq, GENESIS)
    texts = (decision_id.encode() + b"\n" + GENESIS.encode() + b"\n" + content, content)

    assert link_hash(head, decision_id, content) not in {event_hash(head, text) for text in texts}


@given(st.data())
@settings(max_examples=examples(75))
def test_any_changed_byte_of_an_anchor_is_found(data: st.DataObject) -> None:
    """INVARIANT: an anchor in which any byte was changed is refused."""
    line = write_anchor([ChainHead("acme", 3, GENESIS)], "2027-01-01T00:00:00.000Z", KEY)
    raw = bytearray(line)
    raw[data.draw(st.integers(0, len(raw) - 2))] ^= data.draw(st.integers(1, 255))

    assert read_anchor(line, RING).signed_by == KEY.holder
    with pytest.raises(InputError):
        read_anchor(bytes(raw), RING)
