import os
import sys
import threading
from pathlib import Path

import pytest

from demur.scan import cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that belongs to the user alone."""
    path = tmp_path / "cache"
    cache.save_cached(path, "seed", b"")
    return path


def test_a_cached_database_is_loaded_again(folder: Path) -> None:
    cache.save_cached(folder, "key", b"payload")

    assert cache.load_cached(folder, "key") == b"payload"
    assert cache.load_cached(folder, "other") is None


def test_only_the_owner_can_read_it(folder: Path) -> None:
    cache.save_cached(folder, "key", b"payload")

    assert (folder / "key.database").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.suffix for path in folder.iterdir()) == [".database", ".database"]


def test_a_changed_file_is_not_believed(folder: Path) -> None:
    cache.save_cached(folder, "key", b"payload")
    path = folder / "key.database"
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    assert cache.load_cached(folder, "key") is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(folder: Path, mode: int) -> None:
    cache.save_cached(folder, "key", b"payload")
    folder.chmod(mode)

    assert cache.load_cached(folder, "key") is None
    cache.save_cached(folder, "new", b"payload")
    assert not (folder / "new.database").exists()


def test_a_folder_in_one_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    above = tmp_path / "open"
    above.mkdir()
    above.chmod(0o777)
    cache.save_cached(above / "cache", "key", b"payload")
    assert cache.load_cached(above / "cache", "key") is None

    above.chmod(0o1777)
    cache.save_cached(above / "cache", "key", b"payload")
    assert cache.load_cached(above / "cache", "key") == b"payload"


def test_a_folder_below_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save_cached(folder, "key", b"payload")
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.load_cached(folder, "key") is None

    if owner == 0:
        os.chown(folder.parent, 12345, 12345)
        monkeypatch.setattr(os, "geteuid", lambda: owner)
        assert cache.load_cached(folder, "key") is None
        os.chown(folder.parent, owner, owner)


def test_a_file_that_others_can_write_and_a_link_are_not_believed(folder: Path) -> None:
    cache.save_cached(folder, "key", b"payload")
    (folder / "link.database").symlink_to(folder / "key.database")
    assert cache.load_cached(folder, "link") is None

    (folder / "key.database").chmod(0o666)
    assert cache.load_cached(folder, "key") is None


def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "key.database", 0o600)
    found: list[bytes | None] = []
    reader = threading.Thread(
        target=lambda: found.append(cache.load_cached(folder, "key")), daemon=True
    )
    reader.start()
    reader.join(timeout=30)

    assert found == [None]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")

    cache.save_cached(file / "cache", "key", b"payload")

    assert cache.load_cached(file / "cache", "key") is None


def test_a_write_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(Path, "replace", fail)
    cache.save_cached(folder, "key", b"payload")

    assert [path.name for path in folder.iterdir()] == ["seed.database"]


def test_the_oldest_are_discarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_FILES", 2)
    os.utime(folder / "seed.database", (1, 1))
    cache.save_cached(folder, "one", b"")
    cache.save_cached(folder, "two", b"")

    assert {path.stem for path in folder.iterdir()} == {"one", "two"}


def test_the_folder_is_named_by_the_environment(tmp_path: Path) -> None:
    assert cache.cache_folder({"DEMUR_CACHE": str(tmp_path)}) == tmp_path
    assert cache.cache_folder({"DEMUR_CACHE": "here"}) == Path("here").absolute()
    assert cache.cache_folder({"DEMUR_CACHE": "off"}) is None


def test_the_default_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/mary"))
    monkeypatch.setattr(sys, "platform", "linux")

    assert cache.cache_folder({}) == Path("/home/mary/.cache/demur")
    assert cache.cache_folder({"XDG_CACHE_HOME": "/var/mine"}) == Path("/var/mine/demur")
    assert cache.cache_folder({"XDG_CACHE_HOME": "mine"}) == Path("/home/mary/.cache/demur")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.cache_folder({}) == Path("/home/mary/Library/Caches/demur")


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)

    assert cache.cache_folder({}) is None
