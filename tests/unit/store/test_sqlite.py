import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.store_records import decision_id, make_record

from demur.errors import InputError
from demur.store.backend import RecordFilter, StorageError, Transaction, UnavailableError
from demur.store.linking import record_to_row
from demur.store.opening import open_store
from demur.store.sqlite import SqliteBackend
from demur.store.store import Store
from demur.store.verify import verify_chain

LAST_WEEK = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days')"


@pytest.fixture
def shell(path: Path, store: Store) -> Iterator[sqlite3.Connection]:
    """Return a connection as people open one, beside the store."""
    store.put_many(
        [
            make_record(1, created_at="2027-01-01T00:00:00.000Z"),
            make_record(2, reason_codes=("SECRET_LEAK", "CHARGEBACK_RISK_BLOCK")),
            make_record(3, reason_codes=()),
        ]
    )
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def test_one_row_per_decision_and_code_can_be_queried(shell: sqlite3.Connection) -> None:
    rows = shell.execute(
        "SELECT reason_code, COUNT(*), MAX(tenant) FROM decision_reasons "
        "WHERE verdict = 'ESCALATE' GROUP BY reason_code ORDER BY reason_code"
    ).fetchall()

    assert rows == [
        ("CHARGEBACK_RISK_BLOCK", 1, "acme"),
        ("REFUND_OVER_ESCALATION_LIMIT", 1, "acme"),
        ("SECRET_LEAK", 1, "acme"),
    ]


def test_the_record_can_be_queried_as_json(shell: sqlite3.Connection) -> None:
    found = shell.execute(
        "SELECT record ->> '$.policy.policy_id', json_extract(sealed, '$.requester'), "
        "typeof(record) FROM decision_records"
    ).fetchone()

    assert found == ("support", "user:ada", "text")


def test_times_compare_with_the_idioms_of_sqlite(path: Path, store: Store) -> None:
    with closing(sqlite3.connect(path)) as connection:
        ages = ("-8 days", "-7 days", "-6 days")
        for number, age in enumerate(ages):
            query = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)"
            [(created_at,)] = connection.execute(query, (age,)).fetchall()
            store.put(make_record(number, created_at=created_at))

        def found(condition: str) -> list[str]:
            query = f"SELECT decision_id FROM decision_records WHERE {condition} ORDER BY 1"  # noqa: S608 - ours
            return [row[0] for row in connection.execute(query)]

        assert found(f"created_at > {LAST_WEEK}") == [decision_id(2)]
        assert found("julianday(created_at) > julianday('now', '-7 days')") == [decision_id(2)]
        assert found("date(created_at) = date('now', '-6 days')") == [decision_id(2)]
        # The plain idiom takes in the whole day it falls on, and never more.
        assert found("created_at > datetime('now', '-7 days')") == [decision_id(1), decision_id(2)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decision_records SET record = '{}'",
        "UPDATE decision_records SET record_hash = ''",
        "UPDATE decision_records SET seq = 9",
        "UPDATE decision_records SET previous_hash = ''",
        "UPDATE decision_records SET decision_id = 'x'",
        "UPDATE decision_records SET verdict = 'ALLOW'",
        "UPDATE decision_records SET reason_codes = '[]'",
        "UPDATE decision_records SET sealed = '{}'",
        "UPDATE decision_records SET sealed = NULL",
        "UPDATE decision_records SET subject = 'user:bob', sealed = NULL",
        "UPDATE decision_records SET confirmed = 1",
        "DELETE FROM decision_records",
    ],
)
def test_records_are_guarded_against_accidents(shell: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="record"):
        shell.execute(statement)


def test_the_trigger_against_deletion_is_restored_after_retirement(
    shell: sqlite3.Connection, store: Store
) -> None:
    assert store.retire_records("acme", "2027-01-01T00:00:00.002Z", by="ops", reason="test") == 1

    with pytest.raises(sqlite3.IntegrityError, match="retired"):
        shell.execute("DELETE FROM decision_records")


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("SELECT 1 FROM decision_records WHERE decision_id = ?", "autoindex"),
        ("SELECT 1 FROM decision_records WHERE tenant = ? AND request_id = ?", "by_request"),
        ("SELECT 1 FROM decision_records WHERE tenant = ? AND created_at > ?", "by_time"),
        ("SELECT 1 FROM decision_records WHERE +tenant = ? AND subject = ?", "by_subject"),
        ("SELECT 1 FROM decision_records WHERE +tenant = ? AND root_id = ?", "by_root"),
        ("SELECT 1 FROM decision_records WHERE tenant = ? ORDER BY seq LIMIT 9", "by_seq"),
    ],
)
def test_each_question_has_its_index(shell: sqlite3.Connection, statement: str, index: str) -> None:
    values = ["x"] * statement.count("?")
    [step] = shell.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()

    assert index in step[3]


@pytest.mark.parametrize(
    "wanted", [RecordFilter(tenant="acme"), RecordFilter(tenant="acme", since="2027")]
)
def test_a_tenants_records_are_read_by_time_without_sorting(
    store: Store, shell: sqlite3.Connection, wanted: RecordFilter
) -> None:
    asked: list[str] = []
    reader = store.backend._connections.reader  # type: ignore[attr-defined]
    with reader() as connection:
        connection.set_trace_callback(asked.append)
    list(store.find_records(wanted))
    with reader() as connection:
        connection.set_trace_callback(None)
    [query] = [text for text in asked if "ORDER BY" in text]

    plan = " ".join(step[3] for step in shell.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "by_time" in plan
    assert "B-TREE" not in plan


def test_a_full_disk_is_an_error_and_the_store_recovers(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(0))
        writer = store.backend._connections.writer()  # type: ignore[attr-defined]
        [pages] = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(UnavailableError, match="full") as caught:
            list(map(store.put, map(make_record, range(1, 20))))
        assert caught.value.help is not None
        stored = store.count_rows()["records"]
        assert 1 <= stored < 20
        assert verify_chain(store.backend).records == stored
        writer.execute("PRAGMA max_page_count = 1000000")

        store.put(make_record(50))
        assert verify_chain(store.backend).records == stored + 1


def test_a_connection_that_cannot_roll_back_is_replaced(store: Store) -> None:
    connections = store.backend._connections  # type: ignore[attr-defined]
    broken = connections.writer()
    with pytest.raises(StorageError), store.backend.transaction():
        broken.close()
    assert connections.writer() is not broken
    assert store.put(make_record(1)).record.chain is not None


def _append_and_fail(write: Transaction) -> None:
    write.append_rows([record_to_row(make_record(3))])
    raise TypeError


def test_an_error_of_ours_inside_a_write_rolls_it_back(store: Store) -> None:
    store.put(make_record(1))
    with pytest.raises(TypeError), store.backend.transaction() as write:
        _append_and_fail(write)
    assert store.count_rows()["records"] == 1
    assert store.put(make_record(2)).record.chain is not None


def test_an_interrupted_commit_is_rolled_back(path: Path) -> None:
    class Interrupted:
        def __init__(self, cursor: sqlite3.Cursor) -> None:
            self.cursor, self.connection = cursor, cursor.connection

        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            if statement == "COMMIT":
                raise KeyboardInterrupt
            return self.cursor.execute(statement, *values)  # type: ignore[arg-type]

    with closing(SqliteBackend(str(path))) as backend:
        with pytest.raises(KeyboardInterrupt), backend.transaction() as write:
            write.cursor = Interrupted(write.cursor)  # type: ignore[assignment]
        with backend.transaction() as write:
            assert write.lock_heads(["acme"])["acme"].seq == 0


def test_text_that_is_no_text_is_refused_as_a_value(store: Store) -> None:
    with pytest.raises(StorageError):
        store.get("\ud800")
    with pytest.raises(StorageError):
        store.by_request("acme", "\ud800")


def test_durability_is_one_of_two(path: Path) -> None:
    with pytest.raises(InputError, match="full"):
        SqliteBackend(str(path), durability="none")  # type: ignore[arg-type]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_sets_how_the_disk_is_waited_for(
    path: Path, durability: str, level: int
) -> None:
    with closing(SqliteBackend(str(path), durability=durability)) as backend:  # type: ignore[arg-type]
        writer = backend._connections.writer()

        assert writer.execute("PRAGMA synchronous").fetchone() == (level,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_store_in_memory_works_alike() -> None:
    with open_store(":memory:") as store:
        store.put_many([make_record(number) for number in range(250)])

        assert verify_chain(store.backend).records == 250
        assert len(list(store.find_records())) == 250
        assert store.erase_subject("acme", "user:ada", by="ops", reason="test") == 250
