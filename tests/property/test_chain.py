"""Properties of the chain of decision records."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples
from support.store_records import make_record

from demur.store.opening import open_store
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
    with stored(puts, sizes) as store:
        before = verify_chain(store.backend).records
        heads = store.list_heads()
        moments = [record.created_at for record in store.find_records()]
        tenant = puts[0][0]
        erased = store.erase_subject(tenant, "user:ada", by="ops", reason="test")
        retired = store.retire_records(
            tenant, moments[min(kept, len(moments) - 1)], by="ops", reason="test"
        )
        checked = verify_chain(store.backend, heads=heads)

        assert checked.breaks == ()
        assert checked.records == before - retired
        assert checked.erased == erased - retired
