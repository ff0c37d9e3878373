"""What is special to PostgreSQL: many writers, servers that go away, types, guards."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from support.postgres_server import Server, running_server
from support.store_records import decision_id, make_record, moment

from demur.errors import InputError
from demur.store.backend import StorageError, UnavailableError
from demur.store.linking import record_to_row, store_batch
from demur.store.opening import open_store
from demur.store.postgres import open_postgres
from demur.store.postgres_connections import (
    _INHERITED,
    Connection,
    PostgresConnections,
    _after_fork,
)
from demur.store.rows import UnlinkedRow
from demur.store.sql import Backend
from demur.store.verify import verify_chain

TESTS = Path(__file__).parents[2]
WRITER = """
import sys
from support.store_records import make_record
from demur.store.opening import open_store

url, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_store(url) as store:
    for number in range(first, first + count):
        print(store.put(make_record(number)).record.decision_id)
"""


@pytest.fixture
def backend(postgres_url: str) -> Iterator[Backend]:
    with closing(open_postgres(postgres_url, timeout_s=10)) as opened:
        yield opened


def row(number: int, **fields: Any) -> UnlinkedRow:
    return record_to_row(make_record(number, **fields))


def run(url: str, statement: str, *given: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement.encode(), given)
        return cursor.fetchall() if cursor.description else []


def assert_whole(backend: Backend, tenant: str = "acme") -> list[str]:
    """Check every link of a chain; return the ids in it."""
    assert verify_chain(backend, tenant).breaks == ()
    return [one.decision_id for one in backend.read_chain(tenant, 1, None)]


# -- opening -------------------------------------------------------------------------------


def test_many_may_open_a_fresh_database_at_once(postgres_url: str) -> None:
    start = threading.Barrier(6, timeout=30)

    def open_one(number: int) -> None:
        start.wait()
        with closing(open_postgres(postgres_url)) as backend:
            store_batch(backend, [row(number)])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(open_one, range(6)))

    with closing(open_postgres(postgres_url)) as backend:
        assert len(assert_whole(backend)) == 6


def test_a_database_that_is_newer_than_the_code_is_left_alone(postgres_url: str) -> None:
    open_postgres(postgres_url).close()
    run(postgres_url, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")

    with pytest.raises(StorageError, match="schema version 99 is newer than this demur knows"):
        open_postgres(postgres_url)


def test_a_database_that_cannot_hold_all_text_is_refused(
    postgres_server: Server, postgres_url: str
) -> None:
    url = f"{postgres_url}".replace("/demur_", "/latin_")
    name = url.partition("?")[0].rpartition("/")[2]
    postgres_server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(StorageError, match="cannot hold all text"):
            open_postgres(url)
    finally:
        postgres_server.drop(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@host:port/x",
        "host=localhost password=s3cret what=ever",
        "postgresql://user:s3cret@127.0.0.1:1/demur",
        "postgresql://user:s3cret@/demur?host=/nowhere",
    ],
)
def test_a_connection_error_does_not_show_the_password(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_postgres(url, timeout_s=2)

    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__


def test_a_server_that_refuses_a_setting_is_not_used_without_it(postgres_url: str) -> None:
    with pytest.raises(StorageError, match="lock_timeout"):
        open_postgres(postgres_url, timeout_s=1e9)


def test_a_durability_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="durability is `full` or `normal`, not `none`"):
        open_postgres("postgresql:///x", durability="none")  # type: ignore[arg-type]


def test_a_store_is_opened_by_its_address(postgres_url: str) -> None:
    with open_store(postgres_url, durability="normal", busy_timeout_s=7) as store:
        stored = store.put(make_record(1))
        info = store.info()

        assert store.get(decision_id(1)) == stored.record
        assert (info["kind"], info["durability"]) == ("postgresql", "normal")
        assert "postgres@" not in info["place"]
        with store.backend.transaction() as write:
            assert settings(write)["statement_timeout"] == "7s"


# -- durability ----------------------------------------------------------------------------


def settings(write: Any) -> dict[str, str]:
    names = ("synchronous_commit", "statement_timeout", "TimeZone", "transaction_isolation")
    asked = ", ".join(f"current_setting('{name}')" for name in names)
    found = write._connection.execute(f"SELECT {asked}").fetchone()
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize(
    ("durability", "server", "expected"),
    [
        ("full", "on", "on"),
        ("full", "off", "on"),
        ("full", "remote_apply", "remote_apply"),
        ("normal", "on", "off"),
    ],
)
def test_durability_is_kept_whatever_the_server_prefers(
    postgres_url: str, durability: Any, server: str, expected: str
) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = '{server}'")
    run(postgres_url, f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    run(postgres_url, f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")

    with closing(open_postgres(postgres_url, durability=durability)) as backend:
        with backend.transaction() as write:
            seen = settings(write)
        assert backend.info()["durability"] == durability

    assert seen["synchronous_commit"] == expected
    assert seen["transaction_isolation"] == "read committed"
    assert seen["TimeZone"] == "UTC"


# -- many writers --------------------------------------------------------------------------


def test_processes_that_write_one_chain_keep_it_whole(postgres_url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, postgres_url, str(first), "25"],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (100, 200, 300, 400)
    ]
    returned = [process.communicate(timeout=60)[0].split() for process in processes]

    with closing(open_postgres(postgres_url)) as backend:
        stored = assert_whole(backend)
    assert [len(ids) for ids in returned] == [25] * 4
    assert sorted(stored) == sorted(one for ids in returned for one in ids)


def test_one_request_from_many_connections_is_stored_once(postgres_url: str) -> None:
    start = threading.Barrier(5, timeout=30)

    def ask(number: int) -> str:
        with open_store(postgres_url) as store:
            start.wait()
            return store.put(make_record(number, request_id="same")).record.decision_id

    with ThreadPoolExecutor(5) as pool:
        answers = set(pool.map(ask, range(1, 6)))

    [count] = run(postgres_url, "SELECT count(*) FROM decision_records")
    assert count == (1,)
    assert len(answers) == 1


def test_writers_of_the_same_tenants_do_not_wait_for_each_other(postgres_url: str) -> None:
    tenants = [f"tenant-{number}" for number in range(8)]

    def write(turn: int) -> None:
        with closing(open_postgres(postgres_url, timeout_s=20)) as backend:
            for number in range(10):
                order = tenants if turn % 2 else tenants[::-1]
                batch = [
                    row(1000 * turn + 100 * number + place, tenant=tenant)
                    for place, tenant in enumerate(order)
                ]
                store_batch(backend, batch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    with closing(open_postgres(postgres_url)) as backend:
        assert {len(assert_whole(backend, tenant)) for tenant in tenants} == {40}


def test_a_head_that_stays_locked_is_not_waited_for_for_ever(postgres_url: str) -> None:
    with (
        closing(open_postgres(postgres_url, timeout_s=0.2)) as backend,
        psycopg.connect(postgres_url) as other,
    ):
        store_batch(backend, [row(1)])
        other.execute("SELECT * FROM chain_heads FOR UPDATE")
        with pytest.raises(UnavailableError, match="timeout"):
            store_batch(backend, [row(2)])
        other.rollback()
        store_batch(backend, [row(3)])

        assert assert_whole(backend) == [decision_id(1), decision_id(3)]


def test_a_batch_that_waits_for_one_of_its_heads_in_vain_stores_nothing(postgres_url: str) -> None:
    with (
        closing(open_postgres(postgres_url, timeout_s=0.2)) as backend,
        psycopg.connect(postgres_url) as other,
    ):
        store_batch(backend, [row(1), row(2, tenant="zoo")])
        heads = backend.all_heads()
        other.execute("SELECT * FROM chain_heads WHERE tenant = 'zoo' FOR UPDATE")
        with pytest.raises(UnavailableError, match="timeout"):
            store_batch(backend, [row(3), row(4, tenant="zoo")])

        assert backend.all_heads() == heads
        assert assert_whole(backend) == [decision_id(1)]


def test_a_record_that_somebody_holds_is_marked_later(backend: Backend, postgres_url: str) -> None:
    ids = [decision_id(1), decision_id(2)]
    store_batch(backend, [row(1), row(2)])
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT * FROM decision_records WHERE decision_id = %s FOR UPDATE", ids[:1])
        assert backend.mark_unconfirmed(ids) == ids[:1]
    assert [one.confirmed for one in backend.read_chain("acme", 1, None)] == [True, False]
    assert backend.mark_unconfirmed(ids[:1]) == []
    assert [one.confirmed for one in backend.read_chain("acme", 1, None)] == [False, False]


def test_a_batch_too_large_for_one_statement_is_stored_whole_or_not_at_all(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.store.postgres._MAX_ARRAY_LENGTH", 1)
    places = store_batch(backend, [row(2, tenant="zoo"), row(1), row(3, tenant="zoo")])
    with pytest.raises(StorageError, match="duplicate key"):
        store_batch(backend, [row(4), row(5, tenant="zoo"), row(3, tenant="zoo")])

    assert [(one.previous.tenant, one.previous.seq) for one in places] == [
        ("zoo", 0),
        ("acme", 0),
        ("zoo", 1),
    ]
    assert assert_whole(backend) == [decision_id(1)]
    assert assert_whole(backend, "zoo") == [decision_id(2), decision_id(3)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_leaves_the_connections_of_its_parent_alone(backend: Backend) -> None:
    store_batch(backend, [row(1)])
    assert backend.get_record(decision_id(1)) is not None
    child = os.fork()
    if child == 0:  # pragma: no cover - counted in the child, which ends without a word
        status = 1
        try:
            store_batch(backend, [row(2)])
            status = 0 if backend.get_record(decision_id(2)) is not None else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    store_batch(backend, [row(3)])

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(assert_whole(backend)) == 3


def test_connections_inherited_by_a_child_are_kept_and_not_used(postgres_url: str) -> None:
    settings: dict[str, Any] = {"durability": "full", "timeout_s": 10, "deadline_s": None}
    with closing(PostgresConnections(postgres_url, **settings)) as connections:
        with connections.writer() as connection, connections.reader() as reader:
            before = {connection.info.backend_pid, reader.info.backend_pid}
        _after_fork()
        # Nothing was forked here, so they are still ours to close.
        for writer, pool in _INHERITED:
            if writer is not None:
                writer.close()
            pool.close()
        _INHERITED.clear()
        with connections.writer() as connection, connections.reader() as reader:
            after = {connection.info.backend_pid, reader.info.backend_pid}

    assert not before & after


def test_the_driver_logs_nothing_about_connections_of_demur(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, pool = logging.getLogger("psycopg"), logging.getLogger("psycopg.pool")
    connection = Connection.__new__(Connection)
    monkeypatch.setattr(Connection, "__del__", lambda _: None)
    pipeline = SimpleNamespace(_conn=connection)
    with caplog.at_level(logging.WARNING):
        pool.warning("error connecting in %r: %s", "demur", "refused")
        log.warning("error ignored terminating %r: %s", pipeline, "closed")
        pool.warning("error connecting in %r: %s", "another", "refused")
        log.warning("nothing in particular")

    assert caplog.messages == ["error connecting in 'another': refused", "nothing in particular"]


# -- a server that goes away ---------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    with running_server() as server:
        yield server


def test_after_an_outage_the_next_call_works(own_server: Server) -> None:
    with closing(open_postgres(own_server.new_database(), timeout_s=1)) as backend:
        store_batch(backend, [row(1)])
        assert backend.get_record(decision_id(1)) is not None
        own_server.stop()
        try:
            with pytest.raises(UnavailableError, match="cannot use the database"):
                store_batch(backend, [row(2)])
            with pytest.raises(UnavailableError, match="cannot use the database"):
                backend.get_record(decision_id(1))
        finally:
            own_server.start()
        store_batch(backend, [row(3)])

        assert assert_whole(backend) == [decision_id(1), decision_id(3)]


def test_a_restart_between_two_calls_is_not_noticed(own_server: Server) -> None:
    with closing(open_postgres(own_server.new_database(), timeout_s=5)) as backend:
        store_batch(backend, [row(1)])
        assert backend.get_record(decision_id(1)) is not None
        own_server.stop()
        own_server.start()
        store_batch(backend, [row(2)])

        assert assert_whole(backend) == [decision_id(1), decision_id(2)]


def cut(url: str) -> None:
    """End every other connection to a database, as an operator or a broken network does."""
    run(
        url,
        """
        SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        """,
    )


def test_a_connection_lost_within_a_write_stores_nothing(
    backend: Backend, postgres_url: str
) -> None:
    def lose() -> None:
        with backend.transaction() as write:
            write.lock_heads(["acme"])
            cut(postgres_url)
            write.append_rows([row(1)])

    with pytest.raises(UnavailableError):
        lose()
    store_batch(backend, [row(2)])

    assert assert_whole(backend) == [decision_id(2)]


def test_a_write_that_is_left_half_way_frees_the_connection(backend: Backend) -> None:
    def interrupt() -> None:
        with backend.transaction() as write:
            write.lock_heads(["acme"])
            write.append_rows([row(1)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    store_batch(backend, [row(2)])

    assert assert_whole(backend) == [decision_id(2)]


def test_a_database_that_may_only_be_read_is_unavailable(postgres_url: str) -> None:
    open_postgres(postgres_url).close()
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    with closing(open_postgres(postgres_url)) as backend:
        with pytest.raises(UnavailableError, match="read-only transaction"):
            store_batch(backend, [row(1)])
        assert backend.list_tenants() == []


def test_heads_that_vanished_do_not_stop_the_chain(backend: Backend, postgres_url: str) -> None:
    with backend.transaction() as write:
        write.lock_heads(["acme"])
    run(postgres_url, "DELETE FROM chain_heads")
    store_batch(backend, [row(1)])

    assert assert_whole(backend) == [decision_id(1)]


# -- types and guards ----------------------------------------------------------------------


def test_a_zero_character_in_a_column_is_a_problem_of_its_row(backend: Backend) -> None:
    for bad in (
        row(1)._replace(tenant="a\x00b"),
        row(1)._replace(request_id="a\x00b"),
        row(1)._replace(subject="a\x00b"),
        row(1)._replace(reason_codes=("a\x00b",)),
    ):
        with pytest.raises(StorageError) as caught:
            store_batch(backend, [bad])
        assert not isinstance(caught.value, UnavailableError)


def test_a_request_id_too_long_for_an_index_is_a_problem_of_its_row(backend: Backend) -> None:
    long = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(2000))
    with pytest.raises(StorageError, match="index row size") as caught:
        store_batch(backend, [row(1, request_id=long)])

    assert not isinstance(caught.value, UnavailableError)


def test_the_longest_names_a_request_may_have_are_stored(backend: Backend) -> None:
    widest = "".join(chr(0x20000 + number * 7919 % 40000) for number in range(513))
    stored = row(1, tenant=widest[:256], request_id=widest[-256:], sealed={"requester": widest})
    store_batch(backend, [stored])

    assert [one.row for one in backend.read_linked(stored.tenant, 1, None)] == [stored]
    assert backend.erase_subject(stored.tenant, widest, by="ops", reason="test") == 1


def test_columns_have_the_types_that_queries_expect(backend: Backend, postgres_url: str) -> None:
    store_batch(backend, [row(1, reason_codes=("RATE_LIMIT", "PII_EXPOSURE"))])
    asked = """
        SELECT pg_typeof(created_at)::text, pg_typeof(reason_codes)::text,
               pg_typeof(amount_value)::text, created_at = '2027-01-01T00:00:00.001Z',
               'PII_EXPOSURE' = ANY(reason_codes), record->>'decision_id'
        FROM decision_records
    """

    assert run(postgres_url, asked) == [
        (
            "timestamp with time zone",
            "text[]",
            "double precision",
            True,
            True,
            decision_id(1),
        )
    ]


def test_a_time_that_no_record_would_write_stays_visible(
    backend: Backend, postgres_url: str
) -> None:
    store_batch(backend, [row(1)])
    run(
        postgres_url,
        """
        SET session_replication_role = replica;
        UPDATE decision_records SET created_at = created_at + interval '1 microsecond'
        """,
    )

    [one] = backend.read_linked("acme", 1, None)
    assert one.row.created_at == "2027-01-01T00:00:00.001001Z"
    assert "`created_at`" in verify_chain(backend).breaks[0].problem


TAMPERING = [
    "UPDATE decision_records SET record = '{}'",
    "UPDATE decision_records SET record_hash = 'x'",
    "UPDATE decision_records SET previous_hash = 'x'",
    "UPDATE decision_records SET seq = 7",
    "UPDATE decision_records SET decision_id = 'x'",
    "UPDATE decision_records SET tenant = 'x'",
    "UPDATE decision_records SET created_at = now()",
    "UPDATE decision_records SET reason_codes = '{}'",
    "UPDATE decision_records SET verdict = 'ALLOW'",
    "UPDATE decision_records SET sealed = '{}'",
    "UPDATE decision_records SET subject = 'x'",
    "UPDATE decision_records SET sealed = NULL",  # the subject still stands
    "UPDATE decision_records SET confirmed = true",
    "DELETE FROM decision_records",
    "TRUNCATE decision_records",
]


def test_a_stored_record_cannot_be_changed_by_accident(backend: Backend, postgres_url: str) -> None:
    store_batch(backend, [row(1)])
    for statement in TAMPERING:
        with pytest.raises(psycopg.IntegrityError, match="decision record"):
            run(postgres_url, statement)

    assert assert_whole(backend) == [decision_id(1)]


def test_retiring_ends_with_its_transaction(backend: Backend, postgres_url: str) -> None:
    store_batch(backend, [row(1), row(2)])
    assert backend.retire_records("acme", moment(2), by="ops", reason="test") == 1

    with (
        pytest.raises(StorageError, match="retired by the store, not deleted"),
        backend.transaction() as write,
    ):
        write._connection.execute("DELETE FROM decision_records")  # type: ignore[attr-defined]
    assert run(postgres_url, "SELECT seq FROM decision_records") == [(2,)]


# -- the server of the tests ---------------------------------------------------------------


def test_a_machine_without_a_server_skips_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("support.postgres_server._programs", lambda: tmp_path / "none" / "bin")

    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL on this machine"):
        running_server().__enter__()
