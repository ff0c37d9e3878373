import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store_records import make_record

from demur.errors import InputError, MissingExtraError
from demur.store.backend import StorageError, UnavailableError
from demur.store.opening import DeferredBackend, open_store
from demur.store.spool import Spool
from demur.store.sql import Backend


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}", "sqlite:///{folder}/a%20b.db"])
def test_a_file_has_several_addresses(tmp_path: Path, form: str) -> None:
    address = form.format(path=tmp_path / "a b.db", folder=tmp_path)
    with open_store(address) as store:
        store.put(make_record(1))

    with open_store(tmp_path / "a b.db") as store:
        assert store.count_rows()["records"] == 1


def test_three_slashes_begin_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///records.db").close()

    assert (tmp_path / "records.db").exists()


@pytest.mark.parametrize("address", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_store_can_live_in_memory(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(address) as store:
        assert store.info()["place"] == ":memory:"

    assert list(tmp_path.iterdir()) == []


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(InputError, match="`mysql://`"):
        open_store("mysql://localhost/records")


def test_an_empty_path_is_an_error_and_not_a_store_that_forgets() -> None:
    with pytest.raises(InputError, match="the path of the store is empty"):
        open_store("")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_missing_driver_names_what_to_install(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "demur.store.postgres", None)

    with pytest.raises(MissingExtraError) as caught:
        open_store(f"{scheme}://localhost/records")
    assert caught.value.help == "pip install 'demur[postgres]'"


def test_an_address_of_postgresql_goes_to_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, object]]] = []
    module = type(sys)("demur.store.postgres")

    def open_postgres(url: str, **settings: object) -> None:
        asked.append((url, settings))

    module.__dict__["open_postgres"] = open_postgres
    monkeypatch.setitem(sys.modules, "demur.store.postgres", module)
    open_store("postgresql://localhost/records", durability="normal", busy_timeout_s=2)

    assert asked == [
        (
            "postgresql://localhost/records",
            {"durability": "normal", "busy_timeout_s": 2, "deadline_s": 5.0},
        )
    ]


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_every_file_of_a_new_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    with open_store(tmp_path / "demur.db") as store:
        store.put(make_record(1))
        Spool(tmp_path / "demur.db.spool.jsonl").add(make_record(2))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    ends = ("", "-shm", "-wal", ".spool.jsonl")
    assert modes == {f"demur.db{end}": 0o600 for end in ends}


def test_an_existing_store_keeps_its_mode(tmp_path: Path) -> None:
    open_store(tmp_path / "demur.db").close()
    (tmp_path / "demur.db").chmod(0o640)
    open_store(tmp_path / "demur.db").close()

    assert (tmp_path / "demur.db").stat().st_mode & 0o777 == 0o640


def test_a_store_that_is_down_can_be_opened_at_its_next_use(tmp_path: Path) -> None:
    path = tmp_path / "later" / "demur.db"
    with pytest.raises(UnavailableError):
        open_store(path)
    with open_store(path, defer=True) as store:
        with pytest.raises(UnavailableError, match="unable to open") as caught:
            store.put(make_record(1))
        assert caught.value.where == str(path)
        path.parent.mkdir()
        store.put(make_record(1))

        assert store.count_rows()["records"] == 1
        assert store.info()["kind"] == "sqlite"


def test_after_a_slow_attempt_further_uses_fail_at_once_for_a_while() -> None:
    now, attempts = [0.0], []

    def opening() -> Backend:
        attempts.append(now[0])
        now[0] += 30
        raise UnavailableError("no answer", where="db", help="wait")

    backend = DeferredBackend(opening, clock_s=lambda: now[0])
    for _ in range(3):
        with pytest.raises(UnavailableError, match="no answer") as caught:
            backend.info()
    now[0] += 6
    with pytest.raises(UnavailableError):
        backend.info()

    assert attempts == [0.0, 36.0]
    assert (caught.value.where, caught.value.help) == ("db", "wait")


def test_closing_a_store_that_was_never_reached_does_nothing(tmp_path: Path) -> None:
    open_store(tmp_path / "later" / "demur.db", defer=True).close()

    assert list(tmp_path.iterdir()) == []


def test_a_postgresql_server_that_is_down_can_be_reached_later() -> None:
    with (
        open_store("postgresql://127.0.0.1:1/demur", defer=True, busy_timeout_s=2) as store,
        pytest.raises(UnavailableError, match="cannot use") as caught,
    ):
        store.list_heads()
    assert caught.value.where == "127.0.0.1/demur"


def test_a_file_that_is_no_database_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database " * 100, encoding="utf-8")
    with pytest.raises(UnavailableError, match="not a database") as caught:
        open_store(tmp_path / "notes.txt", defer=True)
    assert caught.value.help == "name another file; this one is no SQLite database"


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder") as caught:
        open_store(tmp_path, defer=True)
    assert caught.value.where == str(tmp_path)
    assert caught.value.help == "name a file in it, like demur.db"
