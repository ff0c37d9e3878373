import sys
from pathlib import Path

import pytest
from support.store_records import make_record

from demur.errors import InputError, MissingExtraError
from demur.store.opening import open_store


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
        ("postgresql://localhost/records", {"durability": "normal", "busy_timeout_s": 2})
    ]
