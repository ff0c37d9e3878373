import threading
from pathlib import Path

import pytest

from demur.scan.cache import save_cached

hyperscan = pytest.importorskip("hyperscan")
from demur.scan import hyperscan_engine  # noqa: E402 - needs what was just asked for
from demur.scan.hyperscan_engine import HyperscanEngine  # noqa: E402 - likewise


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which databases are kept during a test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("DEMUR_CACHE", str(path))
    return path


def test_it_says_which_expressions_match_in_order() -> None:
    engine = HyperscanEngine([b"cat", rb"\bdog\b", b"ox"])

    assert sorted(engine.find_matching(b"an ox and a cat, dogged")) == [0, 2]
    assert engine.find_matching(b"") == {}


def test_it_says_where_matches_end_unless_once_is_enough() -> None:
    engine = HyperscanEngine([b"cat", b"dog"], presence_only={1})

    assert engine.find_matching(b"cat dog cat dog") == {0: [3, 11], 1: []}


def test_no_expressions_match_nothing() -> None:
    assert HyperscanEngine([]).find_matching(b"cat") == {}


def test_a_database_is_kept_and_used_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HyperscanEngine([b"cat", b"dog"])
    assert len(list(folder.iterdir())) == 1

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(hyperscan_engine, "_compile", never)
    assert HyperscanEngine([b"cat", b"dog"]).find_matching(b"a dog").keys() == {1}


def test_other_expressions_have_another_key(folder: Path) -> None:
    HyperscanEngine([b"cat", b"dog"])
    HyperscanEngine([b"catdog"])
    HyperscanEngine([b"dog", b"cat"])

    assert len(list(folder.iterdir())) == 3


def test_a_corrupt_cached_database_is_recompiled(folder: Path) -> None:
    HyperscanEngine([b"cat"])
    [path] = folder.iterdir()
    save_cached(folder, path.stem, b"no database at all")

    assert HyperscanEngine([b"cat"]).find_matching(b"cat").keys() == {0}


def test_without_a_folder_it_works_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_CACHE", "off")

    assert HyperscanEngine([b"cat"]).find_matching(b"cat").keys() == {0}


def test_patterns_that_hyperscan_rejects_are_approximated_or_run_by_re2() -> None:
    # Looking around can only be approximated, and nothing is not allowed at all.
    engine = HyperscanEngine([b"cat", b"ox(?=en)", b"(?:dog)?", b"cow"])

    assert sorted(engine.find_matching(b"oxen and cows")) == [1, 2, 3]
    assert sorted(engine.find_matching(b"cat")) == [0, 2]


def test_if_all_is_refused_re2_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperscan_engine, "_compile", lambda *_: None)
    engine = HyperscanEngine([b"cat", b"dog"])

    assert engine.find_matching(b"a dog").keys() == {1}


def test_threads_do_not_disturb_each_other() -> None:
    engine = HyperscanEngine([b"needle", b"a{3,9}"])
    text = b"b" * 200_000 + b"needle"
    seen: list[dict[int, list[int]]] = []

    def look() -> None:
        seen.extend(engine.find_matching(text) for _ in range(20))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [{0: [len(text)]}] * 80
