import sqlite3
from contextlib import closing

import pytest

from demur.store.backend import StorageError
from demur.store.migrate import Migration, migrations, pending

STEPS = (Migration(1, "one"), Migration(2, "two"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_steps_are_numbered_from_one_without_gaps(kind: str) -> None:
    steps = migrations(kind)

    assert [step.version for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.parametrize(("current", "needed"), [(0, [1, 2]), (1, [2]), (2, [])])
def test_only_what_is_missing_is_applied(current: int, needed: list[int]) -> None:
    assert [step.version for step in pending(STEPS, current, "here")] == needed


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(StorageError, match=r"version 3 is newer .* \(2\)") as caught:
        pending(STEPS, 3, "here")
    assert caught.value.where == "here"


def test_each_script_for_sqlite_ends_with_a_whole_statement() -> None:
    for step in migrations("sqlite"):
        assert sqlite3.complete_statement(step.sql)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(step.sql)
