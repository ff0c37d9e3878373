from contextlib import closing

from store_records import decision_id, make_record

from demur.store.batch import store_batch
from demur.store.chain import genesis_head, link_hash
from demur.store.columns import record_to_row
from demur.store.rows import ChainHead
from demur.store.sqlite.backend import SqliteBackend


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


def test_an_empty_batch_only_marks() -> None:
    with closing(SqliteBackend(":memory:")) as backend:
        store_batch(backend, [record_to_row(make_record(number)) for number in (1, 2)])

        assert store_batch(backend, [], [decision_id(2), "unknown"]) == []
        assert [row.confirmed for row in backend.read_chain("acme", 1, None)] == [True, False]
