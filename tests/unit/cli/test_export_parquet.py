from pathlib import Path

import pytest
from support.command_line import demur
from support.store_records import make_record, moment

from demur.store.opening import open_store

pytest.importorskip("pyarrow")

BY = ("--by", "ops", "--reason", "asked to", "--yes")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder whose store holds the decisions of two days."""
    monkeypatch.chdir(tmp_path)
    Path("demur.toml").write_text('store = "demur.db"\n')
    with open_store("demur.db") as store:
        store.put_many(
            [make_record(number, created_at=moment(number * 3_600_000)) for number in range(1, 31)]
        )
    return tmp_path


def test_each_run_adds_what_is_new() -> None:
    first, second = (demur("export", "--parquet", "decisions") for _ in range(2))

    assert (first.status, second.status) == (0, 0)
    assert first.out == "decisions: added 30 decisions in 2 files\n"
    assert second.out == "decisions: added 0 decisions in 0 files\n"


def test_erasing_reaches_the_files() -> None:
    demur("export", "--parquet", "decisions", "--tenant", "acme")
    assert demur("audit", "erase", "--subject", "user:ada", "--tenant", "acme", *BY).status == 0

    ran = demur("export", "--parquet", "decisions")

    assert ran.status == 0
    assert ran.out.splitlines()[1] == (
        "  rewrote 2 files, removed 0: what was erased or retired is gone from them"
    )


def test_files_that_are_not_reached_are_named_and_then_forgotten() -> None:
    demur("export", "--parquet", "decisions")
    [path] = Path("decisions").glob("day=2027-01-01/*/*.parquet")
    path.rename("copy.parquet")
    demur("audit", "retire", "--before", "2027-01-02", "--tenant", "acme", *BY)

    named = demur("export", "--parquet", "decisions")
    forgotten = demur("export", "--parquet", "decisions", "--forget-unreachable")
    after = demur("export", "--parquet", "decisions")

    assert (named.status, forgotten.status, after.status) == (1, 0, 0)
    assert f"not erased: {path}: the file is missing" in named.err
    assert "--forget-unreachable" in named.err
    assert "forgot 1 file" in forgotten.out
    assert after.err == ""


@pytest.mark.parametrize(
    "words",
    [
        ("last", "--parquet", "d"),
        ("--parquet", "d", "--since", "1d"),
        ("--parquet", "d", "--out", "x"),
        ("--parquet", "d", "--pack"),
    ],
)
def test_it_takes_everything_or_one_tenant(words: tuple[str, ...]) -> None:
    ran = demur("export", *words)

    assert ran.status == 2
    assert "--parquet cannot be combined with" in ran.err


def test_forgetting_is_for_parquet_alone() -> None:
    assert "needs --parquet" in demur("export", "--all", "--forget-unreachable").err
