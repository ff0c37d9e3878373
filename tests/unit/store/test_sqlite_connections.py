import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from weakref import WeakSet

import pytest
from support.store_records import decision_id, make_record

from demur.store.backend import StorageError, UnavailableError
from demur.store.opening import open_store
from demur.store.sqlite import run_migrations
from demur.store.sqlite_connections import SqliteConnections, _after_fork
from demur.store.store import Store
from demur.store.verify import verify_chain


def test_a_newer_schema_is_an_error(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(StorageError, match="99 is newer") as caught:
        open_store(path)
    assert caught.value.where == str(path)


def test_a_file_that_is_not_a_database_is_an_error(path: Path) -> None:
    path.write_text("not a database, but long enough to look like one" * 30)

    with pytest.raises(UnavailableError, match="not a database") as caught:
        open_store(path)
    assert caught.value.help is not None


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="unable to open") as caught:
        open_store(tmp_path / "none" / "records.db")
    assert caught.value.help is not None
    assert "folder" in caught.value.help


READ_ONLY = """
import os, sys
from demur.store.backend import StorageError
from demur.store.opening import open_store
if os.geteuid() == 0:
    os.setuid(65534)  # nothing is read-only for the superuser
try:
    open_store(sys.argv[1])
except StorageError as error:
    print(type(error).__name__)
"""


def test_a_read_only_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    ran = subprocess.run(
        [sys.executable, "-c", READ_ONLY, folder / "records.db"],
        capture_output=True,
        text=True,
        check=False,
    )
    folder.chmod(stat.S_IRWXU)

    assert (ran.stdout, ran.stderr) == ("UnavailableError\n", "")
    assert list(folder.iterdir()) == []


def test_a_failed_migration_leaves_the_file_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE decision_records (something_else TEXT)")

    with pytest.raises(UnavailableError, match="decision_records"):
        open_store(path)
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert tables == [("decision_records",)]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE TABLE customers (name TEXT)", "it has the tables `customers`"),
        ("PRAGMA application_id = 1196444487", "belongs to another program"),
        ("PRAGMA user_version = 1; CREATE TABLE a (x); CREATE TABLE b (x)", "`a`, `b`"),
    ],
)
@pytest.mark.parametrize("defer", [False, True])
def test_a_file_of_another_program_is_refused_and_stays_as_it_is(
    path: Path, statement: str, named: str, defer: bool
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statement)
    before = path.read_bytes()

    with pytest.raises(StorageError, match=named) as caught:
        open_store(path, defer=defer)

    assert caught.value.where == str(path)
    assert caught.value.help is not None
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with open_store(path) as store:
        store.put(make_record(1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x64656D75,)


# -- a file that goes away while it is open --------------------------------------------------


def files_of(path: Path) -> list[Path]:
    return [path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))]


def move_files(path: Path, folder: Path) -> None:
    """Move the files of a store into a folder."""
    folder.mkdir(exist_ok=True)
    for file in files_of(path):
        file.rename(folder / file.name)


def assert_refused(store: Store, path: Path, problem: str) -> None:
    for use in (lambda: store.put(make_record(9)), store.info):
        with pytest.raises(UnavailableError, match=problem) as caught:
            use()
        assert caught.value.where == str(path)
        assert "put it back" in str(caught.value.help)


@pytest.mark.parametrize("gone", [["", "-wal", "-shm"], [""]])
def test_a_removed_file_takes_no_records_and_is_not_created_again(
    path: Path, gone: list[str]
) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        for end in gone:
            path.with_name(f"{path.name}{end}").unlink()
        assert_refused(store, path, "removed or replaced the file of the store")
        with pytest.raises(UnavailableError):
            store.get(decision_id(1))

        assert not path.exists()


def test_a_file_that_is_put_back_goes_on_as_it_was(path: Path, tmp_path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        move_files(path, tmp_path / "elsewhere")
        assert_refused(store, path, "removed or replaced the file of the store")
        for file in (tmp_path / "elsewhere").iterdir():
            file.rename(path.parent / file.name)
        store.put(make_record(2))

        assert verify_chain(store.backend).records == 2


def test_a_copy_with_all_records_goes_on_and_an_older_one_does_not(
    path: Path, tmp_path: Path
) -> None:
    older, copy, empty = tmp_path / "older.db", tmp_path / "copy.db", tmp_path / "empty.db"
    with open_store(path) as store:
        store.put(make_record(1))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM INTO ?", (str(older),))
            store.put(make_record(2))
            connection.execute("VACUUM INTO ?", (str(copy),))
        with store.backend._connections.reader():  # type: ignore[attr-defined]
            # A reader that is in use meanwhile must not come back later.
            move_files(path, tmp_path / "elsewhere")
            empty.touch()
            for other in (empty, older):
                other.replace(path)
                assert_refused(store, path, "without the newest records")
            copy.replace(path)
            store.put(make_record(3))
        assert [record.decision_id for record in store.find_records()] == [
            decision_id(number) for number in (1, 2, 3)
        ]
        assert verify_chain(store.backend).records == 3


def test_a_file_that_is_replaced_by_that_of_another_program_is_refused(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        with closing(sqlite3.connect(path.with_name("other.db"))) as connection:
            connection.execute("CREATE TABLE customers (name TEXT)")
        for file in files_of(path):
            file.unlink()
        path.with_name("other.db").rename(path)

        with pytest.raises(StorageError, match="belongs to another program"):
            store.put(make_record(2))


def test_a_file_that_goes_away_during_a_write_is_not_acknowledged(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        removed = pytest.raises(UnavailableError, match="removed or replaced the file of the store")
        with removed, store.backend.transaction():
            move_files(path, path.parent / "elsewhere")


def test_a_lost_log_loses_nothing_that_was_acknowledged(path: Path) -> None:
    with open_store(path) as store:
        store.put(make_record(1))
        files_of(path)[1].unlink()
        with pytest.raises(UnavailableError):
            store.put(make_record(2))
        store.put(make_record(3))
    with open_store(path) as store:
        verification = verify_chain(store.backend)
        assert store.get(decision_id(1)) is not None
        assert store.get(decision_id(3)) is not None
        assert verification.holds
        assert verification.unconfirmed == verification.records - 2


def test_a_link_to_a_store_is_followed_and_checked(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    open_store(path).close()
    with open_store(link) as store:
        store.put(make_record(1))
        link.unlink()
        open_store(tmp_path / "other.db").close()
        link.symlink_to(tmp_path / "other.db")
        assert_refused(store, link, "without the newest records")


def test_a_store_is_found_after_the_working_directory_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("demur.db") as store:
        store.put(make_record(1))
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        store.put(make_record(2))
        assert store.count_rows()["records"] == 2
    assert list((tmp_path / "sub").iterdir()) == []


def test_a_schema_created_meanwhile_is_not_created_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(path).close()
    answers = iter([0])
    real = sys.modules["demur.store.sqlite"]._schema_version
    monkeypatch.setattr(
        "demur.store.sqlite._schema_version", lambda given: next(answers, real(given))
    )

    with open_store(path) as store:
        assert store.info()["schema_version"] == 6


def test_turning_on_the_log_waits_for_others_and_not_for_ever(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnavailableError, match="locked"):
            open_store(path, busy_timeout_s=0.05)
        opened: list[Store] = []
        thread = threading.Thread(target=lambda: opened.append(open_store(path)))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        other.execute("ROLLBACK")
        thread.join(20)
    assert len(opened) == 1
    opened[0].close()


class Busy:
    """A database that another process is just turning to its log."""

    def __init__(self, times: int) -> None:
        self.times = times

    def execute(self, _: str) -> None:
        """Refuse as long as it lasts."""
        self.times -= 1
        if self.times >= 0:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorname = "SQLITE_BUSY"
            raise error


def test_turning_on_the_log_is_tried_again_where_sqlite_does_not_wait(store: Store) -> None:
    connections = store.backend._connections  # type: ignore[attr-defined]
    busy = Busy(times=2)
    connections._switch_to_log(busy)

    assert busy.times == -1


def test_readers_are_lent_and_reused(store: Store) -> None:
    connections = store.backend._connections  # type: ignore[attr-defined]
    with connections.reader() as first, connections.reader() as second:
        assert first is not second
    with connections.reader() as again:
        assert again in {first, second}
        with pytest.raises(sqlite3.OperationalError):
            again.execute("DELETE FROM labels")


def test_a_reader_that_comes_back_after_closing_is_closed(path: Path) -> None:
    connections = SqliteConnections(
        str(path), synchronous="NORMAL", busy_timeout_s=1, migrate=run_migrations
    )
    with connections.reader() as connection:
        connections.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)

    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")


def test_after_a_fork_the_parents_connections_are_left_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[sqlite3.Connection] = []
    monkeypatch.setattr("demur.store.sqlite_connections._INHERITED", left)
    connections = store.backend._connections  # type: ignore[attr-defined]
    # Other tests of this process may have left stores open.
    monkeypatch.setattr("demur.store.sqlite_connections._LIVE", WeakSet([connections]))
    store.put(make_record(1))
    with connections.reader():
        pass
    _after_fork()

    assert len(left) == 2
    assert [connection.execute("SELECT 1").fetchone() for connection in left] == [(1,), (1,)]
    assert store.put(make_record(2)).record.chain is not None
    connections.drop_writer()
    connections._start_afresh()
    assert len(left) == 2
    with open_store(":memory:") as memory:
        memory.put(make_record(1))
        memory.backend._connections._start_afresh()  # type: ignore[attr-defined]
        assert memory.count_rows()["records"] == 1
    for connection in left:
        connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("reopened", [False, True])
def test_a_forked_child_stores_with_connections_of_its_own(store: Store, reopened: bool) -> None:
    store.put(make_record(1))
    assert store.get(decision_id(1)) is not None
    if reopened:
        store.backend._connections.drop_writer()  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            store.put(make_record(2))
            status = 0 if store.get(decision_id(1)) is not None else 2
            store.close()
        os._exit(status)

    store.put(make_record(3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.put(make_record(4))
    assert verify_chain(store.backend).records == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_store_in_memory_lives_on_in_a_child() -> None:
    with open_store(":memory:") as store:
        store.put(make_record(1))
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                store.put(make_record(2))
                status = store.count_rows()["records"] - 2
            os._exit(status)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.count_rows()["records"] == 1
