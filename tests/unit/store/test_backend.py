import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.store_records import make_record

from demur.store.backend import Migration, StorageError, load_migrations, pending_migrations
from demur.store.opening import open_store

STEPS = (Migration(1, "one"), Migration(2, "two"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_steps_are_numbered_from_one_without_gaps(kind: str) -> None:
    steps = load_migrations(kind)

    assert [step.version for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.parametrize(("current", "needed"), [(0, [1, 2]), (1, [2]), (2, [])])
def test_only_what_is_missing_is_applied(current: int, needed: list[int]) -> None:
    assert [step.version for step in pending_migrations(STEPS, current, "here")] == needed


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(StorageError, match=r"version 3 is newer .* \(2\)") as caught:
        pending_migrations(STEPS, 3, "here")
    assert caught.value.where == "here"


def test_each_script_for_sqlite_ends_with_a_whole_statement() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in load_migrations("sqlite"):
            assert sqlite3.complete_statement(step.sql)
            connection.executescript(step.sql)


def test_a_store_of_an_earlier_version_is_brought_up_to_date_with_its_records(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    with open_store(path) as store:
        store.put(make_record(1))
    with closing(sqlite3.connect(path)) as old:
        grants = ("chain_events", "grants", "grant_uses", "grant_revocations", "sessions")
        people = ("people", "person_keys")
        approvals = ("approvals", "approval_votes")
        search = ("search_index", "search_entries", "search_marks")
        for table in ("tallies", "tally_marks", "api_keys", *grants, *people, *approvals, *search):
            old.execute(f"DROP TABLE {table}")
        old.execute("DROP INDEX labels_by_tenant")
        old.execute("DROP INDEX decision_records_by_subject")
        old.execute("CREATE INDEX decision_records_by_subject ON decision_records (subject)")
        old.execute("PRAGMA user_version = 1")

    with open_store(path) as store:
        day = datetime(2027, 1, 1, tzinfo=UTC)
        counted = store.read_tallies("acme", day, day + timedelta(days=1))
        assert [one.number for one in counted.decisions] == [1]
        assert store.info()["schema_version"] == 6
